package cmd

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// everyCommand calls do for all commands and topics but the hidden ones.
func everyCommand(t *testing.T, do func(*testing.T, *cobra.Command)) {
	t.Helper()
	seen := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		seen++
		t.Run(cmd.CommandPath(), func(t *testing.T) { do(t, cmd) })
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(Tree())
	if seen < 10 {
		t.Errorf("saw %d commands: where are the others?", seen)
	}
}

func TestAllHelpFitsATerminalOf80Columns(t *testing.T) {
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		var screen bytes.Buffer
		cmd.Root().SetOut(&screen)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		if screen.Len() == 0 {
			t.Error("there is none")
		}
		for line := range strings.Lines(screen.String()) {
			line = strings.TrimSuffix(line, "\n")
			if width := utf8.RuneCountInString(line); width > 80 || strings.Contains(line, "\t") {
				t.Errorf("a line has %d columns, or a tab:\n%s", width, line)
			}
		}
	})
}

func TestAllCommandsTellTheirExitStatusAndGiveAnExample(t *testing.T) {
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("its line in the list of commands is %q, want some words without a stop", cmd.Short)
		}
		if cmd.IsAdditionalHelpTopicCommand() {
			return
		}
		if !strings.Contains(cmd.Long, "\n\nEXIT STATUS\n  ") {
			t.Error("its help has no EXIT STATUS")
		}
		if !strings.HasPrefix(cmd.Example, "  ") {
			t.Errorf("its example is %q, want one that is indented", cmd.Example)
		}
	})
}
