// Command size measures the repository and compares it with the bounds in .ci/size.txt: what one person can hold must
// not grow unnoticed. A bound that is passed is an error; it is raised in a commit of its own that says why. With the
// argument prose it measures the sentences, paragraphs and tables of the pages instead (.ci/prose.txt).
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
)

const boundsFile = ".ci/size.txt"

func main() {
	what := run
	if len(os.Args) > 1 && os.Args[1] == "prose" {
		what = prose
	}
	if err := what(".", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

// run measures the repository in dir and prints each figure with its bound.
func run(dir string, out io.Writer) error {
	got, where, err := measure(dir)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(dir, boundsFile))
	if err != nil {
		return err
	}
	bounds, err := parseBounds(content)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "measure\tis\tat most\t")
	var passed []string
	for _, b := range bounds {
		n, ok := got[b.measure]
		if !ok {
			return fmt.Errorf("%s: nothing is measured as %q", boundsFile, b.measure)
		}
		if n > b.most {
			passed = append(passed, fmt.Sprintf("%s: %d, at most %d", b.measure, n, b.most))
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", b.measure, n, b.most, where[b.measure])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(bounds) != len(got) {
		return fmt.Errorf("%s bounds %d of %d measures", boundsFile, len(bounds), len(got))
	}
	if len(passed) > 0 {
		return fmt.Errorf("bounds are passed (%s): %s", boundsFile, strings.Join(passed, "; "))
	}
	return nil
}

// bound is a line of the file of bounds.
type bound struct {
	measure string
	most    int
}

// parseBounds reads lines of a measure, a colon and a number; empty lines and those that begin with # do not count.
func parseBounds(content []byte) (list []bound, err error) {
	for i, line := range strings.Split(string(content), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, number, _ := strings.Cut(line, ":")
		most, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil {
			return nil, fmt.Errorf("%s: line %d is %q, want \"measure: number\"", boundsFile, i+1, line)
		}
		list = append(list, bound{name, most})
	}
	return list, nil
}

// The measures.
const (
	goLines     = "lines of Go outside of tests"
	testLines   = "lines of tests"
	cLines      = "lines of C, C++ and CUDA"
	packages    = "packages"
	keys        = "settings"
	longest     = "lines of the longest function"
	overLong    = "functions over 80 lines"
	longestFile = "lines of the longest file"
	repeated    = "lines of Go that stand in two places"
	words       = "words of pages"
	largest     = "KiB of the largest file" // of any kind, so that no program is committed unnoticed
)

var measures = []string{goLines, testLines, cLines, packages, keys, longest, overLong, longestFile, repeated,
	words, largest}

// aFunction is the length that no function should pass.
const aFunction = 80

// settingRow is a row of docs/settings.md that describes a key: its name, its type, its default.
var settingRow = regexp.MustCompile("(?m)^\\| `[a-z0-9_.]+` \\| [a-z ]+ \\| ")

// measure returns each figure, and where the longest things are.
func measure(dir string) (got map[string]int, where map[string]string, err error) {
	got, where = map[string]int{}, map[string]string{}
	for _, name := range measures {
		got[name] = 0
	}
	folders := map[string]bool{}
	windows := repetition{seed: maphash.MakeSeed(), first: map[uint64]int{}, twice: map[int]bool{}}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != dir && (name[0] == '.' || name == "testdata" || name == "build" || name == "dist" || name == "runs") {
				return filepath.SkipDir
			}
			return nil
		}
		if info, err := entry.Info(); err != nil {
			return err
		} else if size := int(info.Size() >> 10); size > got[largest] {
			got[largest], where[largest] = size, path
		}
		extension := filepath.Ext(name)
		if !strings.Contains(".go.c.h.cpp.cu.md", extension) || extension == "" {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := bytes.Count(content, []byte("\n"))
		switch {
		case name == "settings.md": // made from comments, as commands.md is
			got[keys] += len(settingRow.FindAll(content, -1))
		case name == "commands.md":
		case extension == ".md":
			got[words] += len(bytes.Fields(content))
		case extension != ".go":
			got[cLines] += lines
		case strings.HasSuffix(name, "_test.go"), inTestkit(dir, path): // testkit has what tests share
			got[testLines] += lines
		default:
			got[goLines] += lines
			folders[filepath.Dir(path)] = true
			if lines > got[longestFile] {
				got[longestFile], where[longestFile] = lines, path
			}
			windows.add(content)
			return functions(path, content, got, where)
		}
		return nil
	})
	got[packages], got[repeated] = len(folders), len(windows.twice)
	return got, where, err
}

func inTestkit(dir, path string) bool {
	inside, err := filepath.Rel(dir, path)
	return err == nil && strings.HasPrefix(filepath.ToSlash(inside), "testkit/")
}

// functions measures the functions of a file.
func functions(path string, content []byte, got map[string]int, where map[string]string) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, content, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		n := files.Position(f.End()).Line - files.Position(f.Pos()).Line + 1
		if n > aFunction {
			got[overLong]++
		}
		if n > got[longest] {
			got[longest], where[longest] = n, path+": "+f.Name.Name
		}
	}
	return nil
}

// repetition finds lines that stand in a run of at least [run] lines which occurs again, in any file. Empty lines,
// comments, closing brackets and imports do not count.
type repetition struct {
	seed  maphash.Seed
	lines int
	first map[uint64]int // the first line of each run
	twice map[int]bool   // lines in a run that occurs again
}

// aRun is the number of lines from which equal ones are counted.
const aRun = 6

func (r *repetition) add(content []byte) {
	var list []string
	imports := false
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		imports = imports && line != ")" || line == "import ("
		if len(line) > 3 && !imports && !strings.HasPrefix(line, "//") {
			list = append(list, line)
		}
	}
	for i := 0; i+aRun <= len(list); i++ {
		hash := maphash.String(r.seed, strings.Join(list[i:i+aRun], "\n"))
		if at, ok := r.first[hash]; ok {
			for k := range aRun {
				r.twice[at+k], r.twice[r.lines+i+k] = true, true
			}
		} else {
			r.first[hash] = r.lines + i
		}
	}
	r.lines += len(list)
}
