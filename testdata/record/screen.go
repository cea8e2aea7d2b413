//go:build linux

package record

import "strings"

// screen is as much of a terminal as bash on a dumb one needs, and a line that
// is redrawn. It does not scroll: a session must fit.
type screen struct {
	rows        [][]rune
	row, column int
	escape      string // that has begun
}

func (s *screen) write(text string) {
	for _, r := range text {
		switch {
		case s.escape != "" || r == '\x1b':
			s.escape += string(r)
			if len(s.escape) > 2 && r >= '@' {
				s.execute()
			}
		case r == '\r':
			s.column = 0
		case r == '\n':
			s.row++
		case r == '\b':
			s.column = max(0, s.column-1)
		case r >= ' ':
			s.put(r)
		}
	}
}

// execute knows the one sequence that erases the rest of a line.
func (s *screen) execute() {
	if s.escape == "\x1b[K" && s.row < len(s.rows) {
		s.rows[s.row] = s.rows[s.row][:min(s.column, len(s.rows[s.row]))]
	}
	s.escape = ""
}

func (s *screen) put(r rune) {
	if s.column == Columns {
		s.row, s.column = s.row+1, 0
	}
	for len(s.rows) <= s.row {
		s.rows = append(s.rows, nil)
	}
	for len(s.rows[s.row]) <= s.column {
		s.rows[s.row] = append(s.rows[s.row], ' ')
	}
	s.rows[s.row][s.column] = r
	s.column++
}

// text has a line for each row that was written to.
func (s *screen) text() []string {
	lines := make([]string, len(s.rows))
	for i, row := range s.rows {
		lines[i] = string(row)
		if i != s.row {
			lines[i] = strings.TrimRight(lines[i], " ")
		}
	}
	return lines
}
