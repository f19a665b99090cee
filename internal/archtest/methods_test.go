package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"popri/configs"
	"popri/methods"
)

// owners are the folders that may name a method: the registry, the methods' folders, and the folders that own a section
// of settings. The tests' world makes small runs of every method.
func owners(found map[string][]string) []string {
	list := []string{"methods", "testkit/testworld"}
	for _, name := range found["methods"] {
		if dir, own := strings.CutPrefix(name, module+"/"); own && dir != "configs" && dir != "methods/method" {
			list = append(list, dir)
		}
	}
	for _, owned := range configs.Types() {
		list = append(list, strings.TrimPrefix(owned.PkgPath(), module+"/"))
	}
	return list
}

// A method owns itself: no package but its own names it, imports it or knows its settings. What the rest of the program
// must know of a method stands in its description. (popri is the program's name, too.)
func TestMethodsAreKnownByTheirDescriptionsAlone(t *testing.T) {
	names := map[string]bool{}
	for _, d := range methods.All {
		names[d.Name] = d.Name != module
	}
	for section := range configs.Types() {
		names[section] = true
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] {
			words = append(words, name)
		}
	}
	if len(words) < 9 {
		t.Fatalf("only the names %q", words)
	}
	literal := regexp.MustCompile(`\b(` + strings.Join(words, "|") + `)\b`)
	identifier := regexp.MustCompile(`(?i)` + strings.ReplaceAll(strings.Join(words, "|"), "_", ""))
	found := imports(t)
	own := owners(found)
	for dir, list := range found {
		for _, name := range list {
			if d := strings.TrimPrefix(name, module+"/"); strings.HasPrefix(d, "methods/") && slices.Contains(own, d) &&
				!slices.Contains(own, dir) && dir != "methods/policy" && d != "methods/target" {
				t.Errorf("%s imports %s", dir, d)
			}
		}
	}
	sources(t, func(path string, file *ast.File, files *token.FileSet) {
		if slices.Contains(own, filepath.ToSlash(filepath.Dir(path))) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false // judged above
			case *ast.Ident:
				if identifier.MatchString(n.Name) {
					t.Errorf("%s: %s names a method", files.Position(n.Pos()), n.Name)
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && literal.MatchString(text) {
					t.Errorf("%s: %q names a method", files.Position(n.Pos()), literal.FindString(text))
				}
			}
			return true
		})
	})
}

// sources calls f with every file of the module's packages but tests. path is relative to the module's folder.
func sources(t *testing.T, f func(path string, file *ast.File, files *token.FileSet)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() {
			if path != root && (name == "testdata" || name[0] == '.') {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err == nil {
			f(relative, file, files)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
