//go:build unix

package cmd

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// checkYAML parses YAML documents and every command line in them: the lists of
// containers (command, args, entrypoint) and the scripts of CI jobs.
func checkYAML(text string) error {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		var plain any // finds keys that are there twice
		if err := document.Decode(&plain); err != nil {
			return err
		}
		environ := map[string]string{}
		collectEnvironment(&document, environ)
		if err := checkEnvironment(environ); err != nil {
			return err
		}
		calls := 0
		if err := checkNode(&document, environ, &calls); err != nil {
			return err
		}
		if calls == 0 && ours.MatchString(text) {
			return errors.New("redlockrun is called somewhere in it, but where?")
		}
	}
}

var ourVariable = regexp.MustCompile(`^(REDLOCKRUN_[A-Z_]+|REDIS_URL)$`)

// collectEnvironment notes what sets our variables: "NAME: value", or "name:
// NAME" beside "value: value". What is not written there is left out.
func collectEnvironment(node *yaml.Node, environ map[string]string) {
	if node.Kind == yaml.MappingNode {
		fields := fieldsOf(node)
		if name, value := fields["name"], fields["value"]; name != nil && value != nil && ourVariable.MatchString(name.Value) {
			environ[name.Value] = value.Value
		}
		for name, value := range fields {
			if ourVariable.MatchString(name) && value.Kind == yaml.ScalarNode && !strings.Contains(value.Value, "$") {
				environ[name] = value.Value
			}
		}
	}
	for _, child := range node.Content {
		collectEnvironment(child, environ)
	}
}

func fieldsOf(node *yaml.Node) map[string]*yaml.Node {
	fields := map[string]*yaml.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		fields[node.Content[i].Value] = node.Content[i+1]
	}
	return fields
}

func wordsOf(node *yaml.Node) []string {
	if node == nil || node.Kind != yaml.SequenceNode {
		return nil
	}
	words := make([]string, len(node.Content))
	for i, item := range node.Content {
		words[i] = item.Value
	}
	return words
}

// ciExpression is filled in by GitHub before a shell sees it.
var ciExpression = regexp.MustCompile(`\$\{\{.*?\}\}`)

// checkNode checks the command lines of a node, and counts them.
func checkNode(node *yaml.Node, environ map[string]string, calls *int) error {
	if node.Kind == yaml.MappingNode {
		fields := fieldsOf(node)
		command := fields["command"]
		if fields["entrypoint"] != nil {
			command = fields["entrypoint"]
		}
		words := append(wordsOf(command), wordsOf(fields["args"])...)
		if fields["entrypoint"] != nil {
			words = append(words, wordsOf(fields["command"])...)
		}
		if len(words) > 0 {
			*calls++
			if err := checkWords(words, environ); err != nil {
				return fmt.Errorf("line %d: %w", node.Line, err)
			}
		}
		for _, name := range []string{"run", "script", "before_script", "after_script"} {
			script := fields[name]
			if script == nil {
				continue
			}
			*calls++
			text := script.Value + strings.Join(wordsOf(script), "\n")
			if err := checkScript(ciExpression.ReplaceAllString(text, "x"), environ); err != nil {
				return fmt.Errorf("line %d: %w", script.Line, err)
			}
		}
	}
	for _, child := range node.Content {
		if err := checkNode(child, environ, calls); err != nil {
			return err
		}
	}
	return nil
}
