package configs

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
	"gopkg.in/yaml.v3"

	"popri/internal/bom"
	"popri/internal/quote"
)

// EnvPrefix starts the environment variables that set a key: dpo.beta is POPRI_DPO_BETA.
const EnvPrefix = "POPRI"

// DefaultPreset is what [Load] starts from where no preset is named.
const DefaultPreset = "demo"

//go:embed presets/*.yaml
var presetFiles embed.FS

// LoadOptions says from where to load; later fields win.
type LoadOptions struct {
	// Preset is the name of a preset; empty is [DefaultPreset].
	Preset string
	// World is what lies between preset and file: the data of a demo, with what suits them.
	World World
	// File is the path of a YAML file; empty is none.
	File string
	// Env reads environment variables.
	Env bool
	// Set holds assignments of the form "dpo.beta=0.1"; of two to one key the later wins.
	Set []string
}

// Presets returns the names of the presets.
func Presets() []string {
	entries, err := presetFiles.ReadDir("presets")
	if err != nil {
		panic(err) // embedded at build time
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.SortFunc(names, func(a, b string) int { // the default first, and what is derived from it after it
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
	})
	return names
}

// place is 0 of the default preset and 1 of the others.
func place(preset string) int {
	if preset == DefaultPreset {
		return 0
	}
	return 1
}

// Default returns the preset "demo".
func Default() Config {
	c, problems := load(LoadOptions{})
	if len(problems) > 0 {
		panic((&Invalid{problems}).Error()) // the preset is part of the program; a test loads it
	}
	return *c
}

// Load reads a configuration and validates it. What is wrong with it, wherever it stands, comes in one [*Invalid]; a
// file that cannot be read is an error of its own.
func Load(opt LoadOptions) (*Config, error) {
	if opt.File != "" {
		if info, err := os.Stat(opt.File); err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		} else if info.IsDir() {
			return nil, &Invalid{[]Problem{{Where: opt.File, Text: "is a directory"}}}
		}
	}
	c, problems := load(opt)
	if len(problems) > 0 {
		return nil, &Invalid{problems}
	}
	return c, nil
}

// layer is what one place sets.
type layer struct {
	values map[string]any
	where  map[string]string
}

// loader collects layers and problems.
type loader struct {
	viper      *viper.Viper
	where      map[string]string
	broken     map[string]bool // keys whose value could not be read
	problems   []Problem
	provenance map[string]string
	declared   string // data.private that eval.reference_private was declared for; "" is whatever is named later
	declaredIn string // the place of the declaration
}

func load(opt LoadOptions) (*Config, []Problem) {
	l := &loader{viper: viper.New(), where: map[string]string{}, broken: map[string]bool{}}
	for i, name := range []string{DefaultPreset, opt.Preset} {
		if i > 0 && (name == "" || name == DefaultPreset) {
			continue
		}
		content, err := presetFiles.ReadFile(path.Join("presets", name+".yaml"))
		if err != nil {
			l.problems = append(l.problems,
				Problem{Where: "preset", Text: quote.Sprintf("is %q, must be one of %s", name,
					strings.Join(Presets(), ", "))})
			continue
		}
		l.merge(l.parseYAML("preset "+name, content, false))
		l.withdraw()
	}
	l.merge(l.world(opt.World))
	l.withdraw()
	if opt.File != "" {
		content, err := os.ReadFile(opt.File)
		if err != nil {
			l.problems = append(l.problems, Problem{Where: opt.File, Text: err.Error()})
		}
		l.merge(l.parseYAML(opt.File, bom.Trim(content), true))
		l.withdraw()
	}
	if opt.Env {
		l.environment(os.Environ())
		l.withdraw()
	}
	l.assignments(opt.Set)
	l.withdraw()

	var c Config
	err := l.viper.UnmarshalExact(&c, viper.DecodeHook(fromEnvironment), func(d *mapstructure.DecoderConfig) {
		d.TagName = "yaml"
		d.WeaklyTypedInput = false
	})
	if err != nil {
		l.problems = append(l.problems, Problem{Text: err.Error()})
		return nil, l.problems
	}
	if c.LoRA.Targets == nil {
		c.LoRA.Targets = []string{}
	}
	c.Provenance = l.provenance
	// A key that could not be read still has the value of an earlier layer, which is not reported.
	if invalid, ok := errors.AsType[*Invalid](c.Validate()); ok {
		for _, p := range invalid.Problems {
			if !l.broken[p.Key] {
				p.Where = l.where[p.Key]
				l.problems = append(l.problems, p)
			}
		}
	}
	sortProblems(l.problems)
	return &c, l.problems
}

// The declaration that private data are public or test data, and the data that it covers.
const (
	privateKey   = "data.private"
	referenceKey = "eval.reference_private"
)

// withdraw is called after each layer. It takes eval.reference_private back where the layer names other private data
// than the declaration was made for, and does not declare anew.
func (l *loader) withdraw() {
	where, private := l.where[referenceKey], l.viper.GetString(privateKey)
	if where != l.declaredIn {
		l.declaredIn, l.declared = where, private
		return
	}
	if l.declared == "" || l.declared == private || !l.viper.GetBool(referenceKey) {
		return
	}
	l.merge(layer{map[string]any{referenceKey: false}, map[string]string{}})
	if l.viper.GetBool(referenceKey) { // a variable or a flag had set it
		l.viper.Set(referenceKey, false)
	}
}

// merge puts a layer over the earlier ones.
func (l *loader) merge(values layer) {
	nested := map[string]any{}
	for name, value := range values.values {
		section, setting, found := strings.Cut(name, ".")
		if !found {
			nested[name] = value
			continue
		}
		inner, _ := nested[section].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
			nested[section] = inner
		}
		inner[setting] = value
		l.where[name] = values.where[name]
	}
	for name, where := range values.where {
		l.where[name] = where
	}
	if err := l.viper.MergeConfigMap(nested); err != nil {
		l.problems = append(l.problems, Problem{Text: err.Error()})
	}
}

// parseYAML reads the settings of a file, noting everything that is no setting or has the wrong type.
func (l *loader) parseYAML(file string, content []byte, lines bool) layer {
	out := layer{map[string]any{}, map[string]string{}}
	at := func(node *yaml.Node) string {
		if lines {
			return fmt.Sprintf("%s:%d", file, node.Line)
		}
		return file
	}
	add := func(node *yaml.Node, key, format string, args ...any) {
		l.problems = append(l.problems, Problem{Where: at(node), Key: quote.Raw(key), Text: fmt.Sprintf(format, args...)})
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return out // an empty file sets nothing
	}
	if err == nil {
		if more := decoder.Decode(new(yaml.Node)); !errors.Is(more, io.EOF) {
			err = errors.New("holds more than one document")
		}
	}
	if err != nil {
		l.problems = append(l.problems, Problem{Where: file, Text: quote.Raw(strings.TrimPrefix(err.Error(), "yaml: "))})
		return out
	}
	root := resolve(document.Content[0])
	if root.ShortTag() == "!!null" {
		return out
	}
	if root.Kind != yaml.MappingNode {
		add(root, "", "is %s, must be sections of settings", describe(root))
		return out
	}
	seen := map[string]int{}
	visit := func(name string, key, value *yaml.Node) {
		if line, twice := seen[name]; twice {
			add(key, name, "stands twice, first in line %d", line)
			return
		}
		seen[name] = key.Line
		k, ok := lookup(name)
		if !ok {
			p := unknownKey(at(key), name)
			l.problems = append(l.problems, p)
			return
		}
		decoded, err := k.decode(value)
		if err != nil {
			add(value, name, "%v", err)
			l.broken[name] = true
			return
		}
		out.values[name], out.where[name] = decoded, at(value)
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], resolve(root.Content[i+1])
		name := key.Value
		switch {
		case name == "provenance":
			l.provenance = map[string]string{}
			if err := value.Decode(&l.provenance); err != nil {
				add(value, name, "must hold texts by name")
			}
		case !isSection(name):
			visit(name, key, value)
		case value.Kind == yaml.MappingNode:
			if line, twice := seen[name]; twice {
				add(key, name, "stands twice, first in line %d", line)
			}
			seen[name] = key.Line
			for j := 0; j+1 < len(value.Content); j += 2 {
				visit(name+"."+value.Content[j].Value, value.Content[j], value.Content[j+1])
			}
		case value.ShortTag() != "!!null": // an empty section sets nothing
			add(value, name, "is %s, must be a section of settings", describe(value))
		}
	}
	return out
}

func resolve(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

func envName(key string) string {
	return EnvPrefix + "_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// environment binds the variables of all keys. A variable that starts like a section and is no key is an error; others
// with the prefix belong to other parts of the program.
func (l *loader) environment(environ []string) {
	l.viper.SetEnvPrefix(EnvPrefix)
	l.viper.SetEnvKeyReplacer(strings.NewReplacer(".", "_"))
	byName := map[string]Key{}
	sections := map[string]bool{}
	for _, k := range keys {
		byName[envName(k.Name)] = k
		if section, _, found := strings.Cut(k.Name, "."); found {
			sections[envName(section)+"_"] = true
		}
	}
	slices.Sort(environ)
	for _, assignment := range environ {
		name, text, _ := strings.Cut(assignment, "=")
		k, ok := byName[name]
		if !ok {
			for section := range sections {
				if rest, found := strings.CutPrefix(name, section); found {
					key := strings.ToLower(strings.TrimPrefix(strings.TrimSuffix(section, "_"), EnvPrefix+"_") + "." + rest)
					p := unknownKey(name, key)
					l.problems = append(l.problems, p)
				}
			}
			continue
		}
		if text == "" {
			continue // an empty variable is as good as none
		}
		if _, err := k.parse(text); err != nil {
			l.problems = append(l.problems, Problem{Where: name, Key: k.Name, Text: err.Error()})
			l.broken[k.Name] = true
			continue
		}
		l.where[k.Name] = name
		if err := l.viper.BindEnv(k.Name); err != nil {
			l.problems = append(l.problems, Problem{Where: name, Key: k.Name, Text: err.Error()})
		}
	}
}

// fromEnvironment parses the texts that viper hands on from environment variables; all other values have their type.
func fromEnvironment(from, to reflect.Type, value any) (any, error) {
	text, ok := value.(string)
	if !ok || to.Kind() == from.Kind() {
		return value, nil
	}
	return Key{Type: typeName(to), kind: to}.parse(text)
}

// assignments applies the --set flags.
func (l *loader) assignments(set []string) {
	for _, assignment := range set {
		name, text, found := strings.Cut(assignment, "=")
		name = strings.TrimSpace(name)
		if !found || name == "" {
			l.problems = append(l.problems,
				Problem{Where: "--set", Text: quote.Sprintf("%q is not of the form key=value", assignment)})
			continue
		}
		k, ok := lookup(name)
		if !ok {
			l.problems = append(l.problems, unknownKey("--set", name))
			continue
		}
		value, err := k.parse(text)
		if err != nil {
			l.problems = append(l.problems, Problem{Where: "--set", Key: name, Text: err.Error()})
			l.broken[name] = true
			continue
		}
		l.viper.Set(name, value)
		l.where[name] = "--set"
		delete(l.broken, name)
	}
}
