package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const proseFile = ".ci/prose.txt"

// style has the bounds of pages. What passes a usual bound is counted, what passes the other one is an error.
type style struct {
	sentence, usualSentence, paragraph, usualParagraph, columns int
	banned, inComments                                          []*regexp.Regexp // in texts, and in comments of Go
}

// parseStyle reads lines of a name, a colon and a value; lines that begin with # do not count.
func parseStyle(content []byte) (s style, err error) {
	numbers := map[string]*int{"words of a sentence": &s.sentence, "words of a usual sentence": &s.usualSentence,
		"words of a paragraph": &s.paragraph, "words of a usual paragraph": &s.usualParagraph, "columns of a table": &s.columns}
	for i, line := range strings.Split(string(content), "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch n, known := numbers[name]; {
		case line == "" || line[0] == '#':
			continue
		case known:
			*n, err = strconv.Atoi(value)
		case name == "banned", name == "banned in texts", name == "banned in comments":
			var pattern *regexp.Regexp
			pattern, err = regexp.Compile(`(?i)\b(?:` + strings.ReplaceAll(value, " ", `\s+(?://\s*)?`) + `)\b`)
			if name != "banned in comments" {
				s.banned = append(s.banned, pattern)
			}
			if name != "banned in texts" {
				s.inComments = append(s.inComments, pattern)
			}
		default:
			err = fmt.Errorf("there is no bound %q", name)
		}
		if err != nil {
			return s, fmt.Errorf("%s: line %d: %w", proseFile, i+1, err)
		}
	}
	return s, nil
}

var (
	code      = regexp.MustCompile("`[^`]*`")
	target    = regexp.MustCompile(`\]\([^)]*\)|<[^>]+>|\*\*|https?://\S+`)
	item      = regexp.MustCompile(`^\s*(?:[-*>]|\d+\.)\s+`)
	ended     = regexp.MustCompile(`[.!?]["”)\]]*\s+`)
	separator = regexp.MustCompile(`^[|\s:-]+$`)
)

// page is what was found in a page.
type page struct {
	style
	name                             string
	words, sentences, longish, wordy int // longish sentences and wordy paragraphs are over the usual bounds
	wrong                            []string
}

// block checks a paragraph, an item of a list, or a cell of a table that begins in a line.
func (p *page) block(line int, text string) {
	text = target.ReplaceAllString(code.ReplaceAllString(text, "code"), "")
	n := len(strings.Fields(text))
	p.words += n
	if n > p.usualParagraph {
		p.wordy++
	}
	p.check(line, n > p.paragraph, "a paragraph of %d words: %s", n, text)
	for _, sentence := range ended.Split(text, -1) {
		n := len(strings.Fields(sentence))
		if n > 0 {
			p.sentences++
		}
		if n > p.usualSentence {
			p.longish++
		}
		p.check(line, n > p.sentence, "a sentence of %d words: %s", n, sentence)
	}
	p.plain(line, text, p.banned)
}

// plain checks a text that begins in a line for banned words.
func (p *page) plain(line int, text string, banned []*regexp.Regexp) {
	for _, b := range banned {
		for _, at := range b.FindAllStringIndex(text, -1) {
			before := text[:at[0]]
			whole, _, _ := strings.Cut(text[strings.LastIndex(before, "\n")+1:], "\n")
			p.check(line+strings.Count(before, "\n"), true, "%q: %s", text[at[0]:at[1]], whole)
		}
	}
}

// output checks the words of a template, of C, or of a Go file's comments and texts; of a test, the comments alone.
func (p *page) output(content []byte) {
	switch filepath.Ext(p.name) {
	case ".html":
		p.plain(1, string(content), p.banned)
		return
	case ".c", ".h", ".cu", ".cpp":
		p.plain(1, string(content), p.inComments)
		return
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, p.name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		p.check(1, true, "%v", err)
		return
	}
	read := func(n ast.Node, banned []*regexp.Regexp) {
		from := files.Position(n.Pos())
		p.plain(from.Line, string(content[from.Offset:files.Position(n.End()).Offset]), banned)
	}
	for _, comment := range file.Comments {
		read(comment, p.inComments)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && !strings.HasSuffix(p.name, "_test.go") {
			read(text, p.banned)
		}
		return true
	})
}

func (p *page) check(line int, wrong bool, format string, args ...any) {
	if wrong {
		text := []rune(fmt.Sprintf(format, args...))
		p.wrong = append(p.wrong, fmt.Sprintf("%s:%d: %s", p.name, line, string(text[:min(len(text), 160)])))
	}
}

// read checks the text of a page. Code, headings and drawings are no prose.
func (p *page) read(content string) {
	paragraph, first, fenced := []string(nil), 0, false
	end := func() {
		if len(paragraph) > 0 {
			p.block(first, strings.Join(paragraph, " "))
		}
		paragraph = nil
	}
	for i, line := range strings.Split(content, "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
			end()
		case fenced:
		case strings.TrimSpace(line) == "" || line[0] == '#' || line[0] == '<':
			end()
		case line[0] == '|':
			end()
			cells := strings.Split(strings.Trim(code.ReplaceAllString(strings.ReplaceAll(line, `\|`, "/"), "code"), "| "), " | ")
			if separator.MatchString(line) {
				p.check(i+1, strings.Count(line, "|")-1 > p.columns, "a table of %d columns", strings.Count(line, "|")-1)
				continue
			}
			for _, cell := range cells {
				p.block(i+1, cell)
			}
		default:
			if item.MatchString(line) {
				end()
			}
			if len(paragraph) == 0 {
				first = i + 1
			}
			paragraph = append(paragraph, item.ReplaceAllString(line, ""))
		}
	}
	end()
}

// prose checks every page in dir and prints what is long in it. Of Go, C and templates, it checks the banned words.
func prose(dir string, out io.Writer) error {
	content, err := os.ReadFile(filepath.Join(dir, proseFile))
	if err != nil {
		return err
	}
	s, err := parseStyle(content)
	if err != nil {
		return err
	}
	wrong := 0
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		name := filepath.Base(path)
		if err == nil && entry.IsDir() && path != dir && (name[0] == '.' || name == "testdata" || name == "build" || name == "runs") {
			return filepath.SkipDir
		}
		ext := filepath.Ext(name)
		if err != nil || !slices.Contains([]string{".md", ".html", ".go", ".c", ".h", ".cu", ".cpp"}, ext) {
			return err
		}
		content, err := os.ReadFile(path)
		p := page{style: s, name: path}
		if ext == ".md" {
			p.read(string(content))
			fmt.Fprintf(out, "%s: %d words, %d of %d sentences over %d words, %d paragraphs over %d\n", path, p.words,
				p.longish, p.sentences, s.usualSentence, p.wordy, s.usualParagraph)
		} else {
			p.output(content)
		}
		for _, w := range p.wrong {
			fmt.Fprintln(out, w)
		}
		wrong += len(p.wrong)
		return err
	})
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d places pass the bounds in %s", wrong, proseFile)
	}
	return err
}
