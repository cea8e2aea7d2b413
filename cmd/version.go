package cmd

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionInfo is what "version --json" prints.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree that differs from the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// readVersion finds what the Go tool stamped into the program.
func readVersion() versionInfo {
	info := versionInfo{
		Version:  "(devel)",
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if build.Main.Version != "" {
		info.Version = build.Main.Version
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Commit = setting.Value
		case "vcs.modified":
			info.Modified = setting.Value == "true"
		}
	}
	return info
}

func version() string { return readVersion().Version }

func (p *program) newVersionCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of redlockrun",
		Long: `Print the version, the commit and the Go release that redlockrun was built from.

EXIT STATUS
  0`,
		Example: "  redlockrun version --json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			info := readVersion()
			if asJSON {
				return json.NewEncoder(p.stdout).Encode(info)
			}
			commit := ""
			if info.Commit != "" {
				commit = ", commit " + info.Commit
				if info.Modified {
					commit += " (modified)"
				}
			}
			_, err := fmt.Fprintf(p.stdout, "redlockrun %s%s, %s, %s\n", info.Version, commit, info.Go, info.Platform)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
