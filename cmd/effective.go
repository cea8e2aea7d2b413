package cmd

import (
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlockrun/redlockrun/lockexec"
)

// effective is a setting as a run would have it. Its value holds no secret.
type effective struct {
	Setting string `json:"setting"`        // the name of its flag; or password
	Value   string `json:"value"`          // "" is none
	Source  string `json:"source"`         // flag, environment, file or default
	From    string `json:"from,omitempty"` // the flag, the variable, or the file and line
}

func (e effective) origin() string {
	if e.From == "" {
		return e.Source
	}
	return e.From
}

// effectiveSettings returns all settings of a command that runs under a lock, in
// the order of its flags.
func (p *program) effectiveSettings(cmd *cobra.Command, opts *runOptions, from sources) []effective {
	var all []effective
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if onlyFlags[f.Name] {
			return
		}
		e := effective{Setting: f.Name, Value: f.Value.String()}
		e.Source, e.From = from.origin(f.Name)
		switch {
		case f.Name == "redis":
			e.Value = maskedPlaces(opts.lock.redis.places)
		case e.Value == "" && f.Name == "kill-after":
			e.Value = shortDuration(lockexec.DefaultKillAfter(opts.lock.ttl))
		case e.Value == "" && f.Name == "holder-label":
			e.Value, _ = os.Hostname()
		case e.Value == "" && f.Name == "wait":
			e.Value = "0"
		}
		all = append(all, e)
	})
	if auth, _ := p.environ("REDISCLI_AUTH"); auth != "" {
		all = append(all, effective{Setting: "password", Value: masked, Source: "environment", From: "REDISCLI_AUTH"})
	}
	return all
}

// origin tells what kind of source a setting has, and names it, unless it is at
// its default.
func (s sources) origin(name string) (kind, where string) {
	src, given := s[name]
	file, inFile := strings.CutPrefix(src.text, name+" in ")
	switch {
	case !given:
		return "default", ""
	case src.rank == asFlag:
		return "flag", src.text
	case inFile:
		return "file", file
	default:
		return "environment", src.text
	}
}

const masked = "***"

// maskedPlaces writes places, which were parsed before, without what is secret.
func maskedPlaces(places []string) string {
	if len(places) == 0 {
		return defaultRedis
	}
	shown := make([]string, len(places))
	for i, place := range places {
		shown[i] = maskedPlace(place)
	}
	return strings.Join(shown, " ")
}

// maskedPlace shows user names, but neither passwords nor what stands alone
// before the @, which may have been meant as one.
func maskedPlace(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return text
	}
	authority, path := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, path = rest[:end], rest[end:]
	}
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, _, both := strings.Cut(authority[:at], ":")
		if both {
			user += ":" + masked
		} else {
			user = masked
		}
		authority = user + authority[at:]
	}
	path, query, found := strings.Cut(path, "?")
	if found {
		path += "?" + maskedQuery(query)
	}
	return scheme + "://" + authority + path
}

func maskedQuery(query string) string {
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err != nil || strings.Contains(plain, "password") {
			parts[i] = name + "=" + masked
		}
	}
	return strings.Join(parts, "&")
}
