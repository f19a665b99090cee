package configs

import (
	"fmt"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"

	"popri/internal/quote"
)

// Key is one setting.
type Key struct {
	// Name is the section and the setting, such as "dpo.beta".
	Name string
	// Type is "text", "whole number", "number", "true or false", "list of texts" or "list of numbers".
	Type string

	kind  reflect.Type
	index []int // of the field in Config
}

// keys lists all settings in the order of the types.
var keys = func() (list []Key) {
	var walk func(t reflect.Type, prefix string, index []int)
	walk = func(t reflect.Type, prefix string, index []int) {
		for i := range t.NumField() {
			field := t.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			at := append(append([]int(nil), index...), i)
			switch field.Type.Kind() {
			case reflect.Struct:
				walk(field.Type, prefix+name+".", at)
			case reflect.Map: // provenance, which is no setting
			default:
				list = append(list, Key{prefix + name, typeName(field.Type), field.Type, at})
			}
		}
	}
	walk(reflect.TypeFor[Config](), "", nil)
	return list
}()

var typeNames = map[reflect.Kind]string{
	reflect.String: "text", reflect.Int: "whole number", reflect.Uint64: "whole number", reflect.Float64: "number",
	reflect.Bool: "true or false",
}

func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Slice {
		return "list of " + typeNames[t.Elem().Kind()] + "s"
	}
	return typeNames[t.Kind()]
}

// Keys returns all settings in the order in which a configuration is printed.
func Keys() []Key { return append([]Key(nil), keys...) }

func lookup(name string) (Key, bool) {
	for _, k := range keys {
		if k.Name == name {
			return k, true
		}
	}
	return Key{}, false
}

func isSection(name string) bool {
	for _, k := range keys {
		if strings.HasPrefix(k.Name, name+".") {
			return true
		}
	}
	return false
}

// decode turns a YAML value into the key's type, without the conversions that YAML libraries offer: a number is no
// text, "yes" is not true, and 1.5 is no whole number.
func (k Key) decode(node *yaml.Node) (any, error) {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	fail := func() (any, error) { return nil, fmt.Errorf("is %s, must be a %s", describe(node), k.Type) }
	tag := node.ShortTag()
	switch k.kind.Kind() {
	case reflect.String:
		if node.Kind != yaml.ScalarNode || tag != "!!str" {
			return fail()
		}
	case reflect.Bool:
		if node.Kind != yaml.ScalarNode || tag != "!!bool" {
			return nil, fmt.Errorf("is %s, must be true or false", describe(node))
		}
	case reflect.Int, reflect.Uint64:
		if node.Kind != yaml.ScalarNode || tag != "!!int" {
			return fail()
		}
	case reflect.Float64:
		if node.Kind != yaml.ScalarNode || tag != "!!int" && tag != "!!float" {
			return fail()
		}
	case reflect.Slice:
		if node.Kind != yaml.SequenceNode {
			return fail()
		}
		for _, item := range node.Content {
			tag, text := item.ShortTag(), k.kind.Elem().Kind() == reflect.String
			if item.Kind != yaml.ScalarNode || text && tag != "!!str" || !text && tag != "!!int" && tag != "!!float" {
				return nil, fmt.Errorf("holds %s, must be a %s", describe(item), k.Type)
			}
		}
	}
	value := reflect.New(k.kind)
	if err := node.Decode(value.Interface()); err != nil {
		return nil, fmt.Errorf("is %s, which is out of range for a %s", describe(node), k.Type)
	}
	return value.Elem().Interface(), nil
}

// parse turns the text of a flag or an environment variable into the key's type. A list is written a,b or [a, b].
func (k Key) parse(text string) (any, error) {
	switch {
	case k.kind.Kind() == reflect.String:
		return text, nil
	case k.kind.Kind() == reflect.Slice && !strings.HasPrefix(strings.TrimSpace(text), "["):
		list := []string{}
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		if k.kind.Elem().Kind() == reflect.String {
			return list, nil
		}
		text = "[" + strings.Join(list, ", ") + "]"
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil || len(document.Content) != 1 {
		return nil, quote.Errorf("is %q, must be a %s", text, k.Type)
	}
	return k.decode(document.Content[0])
}

// describe names a YAML value as it stands in the file.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a section"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "a reference"
	}
	if node.ShortTag() == "!!null" {
		return "empty"
	}
	if node.ShortTag() == "!!str" {
		return "the text " + quote.Text(node.Value)
	}
	return quote.Raw(node.Value)
}

// Set changes one setting to the value that text spells, as --set does. An unknown key or a text that is no such value
// gives an [*Invalid]; whether the value is possible is for [Config.Validate] to say.
func (c *Config) Set(name, text string) error {
	k, ok := lookup(name)
	if !ok {
		return &Invalid{[]Problem{unknownKey("", name)}}
	}
	value, err := k.parse(text)
	if err != nil {
		return &Invalid{[]Problem{{Key: name, Text: err.Error()}}}
	}
	if name == privateKey && c.Data.Private != "" && c.Data.Private != value {
		c.Eval.ReferencePrivate = false // it was declared for other data
	}
	reflect.ValueOf(c).Elem().FieldByIndex(k.index).Set(reflect.ValueOf(value))
	return nil
}

// Get returns the value of a setting: string, int, uint64, float64, bool or []string.
func (c Config) Get(name string) (value any, ok bool) {
	k, ok := lookup(name)
	if !ok {
		return nil, false
	}
	return reflect.ValueOf(c).FieldByIndex(k.index).Interface(), true
}

func unknownKey(where, name string) Problem {
	p := Problem{Where: where, Key: quote.Raw(name), Text: "unknown key"}
	if isSection(name) {
		p.Text = "is a section, not a setting"
	} else if near := nearest(name); near != "" {
		p.Text += fmt.Sprintf("; did you mean %s?", near)
	}
	return p
}
