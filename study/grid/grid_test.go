package grid

import (
	"slices"
	"strings"
	"testing"

	"popri/configs"
)

func TestAxes(t *testing.T) {
	for text, want := range map[string][]string{
		"dpo.rejected_rank=2,5,8":                          {"2", "5", "8"},
		"dpo.rejected_rank=2..5":                           {"2", "3", "4", "5"},
		"dpo.rejected_rank=2..9:3,10":                      {"2", "5", "8", "10"},
		"dpo.beta=0.1..0.5:0.1":                            {"0.1", "0.2", "0.3", "0.4", "0.5"},
		"optimizer.learning_rate=1e-4..3e-4:1e-4":          {"0.0001", "0.0002", "0.0003"},
		"data.public=../a.txt,..b..c":                      {"../a.txt", "..b..c"},
		"lora.targets=[a,b];[c]":                           {"[a,b]", "[c]"},
		"generate.temperature+synthetic.temperature=0.5,1": {"0.5", "1"},
	} {
		a, err := parseAxis(text)
		if err != nil || !slices.Equal(a.Values, want) || !strings.HasPrefix(text, a.Key+"=") {
			t.Errorf("%s: %+v, %v; want %q", text, a, err, want)
		}
	}
	for _, text := range []string{"dpo.beta", "dpo.beta=", "=1", "seed=1..3", "dpo.beta+seed=1",
		"dpo.beta+dpo.beta=1,2", "dpo.beta=1,1", "dpo.rejected_rank=5..2", "dpo.rejected_rank=2..2", "dpo.beta=0..1:0",
		"dpo.beta=0..1:1e-9", "dpo.rejected_rank=2..4,3", "downstream.learning_rates=1e-4,3e-4"} {
		if a, err := parseAxis(text); err == nil {
			t.Errorf("%s is no error: %+v", text, a)
		}
	}
}

func TestTiedKeys(t *testing.T) {
	if _, err := Parse(nil, nil, mostSeeds+1); err == nil {
		t.Error("more seeds than can be listed")
	}
	v, err := Parse([]string{"generate.temperature+synthetic.temperature=0.5,0.9", "dpo.rejected_rank=2..4:2"}, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, cells, err := v.Cells(configs.Default())
	if err != nil || len(cells) != 4 {
		t.Fatalf("%d cells, %v", len(cells), err)
	}
	names := map[string]bool{}
	for _, c := range cells {
		if c.Config.Generate.Temperature != c.Config.Synthetic.Temperature {
			t.Errorf("%s: temperatures %g and %g", c.Name, c.Config.Generate.Temperature,
				c.Config.Synthetic.Temperature)
		}
		names[c.Name] = true
	}
	if len(names) != 4 {
		t.Errorf("the runs have the names %v", names)
	}
	v, err = Parse([]string{"generate.temperature+synthetic.temperature=0.5,0.9", "generate.temperature=1,2"}, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := v.Cells(configs.Default()); err == nil {
		t.Error("a key that varies twice is no error")
	}
}
