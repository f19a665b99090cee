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
	"slices"
	"strings"

	"github.com/spf13/viper"
	"gopkg.in/yaml.v3"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/quote"
)

// envPrefix starts the environment variables that set a key: dpo.beta is POPRI_DPO_BETA.
const envPrefix = "POPRI"

// DefaultPreset is the preset that all others are based on, and the one that [Load] takes where none is named.
const DefaultPreset = "demo"

//go:embed presets/*.yaml
var presetFiles embed.FS

// LoadOptions says from where to load; later fields win.
type LoadOptions struct {
	// Preset is the name of a preset; empty is the one that the file names as its base, else [DefaultPreset].
	Preset string
	// World is the layer between preset and file: the data of a demo, with what suits them.
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
	names := []string{DefaultPreset}
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".yaml"); name != DefaultPreset {
			names = append(names, name)
		}
	}
	return names
}

// Preset returns the values of a preset, of which some may be missing, and the name of the preset that it is based on.
func Preset(name string) (c Config, base string, err error) {
	content, err := presetFiles.ReadFile(path.Join("presets", name+".yaml"))
	if err != nil {
		return c, "", err
	}
	l := newLoader()
	l.preset(name, "", "")
	return l.decode(), baseOf(content), nil
}

// Default returns the preset "demo".
func Default() Config {
	c, problems := load(LoadOptions{})
	if len(problems) > 0 {
		panic((&Invalid{problems}).Error()) // the preset is part of the program; a test loads it
	}
	return c
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
	return &c, nil
}

// load reads the layers, each over the earlier ones.
func load(opt LoadOptions) (Config, []Problem) {
	l := newLoader()
	var content []byte
	preset, where, key := opt.Preset, "preset", ""
	if opt.File != "" {
		var err error
		if content, err = fault.ReadFile(opt.File); err != nil {
			l.add(opt.File, "", "%s", quote.Raw(err.Error()))
		}
		content = exactjson.TrimBOM(content)
		switch base := baseOf(content); {
		case preset == "":
			preset, where, key = base, opt.File, baseKey
		case base != "" && base != preset:
			l.add(opt.File, baseKey, "is %q, but the preset %q is asked for", base, preset)
		}
	}
	l.preset(cmp.Or(preset, DefaultPreset), where, key)
	l.merge(l.assignments(opt.World.Name, opt.World.Set))
	l.merge(l.file(opt.File, content, true))
	if opt.Env {
		l.merge(l.environment(os.Environ()))
	}
	l.merge(l.assignments("--set", opt.Set))

	c := l.decode()
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
	return c, l.problems
}

// loader collects layers and problems.
type loader struct {
	viper      *viper.Viper
	where      map[string]string // the source of each key's value
	broken     map[string]bool   // keys whose value could not be read
	problems   []Problem
	provenance map[string]string
	declared   string // data.private that eval.reference_private was declared for
}

func newLoader() *loader {
	return &loader{viper: viper.New(), where: map[string]string{}, broken: map[string]bool{}}
}

const roundsKey = "trainer.rounds"

// auto is what trainer.rounds=auto stands for, unless the same source sets one of the other keys.
var auto = []struct {
	key   string
	value any
}{{roundsKey, 32}, {"trainer.patience", 3}, {"trainer.select", "distance"}}

// given is a value as one source gives it.
type given struct {
	where string
	value any
}

// layer is what one source sets, by key.
type layer map[string]given

func (l *loader) add(where, key, format string, args ...any) {
	l.problems = append(l.problems, Problem{Where: where, Key: quote.Raw(key), Text: quote.Sprintf(format, args...)})
}

// decode turns the merged values into a configuration.
func (l *loader) decode() Config {
	c := Config{Provenance: l.provenance}
	for _, s := range registry {
		c.put(s, s.defaults)
	}
	for _, k := range keys {
		if value := l.viper.Get(k.Name); value != nil {
			if err := k.assign(&c, value); err != nil {
				l.add("", k.Name, "%v", err)
			}
		}
	}
	return c
}

// The declaration that private data are public or test data, and the data that it covers.
const (
	privateKey   = "data.private"
	referenceKey = "eval.reference_private"
)

// merge puts a layer over the earlier ones. It takes eval.reference_private back where the layer names other private
// data than the declaration was made for, and does not declare again.
func (l *loader) merge(values layer) {
	_, declares := values[referenceKey]
	private, named := values[privateKey]
	if named && !declares && private.value != l.declared {
		values[referenceKey] = given{value: false}
	}
	nested := viper.New()
	for name, v := range values {
		nested.Set(name, v.value)
		l.where[name] = v.where
		delete(l.broken, name)
	}
	if err := l.viper.MergeConfigMap(nested.AllSettings()); err != nil {
		l.add("", "", "%v", err)
	}
	if declares {
		l.declared = l.viper.GetString(privateKey)
	}
}

// set notes the value of a key, or what is wrong with it.
func (l *loader) set(out layer, name string, value any, where string) {
	if name == roundsKey && value == "auto" {
		for _, a := range auto {
			if _, there := out[a.key]; !there || a.key == roundsKey {
				l.set(out, a.key, a.value, where)
			}
		}
		return
	}
	k, ok := lookup(name)
	if without, was := former[name]; was && value == without {
		return
	}
	if !ok {
		l.problems = append(l.problems, unknownKey(where, name))
		return
	}
	if err := k.check(value); err != nil {
		l.add(where, name, "%v", err)
		l.broken[name] = true
		return
	}
	out[name] = given{where, value}
}

// preset merges a preset, which a source named under a key, after the one that it is based on.
func (l *loader) preset(name, where, key string) {
	content, err := presetFiles.ReadFile(path.Join("presets", name+".yaml"))
	if err != nil {
		l.add(where, key, "is %q, must be one of %s", name, strings.Join(Presets(), ", "))
		l.preset(DefaultPreset, "", "")
		return
	}
	if base := baseOf(content); base != "" {
		l.preset(base, "preset "+name, baseKey)
	}
	l.merge(l.file("preset "+name, content, false))
}

// baseKey names the preset that a file is based on.
const baseKey = "base"

// baseOf returns the preset that a preset, or a user's file, is based on; "" is none.
func baseOf(content []byte) string {
	var head struct {
		Base string `yaml:"base"`
	}
	_ = yaml.Unmarshal(content, &head) // file reports what is no YAML or no text
	return head.Base
}

// file reads the settings of a file. viper keeps no lines, drops a section that is no section, accepts keys in any case
// and takes an empty value for no value, so the file's keys are walked here, and viper gets known keys only.
func (l *loader) file(file string, content []byte, lines bool) layer {
	out := layer{}
	at := func(node *yaml.Node) string {
		if lines {
			return fmt.Sprintf("%s:%d", file, node.Line)
		}
		return file
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
		l.add(file, "", "%s", quote.Raw(strings.TrimPrefix(err.Error(), "yaml: ")))
		return out
	}
	seen := map[string]int{}
	var walk func(prefix string, section *yaml.Node)
	walk = func(prefix string, section *yaml.Node) {
		for i := 0; i+1 < len(section.Content); i += 2 {
			key, node := section.Content[i], resolve(section.Content[i+1])
			name, where := prefix+key.Value, at(key)
			line, twice := seen[name]
			seen[name] = key.Line
			var value any
			err := node.Decode(&value)
			switch {
			case twice:
				l.add(where, name, "stands twice, first in line %d", line)
			case name == "provenance":
				if node.Decode(&l.provenance) != nil {
					l.add(where, name, "must hold texts by name")
				}
			case name == baseKey:
				if _, ok := value.(string); !ok {
					l.add(where, name, "is %s, must be the name of a preset", describe(value))
				}
			case isSection(name) && node.Kind == yaml.MappingNode:
				walk(name+".", node)
			case !lines && node.Kind == yaml.MappingNode: // a preset's section of a method that the program lacks
			case isSection(name) && value != nil: // an empty section sets nothing
				l.add(where, name, "is %s, must be a section of settings", describe(value))
			case isSection(name):
			case err != nil:
				l.add(where, name, "%s", quote.Raw(strings.TrimPrefix(err.Error(), "yaml: ")))
			default:
				l.set(out, name, value, where)
			}
		}
	}
	root := resolve(document.Content[0])
	var value any
	switch err := root.Decode(&value); {
	case root.Kind == yaml.MappingNode:
		walk("", root)
	case value != nil || err != nil:
		l.add(at(root), "", "is %s, must be sections of settings", describe(value))
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
	return envPrefix + "_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// environment reads the variables of all keys. A variable that starts like a section and is no key is an error; others
// with the prefix belong to other parts of the program. viper would hand a variable on as a text of which nobody knows
// whether it is a text in a file, where "a,b" is no list and "5" no number.
func (l *loader) environment(environ []string) layer {
	out := layer{}
	byName := map[string]string{}
	for _, k := range keys {
		byName[envName(k.Name)] = k.Name
	}
	slices.Sort(environ)
	for _, assignment := range environ {
		variable, text, _ := strings.Cut(assignment, "=")
		name, known := byName[variable]
		for _, k := range keys {
			section, _, found := strings.Cut(k.Name, ".")
			if rest, ours := strings.CutPrefix(variable, envName(section)+"_"); found && ours && !known {
				name = section + "." + strings.ToLower(rest)
			}
		}
		if rest, ours := strings.CutPrefix(variable, envPrefix+"_"); ours && name == "" &&
			nearTop(strings.ToLower(rest)) {
			name = strings.ToLower(rest)
		}
		if name != "" && text != "" { // an empty variable is as good as none
			l.set(out, name, parse(name, text), variable)
		}
	}
	return out
}

// nearTop reports whether a name is a slip of the pen for a key without a section. Other variables with the prefix,
// such as POPRI_CACHE, are not of the configuration.
func nearTop(name string) bool {
	return slices.ContainsFunc(keys, func(k Key) bool {
		return !strings.Contains(k.Name, ".") && levenshtein(name, k.Name) == 1
	})
}

// assignments reads texts of the form "dpo.beta=0.1".
func (l *loader) assignments(where string, set []string) layer {
	out := layer{}
	for _, assignment := range set {
		name, text, found := strings.Cut(assignment, "=")
		if name = strings.TrimSpace(name); !found || name == "" {
			l.add(where, "", "%q is not of the form key=value", assignment)
			continue
		}
		l.set(out, name, parse(name, text), where)
	}
	return out
}
