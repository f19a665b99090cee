package main

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"popri/testkit/golden"
)

const commandsHead = "# Commands\n" +
	"All verbs and flags. `make docs` writes this page from the help of the commands, which `popri VERB --help` " +
	"prints. [Run folder](run-folder.md#exit-codes) has the exit codes.\n\n"

// commandsPage returns the page about all verbs under root.
func commandsPage(root *cobra.Command) []byte {
	var page bytes.Buffer
	page.WriteString(commandsHead)
	page.WriteString("| verb | |\n|---|---|\n")
	all := verbs(root)
	for _, c := range all {
		path := c.CommandPath()
		fmt.Fprintf(&page, "| [`%s`](#%s) | %s |\n", path, strings.ReplaceAll(path, " ", "-"),
			golden.Cell(asCode(c.Short)))
	}
	page.WriteString("\n## Flags of all verbs\n")
	flags(&page, root.PersistentFlags())
	for _, c := range all {
		fmt.Fprintf(&page, "\n## %s\n", c.CommandPath())
		about := c.Long
		about = cmp.Or(about, c.Short+".")
		prose(&page, about)
		fmt.Fprintf(&page, "```\n%s\n```\n", c.UseLine())
		fmt.Fprintf(&page, "Examples:\n```\n%s\n```\n", unindent(c.Example))
		flags(&page, c.NonInheritedFlags())
	}
	return page.Bytes()
}

func flags(page *bytes.Buffer, set *pflag.FlagSet) {
	head := "\n| flag | value | default | |\n|---|---|---|---|\n"
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, about := pflag.UnquoteUsage(f)
		kind = cmp.Or(kinds[kind], kind)
		value := ""
		switch f.DefValue {
		case "", "[]", "0", "false":
		default:
			value = golden.Code(f.DefValue)
		}
		fmt.Fprintf(page, "%s| `--%s` | %s | %s | %s |\n", head, f.Name, kind, value, golden.Cell(asCode(about)))
		head = ""
	})
}

// kinds are pflag's names of values in plain words.
var kinds = map[string]string{"string": "text", "stringArray": "text, repeatable", "strings": "list",
	"int": "whole number", "uint": "whole number", "float": "number", "float64Slice": "list of numbers",
	"duration": "time"}

// prose writes paragraphs of a help text, and indented lines as they are.
func prose(page *bytes.Buffer, text string) {
	var listed bool
	list := func(on bool) {
		if on != listed {
			page.WriteString("```\n")
			listed = on
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		list(strings.HasPrefix(line, "  "))
		if !listed {
			line = asCode(line)
		}
		page.WriteString(line + "\n")
	}
	list(false)
	page.WriteString("\n")
}

func unindent(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

var spelled = regexp.MustCompile(`"popri [^"\n]*"|--[a-z][a-z-]*|` +
	`\b[a-z_]+\.[a-z_]+=[a-z_0-9.:]*[a-z0-9]|\b(?:[a-z]+\.)?[a-z0-9]+(?:_[a-z0-9]+)+(?:/[a-z_]+)*\b|\$?\b[A-Z0-9]+(?:_[A-Z0-9]+)+\b|[<>*]`)

// asCode marks commands, flags, settings and names as code.
func asCode(text string) string {
	return spelled.ReplaceAllStringFunc(text, func(s string) string {
		if strings.ContainsAny(s, "<>*") {
			return `\` + s
		}
		return "`" + strings.Trim(s, `"`) + "`"
	})
}
