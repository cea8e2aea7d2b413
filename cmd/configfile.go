package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// configFile is a file as viper read it, and its text, to find lines in.
type configFile struct {
	path  string
	text  string
	viper *viper.Viper
}

// configFormats are the formats of a configuration file, by its ending.
var configFormats = []string{"yaml", "yml", "toml", "json"}

// readConfigFile reads the file that --config or REDLOCKRUN_CONFIG names,
// which must exist, or else the first that there is in the user's and the
// system's configuration folder. It never looks in the working directory: a
// file planted there could send the lock elsewhere. nil is no file.
func readConfigFile(
	flags *pflag.FlagSet, from sources, environ func(string) (string, bool),
) (*configFile, *configError) {
	wrong := &configError{}
	path, src := flags.Lookup("config").Value.String(), from.of("config")
	if _, given := from["config"]; given && path == "" {
		wrong.add(src, "is empty: is a variable of your shell empty?")
		return nil, wrong
	}
	if path == "" {
		for _, dir := range configDirs(environ) {
			candidates := configFilesIn(dir)
			if len(candidates) > 1 {
				wrong.add(source{strings.Join(candidates, " and "), inFile}, "both exist: keep one of them")
				return nil, wrong
			}
			if len(candidates) == 1 {
				path, src = candidates[0], source{candidates[0], inFile}
				break
			}
		}
	}
	if path == "" {
		return nil, nil
	}

	text, err := os.ReadFile(path)
	if err != nil {
		wrong.add(source{src.text, inFile}, "can't read the configuration file: %v", err)
		return nil, wrong
	}
	file := &configFile{path: path, text: string(text), viper: viper.NewWithOptions(viper.KeyDelimiter(groupMark))}
	file.viper.SetConfigFile(path)
	if format := strings.TrimPrefix(filepath.Ext(path), "."); !slices.Contains(configFormats, format) {
		wrong.add(source{path, inFile}, "its name must end in one of .%s", strings.Join(configFormats, ", ."))
		return nil, wrong
	}
	if err := file.viper.ReadInConfig(); err != nil {
		wrong.add(source{path, inFile}, "%s", parseComplaint(err))
		return nil, wrong
	}
	return file, nil
}

// parseComplaint is the parser's own message, which has the line, without
// viper's words around it.
func parseComplaint(err error) string {
	if parse := (viper.ConfigParseError{}); errors.As(err, &parse) {
		err = parse.Unwrap()
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

func configDirs(environ func(string) (string, bool)) []string {
	var dirs []string
	if xdg, _ := environ("XDG_CONFIG_HOME"); filepath.IsAbs(xdg) {
		dirs = append(dirs, filepath.Join(xdg, "redlockrun"))
	} else if home, _ := environ("HOME"); filepath.IsAbs(home) {
		dirs = append(dirs, filepath.Join(home, ".config", "redlockrun"))
	}
	return append(dirs, systemConfigDir)
}

const systemConfigDir = "/etc/redlockrun"

func configFilesIn(dir string) []string {
	var files []string
	for _, format := range configFormats {
		path := filepath.Join(dir, "config."+format)
		_, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			_, err = os.Lstat(path) // a link to nothing is no absence: who made it meant a file
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		case errors.Is(err, fs.ErrPermission) && dir == systemConfigDir:
			return []string{path} // if it exists: it can't be told
		case errors.Is(err, fs.ErrPermission): // somebody else's HOME, left over by setpriv or su
		default:
			files = append(files, path)
		}
	}
	return files
}

// fileEntry is a setting as it stands in a file.
type fileEntry struct {
	flag   *pflag.Flag
	source source
	values []string
}

// entries returns the settings of the file, and notes what is wrong with
// those that are none. A nil file has none.
func (c *configFile) entries(flags, all *pflag.FlagSet, wrong *configError) []fileEntry {
	if c == nil {
		return nil
	}
	var entries []fileEntry
	settings := c.settings(flags)
	// In the order of the flags first, so that messages come in a fixed order.
	flags.VisitAll(func(f *pflag.Flag) {
		raw, present := settings[f.Name]
		if !present || !inFiles(f.Name) {
			return
		}
		delete(settings, f.Name)
		src := c.source(f.Name)
		values, err := fileValues(f, raw)
		if err == nil {
			err = c.checkNumber(f, values)
		}
		if err != nil {
			wrong.add(src, "%v", err)
			return
		}
		entries = append(entries, fileEntry{f, src, values})
	})
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if all.Lookup(name) != nil && inFiles(name) {
			continue
		}
		wrong.add(c.source(name), "there is no such setting%s", didYouMean(closest(name, settingNames(all))))
	}
	return entries
}

// groupMark joins the name of a group of settings to that of one in it. There
// are no groups here; with viper's own ".", a key with a dot would be one.
const groupMark = "\x00"

// settings returns all keys of the file, also those without a value.
func (c *configFile) settings(flags *pflag.FlagSet) map[string]any {
	settings := map[string]any{}
	flags.VisitAll(func(f *pflag.Flag) { // AllKeys leaves out empty groups
		if c.viper.InConfig(f.Name) {
			settings[f.Name] = c.viper.Get(f.Name)
		}
	})
	for _, key := range c.viper.AllKeys() {
		name, _, _ := strings.Cut(key, groupMark)
		settings[name] = c.viper.Get(name)
	}
	return settings
}

// inFiles reports whether a flag is a setting that a file can have.
func inFiles(flag string) bool { return !onlyFlags[flag] && flag != "config" }

func settingNames(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if inFiles(f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}

// source names a setting in the file, with its line where that is found.
func (c *configFile) source(name string) source {
	if strings.Contains(name, "://") || strings.Contains(name, "@") {
		return source{"a setting in " + c.path, inFile} // a URL that slipped; it may hold a password
	}
	text := name + " in " + c.path
	if line, _ := c.find(name); line > 0 {
		text += ", line " + strconv.Itoa(line)
	}
	return source{text, inFile}
}

// find returns the number of the line in which a setting stands, and what
// follows its name there; 0 where it is not found.
func (c *configFile) find(name string) (line int, value string) {
	for content := range strings.Lines(c.text) {
		line++
		key := strings.TrimLeft(content, " \t{,\"'")
		rest, found := cutPrefixFold(key, name)
		rest = strings.TrimLeft(rest, "\"' \t")
		if found && (strings.HasPrefix(rest, ":") || strings.HasPrefix(rest, "=")) {
			return line, strings.TrimSpace(rest[1:])
		}
	}
	return 0, ""
}

// checkNumber refuses a whole number that is written in another way than that
// which a flag takes: the format may have read something else than was meant
// (YAML makes 8 of 010).
func (c *configFile) checkNumber(f *pflag.Flag, values []string) error {
	if kind := f.Value.Type(); kind != "code" && kind != "number" {
		return nil
	}
	_, text := c.find(f.Name)
	if end := strings.IndexAny(text, " \t,}#"); end >= 0 {
		text = text[:end]
	}
	if text == "" || text[0] < '0' || text[0] > '9' || slices.Contains(values, text) {
		return nil
	}
	return fmt.Errorf("must be written as a plain decimal number, not %s", quoted(text))
}

// fileValues turns what the file's format made of a value back into text for
// the flag's parser. Where a format reads something else than text into what
// was meant as text (YAML makes 83 of 0123, and a date of 2024-01-02), the
// text is lost, so that must be quoted.
func fileValues(f *pflag.Flag, raw any) ([]string, error) {
	switch f.Value.Type() {
	case "bool":
		if b, ok := raw.(bool); ok {
			return []string{strconv.FormatBool(b)}, nil
		}
		return nil, fmt.Errorf("must be true or false, without quotes, but is %s", describeValue(f, raw))
	case "code", "number":
		switch n := raw.(type) {
		case int, int64:
			return []string{fmt.Sprint(n)}, nil
		case float64: // JSON has no other numbers
			if n == float64(int64(n)) {
				return []string{strconv.FormatInt(int64(n), 10)}, nil
			}
		}
		return nil, fmt.Errorf("must be a whole number, but is %s", describeValue(f, raw))
	case "stringArray":
		if list, ok := raw.([]any); ok {
			var values []string
			for _, item := range list {
				text, ok := item.(string)
				if !ok {
					return nil, fmt.Errorf("must be a list of texts in quotes, but has %s in it", describeValue(f, item))
				}
				values = append(values, text)
			}
			return values, nil
		}
	}
	if text, ok := raw.(string); ok {
		return []string{text}, nil
	}
	hint := "put it in quotes"
	if f.Value.Type() == "duration" {
		hint = "write it in quotes with its unit, such as \"30s\""
	}
	return nil, fmt.Errorf("must be a text, but is %s: %s", describeValue(f, raw), hint)
}

func describeValue(f *pflag.Flag, raw any) string {
	if secret(f.Name) {
		return "something else"
	}
	switch v := raw.(type) {
	case nil:
		return "empty"
	case string:
		return "the text " + quoted(v)
	case []any:
		return "a list"
	case map[string]any:
		return "a group of settings"
	case bool:
		return "the truth value " + strconv.FormatBool(v)
	case int, int64, uint64, float64:
		return fmt.Sprintf("the number %v", v)
	default:
		return fmt.Sprintf("%v", v)
	}
}
