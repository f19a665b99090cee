package methods

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"popri/configs"
	"popri/testkit/golden"
)

const settingsHead = `# Settings
All keys of the configuration, by section. ` + "`make docs`" + ` writes this page from the comments in [configs/](../configs) and in the
folders of [methods/](../methods).

Layers are applied in this order, and a later one wins: the preset (` + "`--preset`, `demo` unless another is named" + `),
the file of ` + "`--config`" + `, environment variables, ` + "`--set key=value`" + `. The variable of ` + "`dpo.beta` is `POPRI_DPO_BETA`" + `. A list
is written ` + "`a,b` or `[a, b]`" + `. An unknown key, a wrong type or an impossible value ends the program, and the error lists
all of them. A run writes every key with its value to its ` + "`config.yaml`" + `, which ` + "`popri run --config`" + ` reads back:
` + "```" + `
popri run --preset demo --set privacy.epsilon=1 --set trainer.rounds=6 --out runs/eps1
popri run --config runs/eps1/config.yaml --set seed=2 --out runs/eps1-seed2
` + "```\n"

// settingsPage returns the page about all keys and presets.
func settingsPage() ([]byte, error) {
	comments, err := readComments()
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	page.WriteString(settingsHead)
	contents(&page)
	defaults := configs.Default()
	section := "-"
	for _, k := range configs.Keys() {
		if in := sectionOf(k.Name); in != section {
			if section == "" {
				page.WriteString("\n| method | what it does |\n|---|---|\n")
				for _, d := range All {
					fmt.Fprintf(&page, "| `%s` | %s |\n", d.Name, golden.Cell(meaning(d.About)))
				}
			}
			section = in
			fmt.Fprintf(&page, "\n## %s\n", title(section))
			if section != "" {
				fmt.Fprintf(&page, "`%s` %s\n", section, markdown(comments.Sections[section]))
			}
			page.WriteString("\n| key | type | default | meaning |\n|---|---|---|---|\n")
		}
		value, _ := defaults.Get(k.Name)
		about := golden.Cell(markdown(meaning(comments.Keys[k.Name])))
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", k.Name, k.Type, show(value), about)
	}
	page.WriteString("\n## Presets\n" +
		"Each preset sets the keys below and is otherwise like `demo`, whose values are the defaults above, or like " +
		"the preset that it is based on. A file of your own may begin with `base: NAME`, which is the same as " +
		"`--preset NAME`.\n")
	for _, name := range configs.Presets() {
		if err := preset(&page, filepath.Join("..", "configs"), name); err != nil {
			return nil, err
		}
	}
	return page.Bytes(), nil
}

// contents links to the sections.
func contents(page *bytes.Buffer) {
	var links []string
	section := "-"
	for _, k := range configs.Keys() {
		if in := sectionOf(k.Name); in != section {
			section = in
			anchor := strings.ReplaceAll(strings.ToLower(title(section)), " ", "-")
			links = append(links, fmt.Sprintf("[%s](#%s)", title(section), anchor))
		}
	}
	fmt.Fprintf(page, "\nSections: %s. [Presets](#presets) and where each differs from the defaults.\n",
		strings.Join(links, ", "))
}

func sectionOf(key string) string {
	section, _, found := strings.Cut(key, ".")
	if !found {
		return ""
	}
	return section
}

func title(section string) string {
	if section == "" {
		return "Without a section"
	}
	return section
}

// preset writes what a preset says of itself and how it differs from the defaults.
func preset(page *bytes.Buffer, dir, name string) error {
	content, err := os.ReadFile(filepath.Join(dir, "presets", name+".yaml"))
	if err != nil {
		return err
	}
	var about []string
	for line := range strings.Lines(string(content)) {
		comment, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		about = append(about, strings.TrimSpace(comment))
	}
	fmt.Fprintf(page, "\n### %s\n%s\n", name, markdown(strings.Join(about, " ")))
	set, base, err := configs.Preset(name)
	if err != nil {
		return err
	}
	standard, in := configs.Default(), "default"
	if base != "" && base != configs.DefaultPreset {
		if standard, _, err = configs.Preset(base); err != nil {
			return err
		}
		in = base
		fmt.Fprintf(page, "\nIt is based on [%s](#%s).\n", base, base)
	}
	head := "\n| key | " + in + " | here |\n|---|---|---|\n"
	for _, k := range configs.Keys() {
		was, _ := standard.Get(k.Name)
		is, _ := set.Get(k.Name)
		if !reflect.DeepEqual(was, is) {
			fmt.Fprintf(page, "%s| `%s` | %s | %s |\n", head, k.Name, show(was), show(is))
			head = ""
		}
	}
	return nil
}

// show writes a value as in a configuration file.
func show(value any) string {
	switch v := value.(type) {
	case string:
		if v == "" || strings.ContainsAny(v, "\n\"") || v != strings.TrimSpace(v) {
			return golden.Code(strconv.Quote(v))
		}
		return golden.Code(v)
	case float64:
		return golden.Code(strings.NewReplacer("e-0", "e-", "e+0", "e").Replace(strconv.FormatFloat(v, 'g', -1, 64)))
	case []string:
		return golden.Code("[" + strings.Join(v, ", ") + "]")
	case []float64:
		var list []string
		for _, x := range v {
			list = append(list, strings.Trim(show(x), "`"))
		}
		return show(list)
	}
	return golden.Code(fmt.Sprint(value))
}

// meaning makes sentences of a comment without its first word: "is the number of rounds" becomes "The number of rounds".
func meaning(comment string) string {
	for _, verb := range []string{"is ", "are "} {
		if rest, ok := strings.CutPrefix(comment, verb); ok {
			comment = rest
			break
		}
	}
	first, size := utf8.DecodeRuneInString(comment)
	return string(unicode.ToUpper(first)) + comment[size:]
}

var names = regexp.MustCompile(`"[^" ]*"|\b[a-z_]+(?:\.[a-z_]+)+\b|\b[a-z0-9]+(?:_[a-z0-9]+)+\b|--[a-z-]+|\[\]|[<>*]`)

// markdown marks keys and values as code. Values lose their quotes, which --set does not want either.
func markdown(text string) string {
	known := configs.Keys()
	return names.ReplaceAllStringFunc(text, func(s string) string {
		switch {
		case s == `""` || s == "[]":
			return "`" + s + "`"
		case s[0] == '"':
			return "`" + strings.Trim(s, `"`) + "`"
		case strings.ContainsAny(s, "<>*"):
			return `\` + s
		case !strings.ContainsAny(s, "_-") &&
			!slices.ContainsFunc(known, func(k configs.Key) bool { return k.Name == s }):
			return s // a file's name
		}
		return "`" + s + "`"
	})
}
