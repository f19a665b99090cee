package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// sharedData is a folder of real text next to the checkout. A test that needs it is skipped without it.
func sharedData(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "data")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no %s", dir)
	}
	return dir
}

func TestImportGivesTheExpectedCounts(t *testing.T) {
	dir := sharedData(t)
	var expected map[string]struct {
		Rows    int            `json:"rows"`
		Texts   int            `json:"texts"` // where a row is a client
		Words   int            `json:"words"`
		Clients int            `json:"clients"`
		Splits  map[string]int `json:"clients_by_split"`
		RowsBy  map[string]int `json:"rows_by_split"`
	}
	testfile.ReadJSON(t, filepath.Join(dir, "expected.json"), &expected)
	for name, want := range expected {
		t.Run(name, func(t *testing.T) {
			o := ImportOptions{ClientPerText: want.Clients == 0}
			p, m, err := importFiles(t, []ImportFile{{Path: filepath.Join(dir, name)}}, o)
			if err != nil {
				t.Fatal(err)
			}
			texts := want.Rows
			if want.Texts > 0 {
				texts = want.Texts
			}
			if n := Count(p.Clients); n.Texts != texts || n.Words != want.Words ||
				want.Clients > 0 && n.Clients != want.Clients || len(m.LeftOut) > 0 {
				t.Errorf("%v, left out %v; want %+v", n, m.LeftOut, want)
			}
			for split, n := range want.Splits {
				if m.Splits[Split(split)].Clients != n || want.Texts == 0 &&
					m.Splits[Split(split)].Texts != want.RowsBy[split] {
					t.Errorf("%s: %v, want %d clients", split, m.Splits[Split(split)], n)
				}
			}
		})
	}
	published := func(name string) string { return filepath.Join(dir, "masc-published-"+name+".json") }
	for _, c := range []struct {
		eval    string
		clients int
	}{{"eval", 103}, {"eval-flat", 769}} {
		_, m, err := importFiles(t, []ImportFile{{published("train"), Train}, {published(c.eval), Validation},
			{published("test"), Test}}, ImportOptions{})
		if err != nil {
			t.Fatal(err)
		}
		train, validation, test := m.Splits[Train], m.Splits[Validation], m.Splits[Test]
		if train.Clients != 885 || train.Texts != 6469 || validation.Clients != c.clients || validation.Texts != 769 ||
			test.Clients != 93 || test.Texts != 696 {
			t.Errorf("%s: %v", c.eval, m.Splits)
		}
	}
	if _, m, err := importFiles(t, []ImportFile{{Path: published("initial")}},
		ImportOptions{ClientPerText: true}); err != nil || m.TextsRead != 2000 {
		t.Errorf("initial: %+v, %v", m, err)
	}
}

func TestImportNamesWhatIsBroken(t *testing.T) {
	dir := filepath.Join(sharedData(t), "broken")
	for name, want := range map[string]string{
		"bad-date": "row 12: date is no date", "blank-text": "row 12: text is blank",
		"null-text":            "row 12: text is null",
		"client-in-two-splits": `row 1: split is "test", but row 0 puts the client in "train"`,
		"corrupt-page":         "column text, after ", "empty": "0 bytes", "header-only": "4 bytes are too few",
		"invalid-utf8":      "row 12: text is not UTF-8",
		"missing-client-id": "row 0 names no client", "missing-text": `no column "text"`, "no-rows": "no texts",
		"not-parquet":    "not a Parquet file",
		"null-client-id": "row 12: client_id is null", "truncated": "cut off",
		"unknown-split":        "row 12: split is none of",
		"wrong-type-client-id": "column client_id holds INT", "wrong-type-text": "column text holds DOUBLE",
		"good": "", "unsorted-clients": "", // an import sorts
	} {
		path := filepath.Join(dir, name+".parquet")
		p, _, err := importFiles(t, []ImportFile{{Path: path}}, ImportOptions{})
		switch {
		case want == "" && (err != nil || Count(p.Clients).Texts != 24):
			t.Errorf("%s: %v", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)):
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	found, err := os.ReadDir(dir)
	if err != nil || len(found) != 19 {
		t.Errorf("%d broken files, %v", len(found), err)
	}
}
