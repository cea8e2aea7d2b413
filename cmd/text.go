package cmd

import (
	"strings"
	"unicode"
)

func cutPrefixFold(s, prefix string) (rest string, found bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// printable makes text safe for a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// shellLine writes words as a line that a POSIX shell takes apart again.
func shellLine(words []string) string {
	quotedWords := make([]string, len(words))
	for i, word := range words {
		quotedWords[i] = word
		if word == "" || strings.ContainsFunc(word, specialToShells) {
			quotedWords[i] = "'" + strings.ReplaceAll(printable(word), "'", `'\''`) + "'"
		}
	}
	return strings.Join(quotedWords, " ")
}

func specialToShells(r rune) bool {
	switch {
	case r >= unicode.MaxASCII:
		return true
	case unicode.IsLetter(r), unicode.IsDigit(r):
		return false
	default:
		return !strings.ContainsRune("_-+=./:,@%^", r)
	}
}

// alignedRows writes rows as columns, two blanks apart.
func alignedRows(rows [][]string) string {
	widths := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], textWidth(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(padded(cell, widths[i]+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
