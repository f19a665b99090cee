package judge

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is the structure that each text keeps: a JSON schema, or a regular expression for the whole text.
type Schema struct {
	schema  *jsonschema.Schema
	pattern *regexp.Regexp
}

// ReadSchema compiles the JSON schema in a file. It must refer to no other file.
func ReadSchema(file string) (*Schema, error) {
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.FileLoader{})
	s, err := c.Compile(file)
	if err != nil {
		return nil, fmt.Errorf("judge: the JSON schema %s: %w", file, err)
	}
	return &Schema{schema: s}, nil
}

// PatternSchema is the structure that a regular expression describes, of the whole text.
func PatternSchema(pattern string) (*Schema, error) {
	p, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("judge: the pattern of the texts: %w", err)
	}
	return &Schema{pattern: p}, nil
}

// What a text is by a schema.
const (
	keeps  = "keeps the structure"
	breaks = "breaks the structure"
	noJSON = "is no JSON"
)

func (s *Schema) check(text string) string {
	if s.pattern != nil {
		if s.pattern.MatchString(text) {
			return keeps
		}
		return breaks
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	switch {
	case err != nil:
		return noJSON
	case s.schema.Validate(value) != nil:
		return breaks
	}
	return keeps
}
