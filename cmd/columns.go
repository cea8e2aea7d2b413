package cmd

import (
	"strings"
	"unicode"
)

// A column of a terminal is no character: East Asian ones and pictures take
// two, and what is put on the character before it takes none.

// textWidth is how many columns a text takes.
func textWidth(text string) (columns int) {
	for _, r := range text {
		columns += runeWidth(r)
	}
	return columns
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300: // what most texts are made of
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	default:
		return 1
	}
}

// wide are those of two columns.
// Source: Unicode, EastAsianWidth.txt, classes W and F, without small gaps.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1},
		{0x231a, 0x231b, 1},
		{0x2329, 0x232a, 1},
		{0x23e9, 0x23f3, 1},
		{0x25fd, 0x25fe, 1},
		{0x2614, 0x2615, 1},
		{0x2648, 0x2653, 1},
		{0x267f, 0x27bf, 1},
		{0x2b1b, 0x2b55, 1},
		{0x2e80, 0x303e, 1},
		{0x3041, 0xa4cf, 1},
		{0xa960, 0xa97c, 1},
		{0xac00, 0xd7a3, 1},
		{0xf900, 0xfaff, 1},
		{0xfe10, 0xfe19, 1},
		{0xfe30, 0xfe6f, 1},
		{0xff01, 0xff60, 1},
		{0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{
		{0x16fe0, 0x18dff, 1},
		{0x1aff0, 0x1b2ff, 1},
		{0x1f000, 0x1faff, 1},
		{0x20000, 0x3fffd, 1},
	},
}

// clipped is as much of the beginning of a text as fits into columns.
func clipped(text string, columns int) string {
	for i, r := range text {
		if columns -= runeWidth(r); columns < 0 {
			return text[:i]
		}
	}
	return text
}

// cut shortens text to columns, two at least.
func cut(text string, columns int) string {
	if textWidth(text) <= columns {
		return text
	}
	return clipped(text, columns-2) + ".."
}

// padded fills a text up to columns.
func padded(text string, columns int) string {
	return text + strings.Repeat(" ", max(0, columns-textWidth(text)))
}
