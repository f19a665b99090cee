package main

import (
	"strings"
	"testing"

	"popri/configs"
	"popri/configs/worlds"
	"popri/study/grid"
	"popri/study/reproduction"
	"popri/testkit/testfile"
)

// Every grid is possible at its scales, and the page says what was found of each.
func TestReproductions(t *testing.T) {
	page := testfile.Read(t, "../../docs/reproduction.md")
	names := map[string]bool{}
	for _, e := range reproduction.All() {
		if names[e.Name] {
			t.Errorf("%s is there twice", e.Name)
		}
		names[e.Name] = true
		if !strings.Contains(string(page), "popri reproduce "+e.Name) {
			t.Errorf("docs/reproduction.md has no row of %s", e.Name)
		}
		if e.Of == "" || e.Title == "" || e.Paper == "" {
			t.Errorf("%+v says too little", e)
		}
		if e.Command != "" {
			words := strings.Fields(e.Command)
			if cmd, _, err := (&app{}).root().Find(words[1:]); words[0] != "popri" || err != nil || cmd.RunE == nil {
				t.Errorf("%s: %s is no command: %v", e.Name, e.Command, err)
			}
			continue
		}
		for _, scale := range reproduction.Scales {
			g, err := e.Grid(scale)
			if scale == "small" && !e.Small {
				if err == nil || !strings.Contains(err.Error(), "scaling") {
					t.Errorf("%s has no scale small: %v", e.Name, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			set := g.Set
			if g.World != "" {
				if _, err := worlds.Find(g.World); err != nil {
					t.Errorf("%s, %s: %v", e.Name, scale, err)
				}
				set = append([]string{"data.private=a.parquet", "data.public=b.parquet",
					"downstream.model=" + configs.Trained}, set...)
			}
			if scale == "paper" {
				set = append(set, "data.private=a.parquet", "data.public=b.parquet", "model.path=m",
					"scoring.encoder=./e", "downstream.model=d")
			}
			base, err := configs.Load(configs.LoadOptions{Preset: g.Preset, Set: set})
			if err != nil {
				t.Errorf("%s, %s: %v", e.Name, scale, err)
				continue
			}
			varied, err := grid.Parse(g.Over, g.Instead, 1)
			if err != nil {
				t.Errorf("%s, %s: %v", e.Name, scale, err)
				continue
			}
			if _, cells, err := varied.Cells(*base); err != nil || len(cells) < 1 {
				t.Errorf("%s, %s: %d runs, %v", e.Name, scale, len(cells), err)
			}
		}
	}
	if _, err := reproduction.Find("table9"); err == nil || !strings.Contains(err.Error(), "table4-rank") {
		t.Errorf("an unknown table: %v", err)
	}
	if _, err := reproduction.All()[0].Grid("huge"); err == nil {
		t.Error("an unknown scale is no error")
	}
}
