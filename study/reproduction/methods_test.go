package reproduction

import (
	"slices"
	"testing"

	"popri/configs"
	_ "popri/methods" // whose settings the rows set
	"popri/study/grid"
)

// TestRowsArePossible: every method's settings are valid at both scales and at several ε, and no two methods are the
// same run.
func TestRowsArePossible(t *testing.T) {
	for _, scale := range []string{Demo, Small} {
		base := MethodBase(scale)
		set := append(slices.Clone(base.Set), "generate.by_label=true", "generate.kinds=")
		c, err := configs.Load(configs.LoadOptions{Preset: base.Preset, Set: set})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := MethodRows(scale, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		axes, cells, err := grid.Named(*c, "method", rows,
			grid.Axis{Key: "privacy.epsilon", Values: []string{"1", "7"}}, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(cells) != 4*len(MethodNames()) || !slices.Equal(axes[0].Values, MethodNames()) {
			t.Errorf("%s: %d runs of %v", scale, len(cells), axes)
		}
		for i, a := range cells {
			for _, b := range cells[:i] {
				if a.Seed != b.Seed {
					continue
				}
				if key, _, _ := a.Differs(b.Config); key == "" {
					t.Errorf("%s: %s and %s are the same", scale, a.Name, b.Name)
				}
			}
		}
	}
	if _, err := MethodRows(Demo, []string{"popri", "absent"}, false); err == nil {
		t.Error("a method that is not there is no error")
	}
	if rows, err := MethodRows(Demo, nil, false); err != nil ||
		slices.ContainsFunc(rows, func(r grid.Row) bool { return r.Name == "wasp" }) {
		t.Errorf("without labels: %v (%v)", rows, err)
	}
	if rows, err := MethodRows(Demo, []string{"grpo"}, false); err != nil || len(rows) != 1 {
		t.Errorf("one method: %v (%v)", rows, err)
	}
}
