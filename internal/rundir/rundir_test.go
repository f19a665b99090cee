package rundir

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// The package comment lists every file at the top of a run's folder, and docs/run-folder.md has that list.
func TestListOfFiles(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "rundir.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(file.Doc.Text(), "\tRUN/\n")
	if !found {
		t.Fatal("the package comment has no list")
	}
	for _, name := range []string{Config, Inputs, Ledger, Events, Latest, Rounds, Encoder, Mixes, Synthetic, Small,
		Untuned, Untrained, Eval, InContext, ProtectedEval, Judged, Report, Stop,
		Rungs, Rung, TensorBoard, MLflow, OTel, Unsafe} {
		if !strings.Contains(list, "  "+name) && !strings.Contains(list, ", "+name) {
			t.Errorf("the list lacks %s", name)
		}
	}
	page, err := os.ReadFile("../../docs/run-folder.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "```\nRUN/\n" + strings.ReplaceAll(list, "\t", "") + "```\n"; !strings.Contains(string(page), want) {
		t.Errorf("docs/run-folder.md has another list of a run's files than the comment of package rundir:\n%s", want)
	}
}
