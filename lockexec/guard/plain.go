package guard

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Settings and outcomes travel as words: their fields in the order of the
// source, a pointer as 0, or 1 and what it points to, a list after its length,
// text quoted as in Go. Both ends are of one program, so that names of fields
// would tell nothing. (JSON tells them, and its first use for a type costs as
// much as a trip to the server.)

// appendPlain appends the words of a value, each with a blank before it. The
// value consists of numbers, truth values, text, bytes, and structs, lists and
// pointers of these; anything else is a fault of this program, and panics.
func appendPlain(line []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(append(line, ' '), v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(append(line, ' '), v.Int(), 10)
	case reflect.String:
		return strconv.AppendQuote(append(line, ' '), v.String())
	case reflect.Pointer:
		if v.IsNil() {
			return append(line, " 0"...)
		}
		return appendPlain(append(line, " 1"...), v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return strconv.AppendQuote(append(line, ' '), string(v.Bytes()))
		}
		line = strconv.AppendInt(append(line, ' '), int64(v.Len()), 10)
		for i := range v.Len() {
			line = appendPlain(line, v.Index(i))
		}
		return line
	case reflect.Struct:
		for _, field := range v.Fields() {
			line = appendPlain(line, field)
		}
		return line
	default:
		panic("guard: a " + v.Type().String() + " does not travel")
	}
}

// errPlain is text that appendPlain did not write.
var errPlain = errors.New("words are missing, or too many")

// parsePlain sets a value, which must be new, to what appendPlain wrote of one.
// A list or bytes of no length come back as nil.
func parsePlain(text string, v reflect.Value) error {
	rest, err := parseWords(text, v)
	if err == nil && rest != "" {
		err = errPlain
	}
	return err
}

// parseWords takes the words of v from the text, and returns those after them.
func parseWords(text string, v reflect.Value) (rest string, err error) {
	if v.Kind() == reflect.Struct {
		for of, field := range v.Fields() {
			if text, err = parseWords(text, field); err != nil {
				return "", fmt.Errorf("%s: %w", of.Name, err)
			}
		}
		return text, nil
	}
	if v.Kind() == reflect.String || v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return parseText(text, v)
	}
	if text == "" || text[0] != ' ' {
		return "", errPlain
	}
	word, rest := text[1:], ""
	if at := strings.IndexByte(word, ' '); at >= 0 {
		word, rest = word[:at], word[at:]
	}
	if v.Kind() == reflect.Bool {
		truth, err := strconv.ParseBool(word)
		v.SetBool(truth)
		return rest, err
	}
	number, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return "", err
	}
	switch v.Kind() {
	case reflect.Pointer:
		if number == 0 {
			return rest, nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		return parseWords(rest, v.Elem())
	case reflect.Slice:
		for range number {
			item := reflect.New(v.Type().Elem()).Elem()
			if rest, err = parseWords(rest, item); err != nil {
				return "", err
			}
			v.Set(reflect.Append(v, item))
		}
		return rest, nil
	default:
		if v.OverflowInt(number) {
			return "", strconv.ErrRange
		}
		v.SetInt(number)
		return rest, nil
	}
}

// parseText takes one word of text or bytes.
func parseText(text string, v reflect.Value) (rest string, err error) {
	text, found := strings.CutPrefix(text, " ")
	if !found {
		return "", errPlain
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", err
	}
	content, err := strconv.Unquote(quoted)
	if err != nil {
		return "", err
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(content)
	case content != "":
		v.SetBytes([]byte(content))
	}
	return text[len(quoted):], nil
}
