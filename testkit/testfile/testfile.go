// Package testfile reads and writes the files of tests. What cannot be read or written ends the test.
package testfile

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Write writes a file, and the folders above it where they are missing. It returns the path.
func Write[T string | []byte](t testing.TB, path string, content T) string {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Read returns what a file holds.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// ReadJSON reads a file of JSON into v, a pointer.
func ReadJSON(t testing.TB, path string, v any) {
	t.Helper()
	if err := json.Unmarshal(Read(t, path), v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// ReadLines reads a file of JSON lines.
func ReadLines[T any](t testing.TB, path string) (values []T) {
	t.Helper()
	for line := range bytes.Lines(Read(t, path)) {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%s line %d: %v", path, len(values)+1, err)
		}
		values = append(values, v)
	}
	return values
}

// WriteJSON writes v as JSON. It returns the path.
func WriteJSON(t testing.TB, path string, v any) string {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return Write(t, path, content)
}

// EditJSON changes the object of JSON that a file holds.
func EditJSON(t testing.TB, path string, change func(map[string]any)) {
	t.Helper()
	var object map[string]any
	ReadJSON(t, path, &object)
	change(object)
	WriteJSON(t, path, object)
}

// Replace replaces the first occurrence of old, which must be there, in a file.
func Replace(t testing.TB, path, old, new string) {
	t.Helper()
	content := string(Read(t, path))
	if !strings.Contains(content, old) {
		t.Fatalf("%s holds no %q", path, old)
	}
	Write(t, path, strings.Replace(content, old, new, 1))
}

// Folder makes a folder, and those above it where they are missing. It returns the path.
func Folder(t testing.TB, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Copy copies the folder from to the folder to, which it makes.
func Copy(t testing.TB, to, from string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// Remove removes a file, or an empty folder.
func Remove(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// Refused checks that loading each file of a pattern fails with all that its comments "# want: …" say, one at least.
func Refused(t testing.TB, pattern string, load func(file string) error) {
	t.Helper()
	wanted := regexp.MustCompile(`(?m)^[ \t]*# want: (.*?)[ \t]*$`)
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		err, wants := load(file), wanted.FindAllStringSubmatch(string(Read(t, file)), -1)
		if len(wants) == 0 {
			t.Errorf("%s does not say what it wants", file)
		}
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want[1]) {
				t.Errorf("%s: %v, want %q", file, err, want[1])
			}
		}
	}
}
