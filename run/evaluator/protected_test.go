package evaluator

import (
	"context"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/accountant/ledger"
	"popri/internal/datakey"
	"popri/internal/rundir"
	"popri/testkit/testworld"
)

// TestProtect: with hardly any noise, the figures are the means over test clients; asked again, the release is read and
// nothing is charged; other texts, and another ε, are refused.
func TestProtect(t *testing.T) {
	w := testworld.Make(t)
	c := w.Config
	dir := t.TempDir()
	key := filepath.Join(dir, "data.key")
	t.Setenv(datakey.Variable, key) // next to it is the record of who is protected
	ask := func(file, dir string, epsilon float64) (*Protected, error) {
		return Protect(context.Background(), c, file, dir, epsilon, Options{})
	}
	near, err := ask(w.Public, filepath.Join(dir, "near"), 1e5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Texts(context.Background(), c, w.Public, TextsOptions{}); err == nil || !strings.Contains(err.Error(), "are protected") ||
		!strings.Contains(err.Error(), filepath.Join(dir, "near")) {
		t.Errorf("figures without noise of protected clients: %v", err)
	}
	t.Setenv(datakey.Variable, filepath.Join(dir, "elsewhere", "data.key")) // another user's, who has protected nobody
	exact, err := Texts(context.Background(), c, w.Public, TextsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(w.Public, filepath.Join(dir, "late"), 2); err == nil || !strings.Contains(err.Error(), "without noise") {
		t.Errorf("protection after figures without noise: %v", err)
	}
	t.Setenv(datakey.Variable, key)
	if len(near.Rows) != len(exact.Results) || near.Clients != exact.Clients {
		t.Fatalf("%d rows, %d clients; want %d, %d", len(near.Rows), near.Clients, len(exact.Results), exact.Clients)
	}
	for i, r := range near.Rows {
		// The mean over clients and that over tokens differ, but by little where clients' texts are alike.
		if d := math.Abs(r.Accuracy - exact.Results[i].Accuracy); d > 0.05 || r.Noise > 1e-3 {
			t.Errorf("%s: %.4f ± %.4f, over tokens %.4f", r.Name, r.Accuracy, r.Noise, exact.Results[i].Accuracy)
		}
	}
	out := filepath.Join(dir, "noised")
	first, err := ask(w.Public, out, 2)
	if err != nil {
		t.Fatal(err)
	}
	if first.Epsilon > 2 || first.Epsilon < 1.9 || first.Rows[0].Noise < 1e-3 {
		t.Errorf("%+v", first)
	}
	again, err := ask(w.Public, out, 2)
	if err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("again %+v (%v), want %+v", again, err, first)
	}
	if _, entries, err := ledger.Read(filepath.Join(out, rundir.Ledger)); err != nil || len(entries) != 1 {
		t.Errorf("%d charges (%v)", len(entries), err)
	}
	if _, err := ask(w.LabelledPublic, out, 2); err == nil || !strings.Contains(err.Error(), "budget is spent") {
		t.Errorf("other texts: %v", err)
	}
	if _, err := ask(w.Public, out, 3); err == nil || !strings.Contains(err.Error(), "another budget") {
		t.Errorf("another ε: %v", err)
	}
}
