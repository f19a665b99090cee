package methods

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"popri/configs"
)

// comments are the comments of the configuration's settings, each in one line.
type comments struct {
	Keys     map[string]string // of a field, by its key, such as "dpo.beta"
	Sections map[string]string // of a section's type, by its name, such as "dpo"
}

// readComments parses the source files of package configs and of the packages that own sections.
func readComments() (*comments, error) {
	found := &comments{map[string]string{}, map[string]string{}}
	if err := read(found, reflect.TypeFor[configs.Config](), ""); err != nil {
		return nil, err
	}
	for name, owned := range configs.Types() {
		if err := read(found, owned, name); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// read adds the comments of a struct of settings, of a section or of all of package configs.
func read(found *comments, t reflect.Type, section string) error {
	dir := filepath.Join("..", strings.TrimPrefix(t.PkgPath(), "popri/"))
	sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	r := reader{structs: map[string]*ast.StructType{}, docs: map[string]string{}, found: *found}
	for _, source := range sources {
		content, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, content, parser.ParseComments)
		if err != nil {
			return err
		}
		r.types(file)
	}
	root := r.structs[t.Name()]
	if root == nil {
		return fmt.Errorf("%s: no type %s", dir, t.Name())
	}
	prefix := ""
	if section != "" {
		prefix, found.Sections[section] = section+".", oneLine(r.docs[t.Name()], t.Name(), nil)
	}
	if err := r.walk(root, prefix); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

type reader struct {
	structs map[string]*ast.StructType
	docs    map[string]string // of types
	found   comments
}

func (r *reader) types(file *ast.File) {
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range decl.Specs {
			if spec, ok := s.(*ast.TypeSpec); ok {
				if t, ok := spec.Type.(*ast.StructType); ok {
					r.structs[spec.Name.Name] = t
					r.docs[spec.Name.Name] = decl.Doc.Text()
				}
			}
		}
	}
}

func (r *reader) walk(s *ast.StructType, prefix string) error {
	names := map[string]string{} // key's last part, by the field
	for _, f := range s.Fields.List {
		if len(f.Names) == 1 && !f.Names[0].IsExported() {
			continue
		}
		if f.Tag == nil || len(f.Names) != 1 {
			return fmt.Errorf("section %q has a field without a name or without a tag", prefix)
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return err
		}
		names[f.Names[0].Name], _, _ = strings.Cut(reflect.StructTag(tag).Get("yaml"), ",")
	}
	for _, f := range s.Fields.List {
		field := f.Names[0].Name
		if !f.Names[0].IsExported() {
			continue
		}
		name := names[field]
		if id, ok := f.Type.(*ast.Ident); ok && r.structs[id.Name] != nil {
			r.found.Sections[name] = oneLine(r.docs[id.Name], id.Name, nil)
			if err := r.walk(r.structs[id.Name], prefix+name+"."); err != nil {
				return err
			}
			continue
		}
		r.found.Keys[prefix+name] = oneLine(f.Doc.Text(), field, names)
	}
	return nil
}

// camel matches names of fields that are no English words.
var camel = regexp.MustCompile(`\b[A-Z][A-Za-z]*[a-z][A-Z][A-Za-z]*\b`)

// oneLine joins the lines of a comment and replaces the names of fields, which only readers of the source know: the
// first word, its own name, by "This", and others by their keys.
func oneLine(doc, own string, names map[string]string) string {
	text := strings.Join(strings.Fields(doc), " ")
	if rest, ok := strings.CutPrefix(text, own+" "); ok {
		text = rest
	}
	text = camel.ReplaceAllStringFunc(text, func(word string) string {
		if name, ok := names[word]; ok {
			return name
		}
		return word
	})
	for field, name := range names {
		if field == own {
			text = regexp.MustCompile(`\b`+field+`\b`).ReplaceAllString(text, name)
		}
	}
	return text
}
