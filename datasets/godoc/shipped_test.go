package godoc

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

var writeShipped = flag.String("write-shipped", "", "write the comments of the installed Go into this file (make dist)")

// pack is the file of the comments of the installed Go.
func pack(t *testing.T) []byte {
	root, err := findRoot("")
	if err != nil {
		t.Fatal(err)
	}
	files, err := readTree(filepath.Join(root, "src"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(shipped{version(root), files})
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// A program that finds the file beside it reads the same corpus as one that finds Go, and a damaged file is named.
func TestShipped(t *testing.T) {
	content := pack(t)
	if *writeShipped != "" {
		testfile.Write(t, *writeShipped, content)
		return
	}
	path := shippedPath()
	testfile.Folder(t, filepath.Dir(path))
	defer os.RemoveAll(filepath.Dir(filepath.Dir(path)))
	want, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	testfile.Write(t, path, content)
	got, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	if got.Root != path || want.Root == path {
		t.Fatalf("read from %s and %s", got.Root, want.Root)
	}
	if got.Root = want.Root; !reflect.DeepEqual(got, want) {
		t.Error("the file gives another corpus than Go's source")
	}
	testfile.Write(t, path, content[:len(content)/2])
	if _, err := Load(""); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("half a file: %v", err)
	}
}
