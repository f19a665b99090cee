package configs

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"gopkg.in/yaml.v3"

	"popri/internal/numeric"
	"popri/internal/quote"
)

// Key is one setting.
type Key struct {
	// Name is the section and the setting, such as "dpo.beta".
	Name string
	// Type is "text", "whole number", "number", "true or false", "list of texts" or "list of numbers".
	Type string

	// Choices are the values of a text that has a list of them (tag oneof, between bars).
	Choices []string

	kind    reflect.Type
	section *section  // that is registered; nil for a key of Config
	index   []int     // of the field in Config or in the section's struct
	within  *interval // that holds a number, or each of a list (tag range); nil for any
}

// core are the settings of Config in the order of the types, and keys all settings, registered sections last.
var (
	core = keysOf(reflect.TypeFor[Config](), "", nil, nil)
	keys = core
)

// keysOf lists the settings in a struct.
func keysOf(t reflect.Type, prefix string, of *section, index []int) (list []Key) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		at := append(index[:len(index):len(index)], i)
		switch field.Type.Kind() {
		case reflect.Struct:
			list = append(list, keysOf(field.Type, prefix+name+".", of, at)...)
		case reflect.Map: // provenance and registered sections, which are no settings
		default:
			k := Key{Name: prefix + name, Type: typeName(field.Type), kind: field.Type, section: of, index: at}
			if choices, ok := field.Tag.Lookup("oneof"); ok {
				k.Choices = strings.Split(choices, "|")
			}
			if text, ok := field.Tag.Lookup("range"); ok {
				k.within = newInterval(text)
			}
			list = append(list, k)
		}
	}
	return list
}

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
func Keys() []Key { return slices.Clone(keys) }

// Names returns the names of all settings in the same order.
func Names() []string { return numeric.Map(keys, func(k Key) string { return k.Name }) }

// lookup finds a key by its name.
func lookup(name string) (Key, bool) {
	for _, k := range keys {
		if k.Name == name {
			return k, true
		}
	}
	return Key{}, false
}

// isSection reports whether a name is the section of some key, or was.
func isSection(name string) bool {
	known := slices.AppendSeq(Names(), maps.Keys(former))
	return slices.ContainsFunc(known, func(key string) bool { return strings.HasPrefix(key, name+".") })
}

// value is the key's value in a configuration.
func (k Key) value(c Config) reflect.Value {
	if k.section != nil {
		return reflect.ValueOf(c.section(k.section)).FieldByIndex(k.index)
	}
	return reflect.ValueOf(c).FieldByIndex(k.index)
}

// assign gives the key a value as a file holds it, which has passed [Key.check].
func (k Key) assign(c *Config, value any) error {
	decoded := reflect.New(k.kind)
	if err := mapstructure.Decode(value, decoded.Interface()); err != nil {
		return err
	}
	if k.section == nil {
		reflect.ValueOf(c).Elem().FieldByIndex(k.index).Set(decoded.Elem())
		return nil
	}
	values := reflect.New(reflect.TypeOf(k.section.defaults)).Elem()
	values.Set(reflect.ValueOf(c.section(k.section)))
	values.FieldByIndex(k.index).Set(decoded.Elem())
	c.put(k.section, values.Interface())
	return nil
}

// check refuses a value that is not of the key's type. mapstructure would make 1 of 1.5 without a word.
func (k Key) check(value any) error {
	fits := func(v reflect.Value, t reflect.Type) bool {
		switch t.Kind() {
		case reflect.Int, reflect.Uint64:
			return v.CanInt() || v.CanUint()
		case reflect.Float64:
			return v.CanInt() || v.CanUint() || v.CanFloat()
		}
		return v.Kind() == t.Kind()
	}
	v := reflect.ValueOf(value)
	switch {
	case !fits(v, k.kind) && k.kind.Kind() == reflect.Bool:
		return fmt.Errorf("is %s, must be %s", describe(value), k.Type)
	case !fits(v, k.kind):
		return fmt.Errorf("is %s, must be a %s", describe(value), k.Type)
	case k.kind.Kind() == reflect.Uint64 && v.CanInt() && v.Int() < 0, k.kind.Kind() == reflect.Int && v.CanUint():
		return fmt.Errorf("is %s, which is out of range for a %s", describe(value), k.Type)
	case k.kind.Kind() == reflect.Slice:
		for i := range v.Len() {
			if item := v.Index(i).Elem(); !fits(item, k.kind.Elem()) {
				return fmt.Errorf("holds %s, must be a %s", describe(v.Index(i).Interface()), k.Type)
			}
		}
	}
	return nil
}

// parse turns the text of a flag or an environment variable into a value as a file holds it. A text is taken as it is,
// and a list is written a,b or [a, b].
func parse(name, text string) any {
	k, _ := lookup(name)
	switch {
	case k.Type == "text":
		return text
	case strings.HasPrefix(k.Type, "list") && !strings.HasPrefix(strings.TrimSpace(text), "["):
		list := []any{}
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item == "" {
				continue
			} else if k.kind.Elem().Kind() == reflect.String {
				list = append(list, item)
			} else {
				list = append(list, scalar(item))
			}
		}
		return list
	}
	return scalar(text)
}

// scalar reads YAML, or takes a text that is none as it is.
func scalar(text string) any {
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil || value == nil {
		return text
	}
	return value
}

// describe names a value as it stands in a file.
func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "empty"
	case string:
		return "the text " + quote.Text(v)
	case map[string]any, map[any]any:
		return "a section"
	case []any:
		return "a list"
	}
	return quote.Raw(fmt.Sprint(value))
}

// Set changes one setting to the value that text spells, as --set does. An unknown key or a text that is no such value
// gives an [*Invalid]; whether the value is possible is for [Config.Validate] to say.
func (c *Config) Set(name, text string) error {
	l := newLoader()
	out := l.assignments("", []string{name + "=" + text})
	for now, v := range out {
		k, _ := lookup(now)
		if now == privateKey && c.Data.Private != v.value {
			c.Eval.ReferencePrivate = false // it was declared for other data
		}
		if err := k.assign(c, v.value); err != nil {
			l.add("", name, "%v", err)
		}
	}
	if len(l.problems) > 0 {
		return &Invalid{l.problems}
	}
	return nil
}

// Get returns the value of a setting: string, int, uint64, float64, bool or []string.
func (c Config) Get(name string) (value any, ok bool) {
	k, ok := lookup(name)
	if !ok {
		return nil, false
	}
	return k.value(c).Interface(), true
}

// elsewhere are settings by their names in PEFT, TRL, transformers and Opacus.
var elsewhere = map[string]string{"r": "lora.rank", "lora_alpha": "lora.alpha", "target_modules": "lora.targets",
	"loss_type": "dpo.loss", "rpo_alpha": "dpo.sft_weight", "num_train_epochs": "optimizer.epochs",
	"learning_rate": "optimizer.learning_rate", "lr_scheduler_type": "optimizer.schedule",
	"per_device_train_batch_size": "optimizer.batch", "max_completion_length": "generate.max_new_tokens",
	"num_generations": "generate.samples", "noise_multiplier": "privacy.noise_multiplier",
	"start": "downstream.model", "target_epsilon": "privacy.epsilon", "target_delta": "privacy.delta"}

// former are settings of earlier versions that run folders have, with the value that did nothing. Others are refused.
var former = map[string]any{"trainer.max_hours": 0, "warmup.steps": 0, "privacy.unsafe_ceiling": false}

func unknownKey(where, name string) Problem {
	p := Problem{Where: where, Key: quote.Raw(name), Text: "unknown key"}
	last := lastPart(name)
	if isSection(name) {
		p.Text = "is a section, not a setting"
	} else if without, was := former[name]; was {
		p.Text = fmt.Sprintf("is a setting of earlier versions, of which this one can only read %v", without)
	} else if ours := elsewhere[last]; ours != "" {
		p.Text += fmt.Sprintf("; what other libraries call %s is %s", last, ours)
	} else if near := Nearest(name, Names()); near != "" {
		p.Text += fmt.Sprintf("; did you mean %s?", near)
	}
	return p
}
