package study

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/internal/datakey"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/study/grid"
	"popri/study/jobs"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// smallGrid is a grid of two settings in a small world.
func smallGrid(t *testing.T, seeds int, values ...string) (*testworld.World, []grid.Axis, []grid.Cell) {
	t.Helper()
	w := testworld.Make(t)
	w.Config.Trainer.Rounds = 1
	axes := []grid.Axis{{Key: "dpo.beta", Values: values}}
	cells, err := grid.All(w.Config, axes, seeds)
	if err != nil {
		t.Fatal(err)
	}
	return w, axes, cells
}

// Tasks that do planned cells, in any order, give the bytes of an ablation in one process.
func TestTasksGiveTheSameAblation(t *testing.T) {
	w, axes, cells := smallGrid(t, 1, "0.05", "0.1")
	t.Chdir(t.TempDir())
	var bytes [][]byte
	for _, tasks := range []bool{false, true} {
		dir := "grid" // its name is part of the result
		if tasks {
			_, numbers, err := grid.WritePlan(dir, w.Config, grid.Varied{Axes: axes, Seeds: 1}, cells)
			if err != nil {
				t.Fatal(err)
			}
			slices.Reverse(numbers)
			for _, cell := range append(numbers, numbers[0]) { // the last does nothing: it is done
				if err := RunTask(t.Context(), TaskOptions{Options: Options{Dir: dir}, Cell: cell}); err != nil {
					t.Fatal(err)
				}
			}
			for i, c := range cells {
				if done, err := Finished(c, dir); !done || err != nil {
					t.Errorf("cell %d: %v, %v", i, done, err)
				}
				c.Config.Downstream.Steps++ // as after popri eval --set
				if done, err := Finished(c, dir); done || err != nil {
					t.Errorf("cell %d, with figures of another small model: %v, %v", i, done, err)
				}
				testfile.EditJSON(t, filepath.Join(dir, c.Name, rundir.Eval), func(e map[string]any) {
					e["small_model"].(map[string]any)["downstream.steps"] = "1"
					e["results"].([]any)[1].(map[string]any)["accuracy"] = 0.5
				})
			}
		}
		if _, err := Ablate(t.Context(), axes, cells, Options{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		b := testfile.Read(t, filepath.Join(dir, File))
		bytes = append(bytes, b)
		if err := os.Rename(dir, fmt.Sprint("tasks ", tasks)); err != nil {
			t.Fatal(err)
		}
	}
	if string(bytes[0]) != string(bytes[1]) {
		t.Errorf("in one process:\n%s\nby tasks:\n%s", bytes[0], bytes[1])
	}
}

func TestPlan(t *testing.T) {
	w, axes, cells := smallGrid(t, 2, "0.05", "0.1")
	dir := t.TempDir()
	if _, err := grid.ReadPlan(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no plan: %v", err)
	}
	if err := RunTask(t.Context(), TaskOptions{Options: Options{Dir: dir}}); !fault.IsUser(err) {
		t.Errorf("a task without a plan: %v", err)
	}
	first, numbers, err := grid.WritePlan(dir, w.Config, grid.Varied{Axes: axes, Seeds: 2}, cells)
	if err != nil || !slices.Equal(numbers, []int{0, 1, 2, 3}) {
		t.Fatal(err, numbers)
	}
	base, varied, err := first.Last()
	if err != nil || varied.Seeds != 2 || string(base.YAML()) != string(w.Config.YAML()) {
		t.Errorf("%v: the base is another one", err)
	}
	for i := range cells {
		c, err := first.Cell(i)
		if err != nil || string(c.Config.YAML()) != string(cells[i].Config.YAML()) || c.Name != cells[i].Name {
			t.Errorf("cell %d: %v", i, err)
		}
	}

	// An extended grid keeps the numbers that waiting tasks have.
	longer := []grid.Axis{{Key: "dpo.beta", Values: []string{"0.2", "0.1", "0.05"}}}
	more, err := grid.All(w.Config, longer, 2)
	if err != nil {
		t.Fatal(err)
	}
	second, numbers, err := grid.WritePlan(dir, w.Config, grid.Varied{Axes: longer, Seeds: 2}, more)
	if err != nil || !slices.Equal(numbers, []int{4, 5, 2, 3, 0, 1}) || second.ID != first.ID {
		t.Fatal(err, numbers)
	}
	other := w.Config
	other.LoRA.Rank++
	changed, err := grid.All(other, axes, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := grid.WritePlan(dir, other, grid.Varied{Axes: axes, Seeds: 2}, changed); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), "lora.rank") {
		t.Errorf("other settings under the same names: %v", err)
	}

	// Changes are planned as axes are, and read back.
	changes, err := grid.Parse(nil, []string{"dpo.beta=0.3", "dpo.loss=ipo dpo.beta=0.2"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, rows, err := changes.Cells(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, numbers, err = grid.WritePlan(dir, w.Config, changes, rows); err != nil || len(numbers) != 3 {
		t.Fatal(err, numbers)
	}
	again, err := grid.ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, varied, err = again.Last(); err != nil || !reflect.DeepEqual(varied, changes) {
		t.Errorf("planned %+v, read %+v (%v)", changes, varied, err)
	}

	// A task refuses what was not planned, and says to anyone who submitted it that trying again is of no use.
	refused := func(cell int, want string) {
		t.Helper()
		err := RunTask(t.Context(), TaskOptions{Options: Options{Dir: dir}, Cell: cell})
		if !fault.IsUser(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("cell %d: %v, want %q", cell, err, want)
		}
		if f, err := jobs.ReadFailure(grid.PlanDir(dir), cell); err != nil || f == nil || !f.Final ||
			!strings.Contains(f.Error, want) {
			t.Errorf("cell %d: %v: recorded %+v", cell, err, f)
		}
	}
	refused(9, "no cell 9")
	path := filepath.Join(grid.PlanDir(dir), "cells", "0001.yaml")
	testfile.Write(t, path, append(testfile.Read(t, path), '#'))
	refused(1, "changed after it was planned")
	t.Setenv(datakey.Variable, filepath.Join(t.TempDir(), "other.key"))
	refused(0, datakey.Variable)
}
