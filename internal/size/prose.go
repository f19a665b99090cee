package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const proseFile = ".ci/prose.txt"

// style has the bounds of pages. What passes a usual bound is counted, what passes the other one is an error.
type style struct {
	sentence, usualSentence, paragraph, usualParagraph, columns int
	banned                                                      []*regexp.Regexp
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
		case name == "banned":
			var pattern *regexp.Regexp
			pattern, err = regexp.Compile(`(?i)\b(?:` + value + `)\b`)
			s.banned = append(s.banned, pattern)
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
	p.plain(line, text)
}

// plain checks a text for banned words.
func (p *page) plain(line int, text string) {
	for _, b := range p.banned {
		if found := b.FindString(text); found != "" {
			p.check(line, true, "%q: %s", found, text)
		}
	}
}

// output checks the words of a Go file's texts or of a template's lines, which users read in output, errors and reports.
func (p *page) output(content []byte) {
	if filepath.Ext(p.name) == ".html" {
		for i, line := range strings.Split(string(content), "\n") {
			p.plain(i+1, line)
		}
		return
	}
	var tokens scanner.Scanner
	file := token.NewFileSet().AddFile(p.name, -1, len(content))
	tokens.Init(file, content, nil, 0)
	for {
		at, kind, text := tokens.Scan()
		switch kind {
		case token.EOF:
			return
		case token.STRING:
			p.plain(file.Line(at), text)
		}
	}
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

// prose checks every page in dir and prints what is long in it. Of Go files and templates, it checks the banned words.
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
		if err != nil || ext != ".md" && ext != ".html" && ext != ".go" || strings.HasSuffix(name, "_test.go") {
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
