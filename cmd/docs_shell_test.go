//go:build unix

package cmd

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
)

// shellReader finds the simple commands in a shell script, with the words that
// they are made of. It knows as much of the language as the documentation
// uses: a variable or substitution stays in its word as it is written, and
// what is in a substitution is looked at, too.
type shellReader struct {
	text     string
	at       int
	commands [][]string

	command []string
	word    strings.Builder
	inWord  bool
	heredoc string // delimiter of one that begins with the next line
}

var errShellQuote = errors.New("a quote or parenthesis is not closed")

// shellCommands returns the simple commands of a script, also those within
// substitutions.
func shellCommands(script string) ([][]string, error) {
	r := &shellReader{text: script}
	err := r.read(false)
	return r.commands, err
}

func (r *shellReader) endWord() {
	if r.inWord {
		r.command = append(r.command, r.word.String())
	}
	r.word.Reset()
	r.inWord = false
}

func (r *shellReader) endCommand() {
	r.endWord()
	if len(r.command) > 0 {
		r.commands = append(r.commands, r.command)
	}
	r.command = nil
}

func (r *shellReader) add(text string) {
	r.word.WriteString(text)
	r.inWord = true
}

// read reads to the end, or to the parenthesis that closes a substitution.
func (r *shellReader) read(nested bool) error {
	for r.at < len(r.text) {
		c := r.text[r.at]
		rest := r.text[r.at:]
		switch {
		case strings.HasPrefix(rest, "\\\n"):
			r.at += 2
		case c == '\\' && len(rest) > 1:
			r.add(rest[1:2])
			r.at += 2
		case c == ' ' || c == '\t':
			r.endWord()
			r.at++
		case c == '\n':
			r.endCommand()
			r.at++
			r.skipHeredoc()
		case c == '#' && !r.inWord:
			r.at += len(rest) - len(strings.TrimLeftFunc(rest, func(c rune) bool { return c != '\n' }))
		case c == '\'':
			text, _, closed := strings.Cut(rest[1:], "'")
			if !closed {
				return errShellQuote
			}
			r.add(text)
			r.at += len(text) + 2
		case c == '"':
			if err := r.readQuoted(); err != nil {
				return err
			}
		case strings.HasPrefix(rest, "$(") || strings.HasPrefix(rest, "<(") || strings.HasPrefix(rest, ">("):
			if err := r.readSubstitution(); err != nil {
				return err
			}
		case c == '<' || c == '>':
			r.readRedirection()
		case c == ')' && nested:
			r.endCommand()
			r.at++
			return nil
		case strings.IndexByte(";&|()", c) >= 0:
			r.endCommand()
			r.at++
		default:
			r.add(rest[:1])
			r.at++
		}
	}
	if nested {
		return errShellQuote
	}
	r.endCommand()
	return nil
}

// readQuoted reads what is in double quotes.
func (r *shellReader) readQuoted() error {
	r.add("")
	for r.at++; r.at < len(r.text); {
		rest := r.text[r.at:]
		switch {
		case rest[0] == '"':
			r.at++
			return nil
		case rest[0] == '\\' && len(rest) > 1 && strings.IndexByte("\"\\$`\n", rest[1]) >= 0:
			r.add(rest[1:2])
			r.at += 2
		case strings.HasPrefix(rest, "$("):
			if err := r.readSubstitution(); err != nil {
				return err
			}
		default:
			r.add(rest[:1])
			r.at++
		}
	}
	return errShellQuote
}

// readSubstitution adds the substitution to the word as it is written, and
// the commands in it to those that were found.
func (r *shellReader) readSubstitution() error {
	inner := &shellReader{text: r.text, at: r.at + len("$(")}
	if err := inner.read(true); err != nil {
		return err
	}
	r.commands = append(r.commands, inner.commands...)
	r.add(r.text[r.at:inner.at])
	r.at = inner.at
	return nil
}

var (
	digits      = regexp.MustCompile(`^\d+$`)
	heredocWord = regexp.MustCompile(`^<<-?\s*['"]?(\w+)['"]?`)
	redirection = regexp.MustCompile(`^[<>&|]+[ \t]*`)
)

// readRedirection leaves the operator out, and the word that follows it.
func (r *shellReader) readRedirection() {
	if digits.MatchString(r.word.String()) {
		r.word.Reset()
		r.inWord = false
	}
	r.endWord()
	rest := r.text[r.at:]
	if match := heredocWord.FindStringSubmatch(rest); match != nil {
		r.heredoc = match[1]
		r.at += len(match[0])
		return
	}
	r.at += len(redirection.FindString(rest))
	target := &shellReader{text: r.text, at: r.at}
	for target.at < len(r.text) && strings.IndexByte(" \t\n;&|()<>", r.text[target.at]) < 0 {
		if r.text[target.at] == '"' && target.readQuoted() == nil {
			continue
		}
		target.at++
	}
	r.at = target.at
}

// skipHeredoc passes over the text of one that began on the line before. A
// script in it is looked at.
func (r *shellReader) skipHeredoc() {
	if r.heredoc == "" {
		return
	}
	body, _, _ := strings.Cut(r.text[r.at:], "\n"+r.heredoc+"\n")
	r.at = min(len(r.text), r.at+len(body)+len(r.heredoc)+2)
	r.heredoc = ""
	if strings.HasPrefix(body, "#!") {
		commands, _ := shellCommands(body)
		r.commands = append(r.commands, commands...)
	}
}

// ours matches a command line of redlockrun within some text.
var ours = regexp.MustCompile(`(?m)(^|[\s;&|(/"'])redlockrun (-|acquire |renew |release |history |embedded |help |version\b|completion )`)

// ourCalls returns the arguments of every call of redlockrun in a script.
func ourCalls(script string) ([][]string, error) {
	commands, err := shellCommands(script)
	var calls [][]string
	for _, words := range commands {
		calls = append(calls, callsIn(words)...)
	}
	return calls, err
}

// callsIn returns the arguments of every call of redlockrun that a command
// makes: itself, through another command, or in a script that it is given.
func callsIn(words []string) [][]string {
	var calls [][]string
	for i, word := range words {
		if path.Base(word) == "redlockrun" && (ours.MatchString("redlockrun "+strings.Join(words[i+1:], " ")+" ") || onlyPrefixes(words[:i])) {
			calls = append(calls, words[i+1:])
			if at := slices.Index(words[i+1:], "--"); at >= 0 {
				calls = append(calls, callsIn(words[i+1:][at+1:])...)
			}
			return calls
		}
		if strings.ContainsAny(word, " \n") && ours.MatchString(word) && !strings.HasPrefix(word, "$(") && !strings.Contains(word, "=$(") {
			inner, _ := ourCalls(word)
			calls = append(calls, inner...)
		}
	}
	return calls
}

// shellPrefixes may stand before a command.
var shellPrefixes = regexp.MustCompile(`^(!|\{|if|then|else|elif|while|until|do|exec|nohup|env|time|\w+=.*)$`)

func onlyPrefixes(words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !shellPrefixes.MatchString(word) })
}
