package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestWriteReplacesAndKeepsPermissions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	if err := WriteBytes(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("x"), 3*bufferSize+7)
	if err := WriteBytes(path, big); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, big) {
		t.Fatalf("read back %d bytes, %v", len(got), err)
	}
	info, _ := os.Stat(path)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode().Perm())
	}
}

func TestFailureLeavesTheOldFileAndNoTemporary(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := WriteBytes(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err := Write(path, func(w io.Writer) error {
		w.Write(make([]byte, 2*bufferSize))
		return boom
	})
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("content %q", got)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestWriteToADirectoryOrAMissingOne(t *testing.T) {
	dir := t.TempDir()
	if err := WriteBytes(dir, nil); err == nil {
		t.Error("wrote over a directory")
	}
	missing := filepath.Join(dir, "no", "file")
	for _, err := range []error{WriteBytes(missing, nil), Check(missing)} {
		if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
			t.Errorf("error %v", err)
		}
	}
	if err := Check(filepath.Join(dir, "file")); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestConcurrentWritersLeaveOneWholeFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if err := WriteBytes(path, bytes.Repeat([]byte{byte('a' + i)}, 1000)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := os.ReadFile(path)
	if err != nil || len(got) != 1000 || !bytes.Equal(got, bytes.Repeat(got[:1], 1000)) {
		t.Errorf("mixed content, %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func ExampleWrite() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "greeting")
	err := Write(path, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, "hello")
		return err
	})
	content, _ := os.ReadFile(path)
	fmt.Print(err, " ", string(content))
	// Output: <nil> hello
}
