package parquetio

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"popri/testkit/testfile"
)

// opened is [Open] of a file that is sound.
func opened(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	return testfile.Write(t, filepath.Join(t.TempDir(), "file.parquet"), content)
}

type dictionaryRow struct {
	Text string `parquet:"text,dict"`
}

// table writes n rows whose texts are the given ones in turn, from a dictionary.
func table(t *testing.T, n int, texts ...string) []byte {
	t.Helper()
	rows := make([]dictionaryRow, n)
	for i := range rows {
		rows[i].Text = texts[i%len(texts)]
	}
	var b bytes.Buffer
	if err := Write(&b, rows, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A small dictionary that many rows refer to makes much text of a small file.
func TestDictionaryBombs(t *testing.T) {
	const large = 1 << 20
	bomb := table(t, 2*spareBytes/large, strings.Repeat("a", large), strings.Repeat("b", large))
	if len(bomb) > spareBytes/expansion {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	f := opened(t, file(t, bomb))
	defer f.Close()
	if _, err := f.Strings("text"); !errors.Is(err, ErrFormat) ||
		!strings.Contains(err.Error(), "column text, after ") || !strings.Contains(err.Error(), "more than the limit") {
		t.Errorf("a bomb: %v", err)
	}

	sound := opened(t, file(t, table(t, 200_000, "train", "validation", "test")))
	defer sound.Close()
	if cells, err := sound.Strings("text"); err != nil || len(cells) != 200_000 {
		t.Errorf("a sound dictionary: %d cells, %v", len(cells), err)
	}
	sound.limit = 200_000*valueBytes + 100 // values count even where they hold little
	if _, err := sound.Strings("text"); !errors.Is(err, errTooMuch) {
		t.Errorf("many small values: %v", err)
	}
}

// Rows and values are bounded before anything is read, since readers make room for as many as a file claims.
func TestClaimsAreBounded(t *testing.T) {
	f := opened(t, file(t, table(t, 1000, "a", "b")))
	defer f.Close()
	f.limit = 999 * valueBytes
	if err := f.checkExtents(1000); err == nil || !strings.Contains(err.Error(), "claims 1000 rows") {
		t.Errorf("1000 rows where 999 are possible: %v", err)
	}
	type list struct {
		Texts []string `parquet:"texts,list"`
	}
	var b bytes.Buffer
	if err := Write(&b, []list{{make([]string, 1000)}}, nil); err != nil {
		t.Fatal(err)
	}
	lists := opened(t, file(t, b.Bytes()))
	defer lists.Close()
	lists.limit = 999 * valueBytes
	if err := lists.checkExtents(1000); err == nil || !strings.Contains(err.Error(), "claims 1000 values") {
		t.Errorf("1000 values where 999 are possible: %v", err)
	}
	// A page of repeated text is small in the file, and is not decoded to find out.
	b.Reset()
	if err := Write(&b, []struct{ Text string }{{strings.Repeat("x", 1<<20)}}, nil); err != nil {
		t.Fatal(err)
	}
	long := opened(t, file(t, b.Bytes()))
	defer long.Close()
	long.limit = 1 << 19
	if err := long.checkExtents(int64(b.Len())); err == nil || !strings.Contains(err.Error(), "decodes to ") {
		t.Errorf("a page of a MiB where half of it is possible: %v", err)
	}
}

func TestListsAreBounded(t *testing.T) {
	type list struct {
		Texts []string `parquet:"texts,list"`
	}
	for n, want := range map[int]bool{mostListed: true, mostListed + 1: false} {
		var b bytes.Buffer
		if err := Write(&b, []list{{make([]string, n)}}, nil); err != nil {
			t.Fatal(err)
		}
		f := opened(t, file(t, b.Bytes()))
		_, err := f.FieldLists("texts", "")
		f.Close()
		if want != (err == nil) || !want && (!errors.Is(err, ErrFormat) ||
			!strings.Contains(err.Error(), "column texts, after 2097153 values: a row's list")) {
			t.Errorf("%d values: %v", n, err)
		}
	}
}

func TestColumnsThatStandTwice(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, []struct {
		A string `parquet:"textA"`
		B string `parquet:"textB"`
	}{{"x", "y"}}, nil); err != nil {
		t.Fatal(err)
	}
	if f, err := Open(file(t, b.Bytes())); err != nil {
		t.Fatal(err)
	} else {
		f.Close()
	}
	twice := bytes.ReplaceAll(b.Bytes(), []byte("textB"), []byte("textA"))
	if f, err := Open(file(t, twice)); !errors.Is(err, ErrFormat) ||
		!strings.Contains(err.Error(), "column textA stands twice") {
		t.Errorf("%v, %v", f, err)
	}
}

// TestLZ4: the library decodes pages of this codec to other values where they shrink to less than a third, so their columns
// are refused by the codec's name, and other columns of the file are read.
func TestLZ4(t *testing.T) {
	type row struct {
		Packed string `parquet:"packed,lz4"`
		Plain  string `parquet:"plain,zstd"`
	}
	path := filepath.Join(t.TempDir(), "lz4.parquet")
	if err := parquet.WriteFile(path, []row{{"a", "b"}, {"c", "d"}}); err != nil {
		t.Fatal(err)
	}
	f := opened(t, path)
	defer f.Close()
	if _, err := f.Strings("packed"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "column packed") ||
		!strings.Contains(err.Error(), "LZ4") {
		t.Errorf("read by LZ4: %v", err)
	}
	if cells, err := f.Strings("plain"); err != nil || len(cells) != 2 || cells[1].Value != "d" {
		t.Errorf("%v, %v", cells, err)
	}
}
