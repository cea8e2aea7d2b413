package cmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// A setting comes from, in this order: its flag, its environment variable, the
// configuration file, its default. The flag's own parser reads the value
// wherever it came from. viper only reads the file: its getters would make 30
// nanoseconds of "30" and nothing at all of "1d", without an error.

// sources tells where each setting that is not at its default came from, by
// the name of its flag, in the words that an error uses: "--ttl",
// "REDLOCKRUN_TTL", "ttl in /etc/redlockrun/config.yaml, line 3".
type sources map[string]source

type source struct {
	text string
	rank rank
}

// rank is which of the sources of a setting wins: the higher.
type rank int

const (
	inFile rank = iota
	inEnvironment
	asFlag
)

// of returns the source of a setting; one at its default is named by its flag.
func (s sources) of(name string) source {
	if src, ok := s[name]; ok {
		return src
	}
	return source{"--" + name, asFlag}
}

// beats reports whether a setting was given by a higher rank than another: where
// two contradict each other, and are not given alike, that one is meant.
func (s sources) beats(name, other string) bool {
	a, given := s[name]
	b, otherGiven := s[other]
	return given && otherGiven && a.rank > b.rank
}

// problem is one thing that is wrong with one setting.
type problem struct {
	source source
	text   string // a clause that follows the setting's name
}

// configError is all that is wrong with the settings of a call.
type configError struct{ problems []problem }

func (e *configError) Error() string {
	lines := make([]string, len(e.problems))
	for i, p := range e.problems {
		lines[i] = p.source.text + ": " + p.text
	}
	return strings.Join(lines, "\n  ")
}

// code is 64 where a flag is to blame, else 78.
func (e *configError) code() int {
	for _, p := range e.problems {
		if p.source.rank == asFlag {
			return exitUsage
		}
	}
	return exitConfig
}

// add notes a problem of a setting.
func (e *configError) add(src source, format string, args ...any) {
	e.problems = append(e.problems, problem{src, fmt.Sprintf(format, args...)})
}

// orNil returns e as an error if there is any problem.
func (e *configError) orNil() error {
	if len(e.problems) == 0 {
		return nil
	}
	return e
}

// onlyFlags are the flags that no environment or file sets.
var onlyFlags = map[string]bool{
	"help": true, "version": true, "json": true, "plot": true, "watch": true,
	"force": true, "now": true, "yes": true,
}

// foreignEnv are variables of other programs that set a flag when ours does
// not. An empty one counts as not set, as in those programs.
var foreignEnv = map[string]string{"redis": "REDIS_URL"}

func envName(flag string) string {
	return "REDLOCKRUN_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// secret reports whether the value of a setting may hold a password.
func secret(flag string) bool { return flag == "redis" }

// loadConfig fills every flag that was not given, from the environment and
// from the file, and returns where each value came from. Its error is a
// [*configError] with all that is wrong.
//
// A file is for all commands: a setting that is known only to others, of all
// that there are, is passed over.
func loadConfig(flags, all *pflag.FlagSet, environ func(string) (string, bool)) (sources, error) {
	found := sources{}
	wrong := &configError{}
	set := func(f *pflag.Flag, src source, values ...string) {
		found[f.Name] = src
		for _, value := range values {
			if err := flags.Set(f.Name, value); err != nil {
				wrong.add(src, "%s", quoteValue(f, value, rootCause(err)))
			}
		}
	}

	flags.VisitAll(func(f *pflag.Flag) {
		switch {
		case onlyFlags[f.Name]:
		case f.Changed:
			found[f.Name] = source{"--" + f.Name, asFlag}
		default:
			if name, value, ok := fromEnvironment(f, environ); ok {
				set(f, source{name, inEnvironment}, envValues(f, value)...)
			}
		}
	})

	file, err := readConfigFile(flags, found, environ)
	if err != nil {
		wrong.problems = append(wrong.problems, err.problems...)
		return found, wrong
	}
	for _, entry := range file.entries(flags, all, wrong) {
		if _, given := found[entry.flag.Name]; !given {
			set(entry.flag, entry.source, entry.values...)
		}
	}
	return found, wrong.orNil()
}

func fromEnvironment(f *pflag.Flag, environ func(string) (string, bool)) (name, value string, ok bool) {
	name = envName(f.Name)
	if value, ok = environ(name); ok {
		return name, value, true
	}
	if name = foreignEnv[f.Name]; name != "" {
		value, _ = environ(name)
		return name, value, value != ""
	}
	return "", "", false
}

// envValues splits the variable of a flag that may be repeated at blanks.
func envValues(f *pflag.Flag, value string) []string {
	if isList(f) {
		return strings.Fields(value)
	}
	return []string{value}
}

func isList(f *pflag.Flag) bool { return f.Value.Type() == "stringArray" }

// rootCause is the parser's complaint without pflag's frame around it.
func rootCause(err error) error {
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		return invalid.Unwrap()
	}
	return err
}
