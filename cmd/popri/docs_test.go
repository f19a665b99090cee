package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/spf13/cobra"

	"popri/configs"
	"popri/testkit/golden"
	"popri/testkit/testfile"
)

// settings are the defaults, loaded once for the many lines that are checked against a copy.
var settings = sync.OnceValue(configs.Default)

func commands() *cobra.Command { return (&app{out: &bytes.Buffer{}, err: &bytes.Buffer{}}).root() }

func TestReferencePageOfCommands(t *testing.T) {
	golden.Page(t, "commands.md", commandsPage(commands()))
}

// markdown returns the pages for readers by their paths.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	names := []string{"README.md", "ARCHITECTURE.md"}
	more, err := filepath.Glob(golden.Repository("docs", "*.md"))
	if err != nil || len(more) == 0 {
		t.Fatal(more, err)
	}
	for _, path := range more {
		names = append(names, "docs/"+filepath.Base(path))
	}
	pages := map[string]string{}
	for _, name := range names {
		pages[name] = string(testfile.Read(t, golden.Repository(name)))
	}
	return pages
}

var (
	fenced = regexp.MustCompile("(?s)(?m:^```[a-z]*\n)(.*?)(?m:^```$)")
	inline = regexp.MustCompile("`([^`\n]+)`")
	words  = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)
)

// commandLines returns the lines of popri in a page, from code blocks and from code in a sentence.
func commandLines(page string) (lines []string) {
	for _, block := range fenced.FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
			line = strings.TrimPrefix(strings.TrimPrefix(line, "exec "), "build/")
			if strings.HasPrefix(line, "popri ") && !strings.Contains(line, "─►") {
				lines = append(lines, line)
			}
		}
	}
	for _, code := range inline.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		if strings.HasPrefix(code[1], "popri ") {
			lines = append(lines, code[1])
		}
	}
	return lines
}

// checkCommand returns what is wrong with a command line, without running it. Words such as RUN stand for values.
func checkCommand(line string) error {
	args := words.FindAllString(line, -1)[1:]
	args = slices.DeleteFunc(args, func(s string) bool { return s == "…" || s == `\` })
	if len(args) > 0 && args[0] == "VERB" || slices.Contains(args, "completion") {
		return nil
	}
	cmd, rest, err := commands().Find(args)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Errorf("%s has no verb %q", cmd.CommandPath(), rest[0])
	}
	preset := settings()
	for i, word := range rest {
		if !strings.HasPrefix(word, "--") {
			continue
		}
		name, value, joined := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		flag := cmd.Flags().Lookup(name)
		if flag == nil {
			flag = cmd.InheritedFlags().Lookup(name)
		}
		if flag == nil {
			if name == "help" {
				continue
			}
			return fmt.Errorf("%s has no flag --%s", cmd.CommandPath(), name)
		}
		if !joined && i+1 < len(rest) {
			value = rest[i+1]
		}
		value = strings.Trim(value, `"'`)
		if value == "" || strings.HasPrefix(value, "--") || strings.ContainsAny(value, "…$|") || placeholder(value) {
			continue
		}
		switch name {
		case "set", "over", "instead":
			for assignment := range strings.FieldsSeq(value) {
				key, text, _ := strings.Cut(assignment, "=")
				if name == "over" { // several keys and values, or a range of values
					text, _, _ = strings.Cut(strings.Split(text, ",")[0], "..")
				}
				for k := range strings.SplitSeq(key, "+") {
					if _, ok := preset.Get(k); !ok {
						return fmt.Errorf("--%s: there is no key %s", name, k)
					}
					if err := preset.Set(k, text); err != nil && text != "" && !placeholder(text) {
						return err
					}
				}
			}
		case "preset":
			if !slices.Contains(configs.Presets(), value) {
				return fmt.Errorf("there is no preset %s", value)
			}
		default:
			if flag.NoOptDefVal == "" || joined {
				if err := flag.Value.Set(value); err != nil {
					return fmt.Errorf("--%s %s: %w", name, value, err)
				}
			}
		}
	}
	if cmd.Flags().Lookup("allow-embedded") != nil && !slices.Contains(rest, "--allow-embedded") {
		if keys := preset.Borrowed(); len(keys) > 0 {
			return fmt.Errorf("is refused: the clients are not the embedded ones, but %v", keys)
		}
	}
	return nil
}

// placeholder reports whether a word stands for a value: it has capital letters and no small ones.
func placeholder(word string) bool {
	return strings.ContainsFunc(word, unicode.IsUpper) && !strings.ContainsFunc(word, unicode.IsLower)
}

// Every command line in the pages has a verb, flags and keys that exist.
func TestCommandsInPages(t *testing.T) {
	for name, page := range markdown(t) {
		for _, line := range commandLines(page) {
			if err := checkCommand(line); err != nil {
				t.Errorf("%s: %s: %v", name, line, err)
			}
		}
	}
	for _, line := range []string{"popri runs --out x", "popri data nonsense", "popri run --outs x",
		"popri run --set a.b=c", "popri run --set trainer.rounds=many", "popri run --preset none",
		"popri account epsilon --rounds many",
		"popri demo --world x --nonsense", "popri run --set data.private=c.parquet --set data.public=p.jsonl",
		"popri ablate --over dpo.betas=1"} {
		if checkCommand(line) == nil {
			t.Errorf("%s is accepted", line)
		}
	}
}

// Settings that a page names exist, and have the values that it gives them.
func TestSettingsInPages(t *testing.T) {
	sections := map[string]bool{}
	for _, k := range configs.Keys() {
		section, _, _ := strings.Cut(k.Name, ".")
		sections[section] = true
	}
	setting := regexp.MustCompile(`^([a-z_]+)\.[a-z_0-9]+(=[a-z0-9_.-]+)?$`)
	files := []string{".go", ".json", ".jsonl", ".parquet", ".safetensors"}
	for name, page := range markdown(t) {
		for _, code := range inline.FindAllStringSubmatch(page, -1) {
			m := setting.FindStringSubmatch(code[1])
			if m == nil || !sections[m[1]] || slices.Contains(files, filepath.Ext(code[1])) {
				continue
			}
			c := settings()
			key, value, given := strings.Cut(code[1], "=")
			value, _, _ = strings.Cut(value, "..") // the first of a range
			if !slices.ContainsFunc(configs.Keys(), func(k configs.Key) bool { return k.Name == key }) {
				t.Errorf("%s: there is no key %s", name, key)
			} else if err := c.Set(key, value); given && err != nil {
				t.Errorf("%s: %s: %v", name, code[1], err)
			}
		}
	}
}

// anchor is the name that a forge gives to a heading.
func anchor(heading string) string {
	var out strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_', r == '-':
			out.WriteRune(r)
		case r == ' ':
			out.WriteByte('-')
		}
	}
	return out.String()
}

// Links between the pages lead to files and headings that exist.
func TestLinksInPages(t *testing.T) {
	pages := markdown(t)
	more, err := filepath.Glob(golden.Repository("docs", "lab", "*.md"))
	if err != nil || len(more) == 0 {
		t.Fatal(more, err)
	}
	for i, path := range more {
		more[i] = "docs/lab/" + filepath.Base(path)
	}
	for _, name := range append(more, "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md") {
		pages[name] = string(testfile.Read(t, golden.Repository(name)))
	}
	headings := map[string][]string{}
	for name, page := range pages {
		for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(fenced.ReplaceAllString(page, ""),
			-1) {
			headings[name] = append(headings[name], anchor(h[1]))
		}
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)|src="([^"]+)"`)
	for name, page := range pages {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
			target, heading, _ := strings.Cut(m[1]+m[2], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := name
			if target != "" {
				file = filepath.ToSlash(filepath.Join(filepath.Dir(name), target))
				if _, err := os.Stat(golden.Repository(file)); err != nil {
					t.Errorf("%s: link to %s: %v", name, target, err)
				}
			}
			if heading != "" && strings.HasSuffix(file, ".md") && !slices.Contains(headings[file], heading) {
				t.Errorf("%s: %s has no heading #%s", name, file, heading)
			}
		}
	}
}

// TestPrintedCommandsRun: scripts/first_hour.sh, which .ci/run calls, runs each command line that README and quickstart print,
// with all of its flags, or the line is listed here with the reason.
func TestPrintedCommandsRun(t *testing.T) {
	elsewhere := map[string]string{
		"make demo": "fetches 850 MB and runs for half an hour; the script runs the same verb on a small world",
		"popri try": "serves until it is stopped; the tests of package tryout ask its page",
	}
	script := testfile.Read(t, golden.Repository("scripts", "first_hour.sh"))
	ci, err := os.ReadFile(golden.Repository(".ci", "run"))
	if err != nil || !strings.Contains(string(ci), "scripts/first_hour.sh") {
		t.Fatal(".ci/run does not call scripts/first_hour.sh: ", err)
	}
	// parts are the verb of a line and its flags.
	parts := func(line string) (verb string, flags []string) {
		all := strings.Fields(line)
		verb = all[0]
		for _, word := range all[1:] {
			if strings.HasPrefix(word, "--") {
				flags = append(flags, word)
			} else if len(flags) == 0 && !strings.ContainsAny(word, "./$\"") {
				verb += " " + word
			}
		}
		return verb, flags
	}
	lines := strings.ReplaceAll(strings.ReplaceAll(string(script), "\\\n", " "), `"$popri"`, "popri")
	for _, name := range []string{"README.md", "docs/quickstart.md"} {
		blocks := strings.Join(fenced.FindAllString(markdown(t)[name], -1), "")
		for _, line := range append(commandLines(blocks), regexp.MustCompile(`(?m)^make \w+`).FindAllString(blocks, -1)...) {
			verb, flags := parts(line)
			if elsewhere[verb] != "" {
				continue
			}
			if !slices.ContainsFunc(strings.Split(lines, "\n"), func(l string) bool {
				if !strings.HasPrefix(l, "popri ") {
					return false
				}
				v, has := parts(l)
				return v == verb && !slices.ContainsFunc(flags, func(f string) bool { return !slices.Contains(has, f) })
			}) {
				t.Errorf("%s: nothing runs %s", name, line)
			}
		}
	}
}
