package configs

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Section is a part of the configuration that another package owns: its type, defaults and checks. T is a struct of
// settings with yaml tags, as the sections here.
type Section[T any] struct{ of *section }

// section is a registered section.
type section struct {
	name     string
	defaults any
	check    func(r *Report, c Config)
}

// registry has the registered sections, by name.
var registry []*section

// Register adds a section to every configuration. A package calls it once, in a variable. The fields' tags say which values
// are possible (oneof, range); check, unless it is nil, reports what else is impossible, whatever the method.
func Register[T any](name string, defaults T, check func(r *Report, c Config, s T)) Section[T] {
	values := reflect.ValueOf(&defaults).Elem()
	for i := range values.NumField() {
		if f := values.Field(i); f.Kind() == reflect.Slice && f.IsNil() {
			f.Set(reflect.MakeSlice(f.Type(), 0, 0)) // as it is loaded
		}
	}
	s := &section{name: name, defaults: defaults}
	s.check = func(r *Report, c Config) {
		if check != nil {
			check(r, c, c.section(s).(T))
		}
	}
	if isSection(name) {
		panic(fmt.Sprintf("configs: two sections are named %s", name))
	}
	registry = append(registry, s)
	slices.SortFunc(registry, func(a, b *section) int { return cmp.Compare(a.name, b.name) })
	keys = core
	for _, s := range registry {
		keys = append(keys[:len(keys):len(keys)], keysOf(reflect.TypeOf(s.defaults), s.name+".", s, nil)...)
	}
	return Section[T]{s}
}

// Of returns the section's values in a configuration.
func (s Section[T]) Of(c Config) T { return c.section(s.of).(T) }

// section returns the values of a registered section.
func (c Config) section(s *section) any {
	if values, ok := c.registered[s.name]; ok {
		return values
	}
	return s.defaults
}

// put sets the values of a registered section. Copies of the configuration keep theirs.
func (c *Config) put(s *section, values any) {
	if c.registered = maps.Clone(c.registered); c.registered == nil {
		c.registered = map[string]any{}
	}
	c.registered[s.name] = values
}

// Types are the types of the registered sections, by name.
func Types() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, s := range registry {
		types[s.name] = reflect.TypeOf(s.defaults)
	}
	return types
}

// Method is what the configuration must know of a method.
type Method struct {
	// Name is the value of the key method.
	Name string
	// Trains is what a run of it trains.
	Trains Part
	// Samplings are the values of fed.sampling that it has; nil are all but "tree".
	Samplings []string
	// Follows says that the synthetic set depends on the small models of the run that privacy.continues names.
	Follows bool
	// Elsewhere says that clients who train the small model may do so on other machines, behind two aggregators.
	Elsewhere bool
	// Check reports what the method needs of the settings and cannot do; nil checks nothing.
	Check func(r *Report, c Config)
}

// Part is a model that a method trains.
type Part int

// What methods train.
const (
	Nothing Part = iota
	Generator
	SmallModel // at the clients; the run publishes it, and no text
	Author     // the small model, at the clients; it then writes the synthetic set
)

var methods []Method

// RegisterMethod adds a method to the values of the key method.
func RegisterMethod(m Method) { methods = append(methods, m) }

// method returns the method of the configuration. In a program that has none, any name is one.
func (c Config) method() Method {
	for _, m := range methods {
		if m.Name == c.Method {
			return m
		}
	}
	return Method{Name: c.Method}
}

// methodNames are the names of the methods, or of those that train a part.
func methodNames(of func(Method) bool) (names []string) {
	for _, m := range methods {
		if of(m) {
			names = append(names, m.Name)
		}
	}
	return names
}

// Learns reports whether the method trains the small model itself at the clients. Its product is that model, and no
// text.
func (c Config) Learns() bool { return c.method().Trains == SmallModel }

// AtClients reports whether clients train the small model, or count for it, whether it is the product or writes it.
func (c Config) AtClients() bool { return c.method().atClients() }

func (m Method) atClients() bool { return m.Trains == SmallModel || m.Trains == Author }

// Follows reports whether the synthetic set depends on the small models of the run that privacy.continues names.
func (c Config) Follows() bool { return c.method().Follows }

// tunes reports whether the method trains the generator.
func (c Config) tunes() bool { return c.method().Trains == Generator }
