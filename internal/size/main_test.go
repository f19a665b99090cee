package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// repository writes files, by name, and bounds for all measures.
func repository(t *testing.T, files map[string]string, bounds map[string]int) string {
	t.Helper()
	dir := t.TempDir()
	var list strings.Builder
	list.WriteString("# bounds\n\n")
	for _, name := range measures {
		most, ok := bounds[name]
		if !ok {
			most = 1000
		}
		fmt.Fprintf(&list, "%s: %d\n", name, most)
	}
	files[boundsFile] = list.String()
	for name, content := range files {
		testfile.Write(t, filepath.Join(dir, name), content)
	}
	return dir
}

// body is n statements.
func body(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\tcall%d()\n", i)
	}
	return b.String()
}

// TestMeasures: each figure of a small repository is right, and passing any bound is an error that names it.
func TestMeasures(t *testing.T) {
	files := func() map[string]string {
		return map[string]string{
			"a/a.go":            "package a\n\nfunc long() {\n" + body(79) + "}\n",
			"b/b.go":            "package b\n\nfunc short() {\n" + body(10) + "}\n",
			"b/b_test.go":       "package b\n",
			"testkit/t/t.go":    "package t\n",
			"b/testdata/x.go":   "not Go\n",
			"c/c.c":             "int x;\nint y;\n",
			"popri":             strings.Repeat("a program", 1000),
			"docs/settings.md":  "| key | type | default | meaning |\n|---|---|---|---|\n| `a.b` | whole number | `1` | one |\n| `c` | text | `x` | two |\n| `demo` | a preset |\n",
			"docs/x.md":         "one two three\n",
			".git/objects/x.go": "not Go\n",
		}
	}
	want := map[string]int{goLines: 97, testLines: 2, cLines: 2, packages: 2, keys: 2, longest: 81, overLong: 1,
		longestFile: 83, repeated: 20, largest: 8}
	got, where, err := measure(repository(t, files(), nil))
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d, want %d", name, got[name], n)
		}
	}
	if !strings.HasSuffix(where[longest], "a.go: long") {
		t.Errorf("the longest function is %q", where[longest])
	}
	var out bytes.Buffer
	if err := run(repository(t, files(), nil), &out); err != nil || !strings.Contains(out.String(), "packages") {
		t.Errorf("%v, after %q", err, out.String())
	}
	for name, n := range want {
		err := run(repository(t, files(), map[string]int{name: n - 1}), &out)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s: %d, at most %d", name, n, n-1)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBadBounds: a line that is no bound, a measure that is unknown and one that is left out are errors.
func TestBadBounds(t *testing.T) {
	for content, want := range map[string]string{"packages: many\n": "line 1", "houses: 3\n": "houses",
		"packages: 3\n": "bounds 1 of"} {
		dir := repository(t, map[string]string{}, nil)
		testfile.Write(t, filepath.Join(dir, boundsFile), content)
		if err := run(dir, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", content, err)
		}
	}
}
