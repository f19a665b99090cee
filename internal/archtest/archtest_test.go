package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "popri"

// private is the private half of the data. Only these packages may import it, directly: the door for training, the
// measurements, the builder of the embedded default, what opens runs and hands clients on, and the commands. Every
// addition is another way for private text to get out; the comment of the package must name it.
var (
	private = module + "/datasets/clients"
	allowed = []string{"datasets/clients", "datasets/godoc", "fedsim", "fedsim/client", "fedsim/local",
		"eval/downstream", "run/assembly", "run", "run/evaluator", "run/judging",
		"run/lanfl",
		"study/cost", "eval/domain", "cmd/popri", "cmd/popri-client", "examples/loop"}
	// learns, and what shows a run to others, must not reach private text: not even through a package that imports the
	// private half. What the clients answer comes to them as values, by package release.
	learns = []string{"trainer", "trainer/pretrain", "lora", "dpo", "dpo/trl", "model/lm", "model/tokenizer", "scoring",
		"scoring/counts", "scoring/ensemble", "scoring/query", "scoring/update", "fedsim/aggregate", "fedsim/release", "fedsim/sealing",
		"methods", "methods/method",
		"methods/rounds", "methods/sampling/vllm", "run/textgen", "show/eventlog",
		"show/texts", "show/trackers", "show/watch", "study/grid", "study/jobs"}
)

// imports maps each package folder, "" for the root, to what its files (without tests) import.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(here), "..", "..")
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != root &&
				(name == "testdata" || name == "vendor" || name[0] == '.' || name[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		for _, i := range file.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if !slices.Contains(found[dir], name) {
				found[dir] = append(found[dir], name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found["datasets/clients"]) == 0 || len(found["fedsim"]) == 0 {
		t.Fatalf("the module's packages were not found under %s", root)
	}
	return found
}

func TestPrivateHalfHasFewImporters(t *testing.T) {
	for dir, list := range imports(t) {
		if slices.Contains(list, private) && !slices.Contains(allowed, dir) {
			t.Errorf("%s imports %s; only %q may", dir, private, allowed)
		}
	}
}

// The simulation pulls in no range proofs: those are the aggregators' and their clients'.
func TestSimulationHasNoProofs(t *testing.T) {
	found := imports(t)
	seen := map[string]bool{}
	var walk func(dir string)
	walk = func(dir string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		for _, name := range found[dir] {
			if strings.HasPrefix(name, "github.com/cloudflare/circl") || name == module+"/fedsim/aggregate" {
				t.Errorf("%s imports %s, which the simulation needs", dir, name)
			}
			if inside, ok := strings.CutPrefix(name, module+"/"); ok {
				walk(inside)
			}
		}
	}
	walk("fedsim")
	if !seen["scoring/query"] {
		t.Error("the imports of fedsim were not followed")
	}
}

// Package fedsim/local alone joins clients' texts and a model: one that learns, whose changes fedsim clips and adds noise
// to, or one that reads, of whose votes fedsim releases one noised token. Only what opens runs may make either.
func TestModelsAtClientsHaveOneDoor(t *testing.T) {
	const door = "fedsim/local"
	found := imports(t)
	for dir, list := range found {
		if slices.Contains(list, module+"/"+door) && dir != "run" {
			t.Errorf("%s imports %s; only run may", dir, door)
		}
		if strings.HasPrefix(dir, "fedsim") && dir != door && slices.Contains(list, module+"/model/lm") {
			t.Errorf("%s imports model/lm; of fedsim, only %s may", dir, door)
		}
	}
	if !slices.Contains(found["run"], module+"/"+door) || !slices.Contains(found[door], module+"/model/lm") {
		t.Errorf("run does not open %s, or that has no model", door)
	}
}

func TestWhatLearnsCannotReachPrivateText(t *testing.T) {
	found := imports(t)
	for _, start := range learns {
		if len(found[start]) == 0 {
			t.Errorf("%s is no package, or it imports nothing", start)
		}
		seen := map[string]bool{}
		var walk func(dir string, trail []string)
		walk = func(dir string, trail []string) {
			if seen[dir] {
				return
			}
			seen[dir] = true
			for _, name := range found[dir] {
				if name == private {
					t.Errorf("%s reaches %s by %s", start, private, strings.Join(append(trail, dir), " → "))
				}
				if next, ok := strings.CutPrefix(name, module+"/"); ok {
					walk(next, append(slices.Clone(trail), dir))
				}
			}
		}
		walk(start, nil)
	}
}

// The folders at the top import one way: none reaches itself through another.
func TestFoldersImportOneWay(t *testing.T) {
	folder := func(dir string) string { first, _, _ := strings.Cut(dir, "/"); return first }
	next := map[string]map[string]string{} // folder → folder → an import between them
	for dir, list := range imports(t) {
		for _, name := range list {
			to, own := strings.CutPrefix(name, module+"/")
			if from := folder(dir); own && from != "internal" && folder(to) != "internal" && folder(to) != from {
				if next[from] == nil {
					next[from] = map[string]string{}
				}
				next[from][folder(to)] = dir + " → " + to
			}
		}
	}
	if len(next) < 10 {
		t.Fatalf("only %d folders", len(next))
	}
	for start := range next {
		seen := map[string]bool{}
		var walk func(at string, trail []string)
		walk = func(at string, trail []string) {
			for to, by := range next[at] {
				if to == start {
					t.Errorf("%s reaches itself: %s", start, strings.Join(append(trail, by), ", "))
				}
				if !seen[to] {
					seen[to] = true
					walk(to, append(slices.Clone(trail), by))
				}
			}
		}
		walk(start, nil)
	}
}

// Package process replaces functions of the C library in the whole program and makes timers late, which only a command
// may decide.
func TestCommandsAloneChangeTheWholeProgram(t *testing.T) {
	for dir, list := range imports(t) {
		chooses := slices.Contains(list, module+"/internal/process")
		if want := dir == "cmd/popri"; chooses != want {
			t.Errorf("%s imports internal/process: %v, want %v", dir, chooses, want)
		}
	}
}

// A study opens runs and a run knows no study; the packages below run are its parts and know no session.
func TestRunsKnowNoStudyAndPartsNoSession(t *testing.T) {
	for dir, list := range imports(t) {
		for _, name := range list {
			name := strings.TrimPrefix(name, module+"/")
			study := name == "study" || strings.HasPrefix(name, "study/")
			if inRun := dir == "run" || strings.HasPrefix(dir, "run/"); inRun && study {
				t.Errorf("%s imports %s", dir, name)
			}
			if strings.HasPrefix(dir, "run/") && name == "run" {
				t.Errorf("%s imports run", dir)
			}
		}
	}
}
