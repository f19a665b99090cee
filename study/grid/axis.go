package grid

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"popri/configs"
	"popri/internal/fault"
)

// Axis is a key of the configuration and its values, as --set spells them. Keys that take the same values together are
// joined by "+".
type Axis struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// parseAxis reads "dpo.rejected_rank=2,5,8,10". The values of a key that holds a list are separated by ";". A value may
// be a range of numbers: 2..10, or 0.1..0.5:0.1 with its step.
func parseAxis(text string) (Axis, error) {
	key, values, ok := strings.Cut(text, "=")
	if !ok || key == "" || values == "" {
		return Axis{}, fault.Userf("--over %s: want a key and its values, such as dpo.rejected_rank=2,5,8", text)
	}
	separator := ","
	keys := strings.Split(key, "+")
	for i, name := range keys {
		if name == "seed" {
			return Axis{}, fault.Userf("--over %s: seeds are not a setting to compare; use --seeds", text)
		}
		if slices.Contains(keys[:i], name) {
			return Axis{}, fault.Userf("--over %s: %s is there twice", text, name)
		}
		for _, k := range configs.Keys() {
			if k.Name == name && strings.HasPrefix(k.Type, "list") {
				separator = ";"
			}
		}
	}
	if separator == ";" && strings.Contains(values, ",") && !strings.ContainsAny(values, ";[") {
		return Axis{}, fault.Userf("--over %s: this is one value, because the key holds a list: separate values by \";\", or write "+
			"the list as [%s]", text, values)
	}
	a := Axis{Key: key}
	for _, value := range strings.Split(values, separator) {
		numbers, err := rangeOf(value)
		if err != nil {
			return Axis{}, fault.Userf("--over %s: %w", text, err)
		}
		a.Values = append(a.Values, numbers...)
	}
	for i, v := range a.Values {
		if slices.Contains(a.Values[:i], v) {
			return Axis{}, fault.Userf("--over %s: the value %q is there twice", text, v)
		}
	}
	return a, nil
}

var rangePattern = regexp.MustCompile(`^(-?[0-9.]*[0-9](?:e-?[0-9]+)?)\.\.(-?[0-9]*\.?[0-9]+(?:e-?[0-9]+)?)(?::([0-9.]+(?:e-?[0-9]+)?))?$`)

// rangeOf returns the values of a range, or the value itself. Both ends are included.
func rangeOf(value string) ([]string, error) {
	parts := rangePattern.FindStringSubmatch(value)
	if parts == nil {
		return []string{value}, nil
	}
	var numbers [3]float64
	for i, text := range append(parts[1:3:3], cmp.Or(parts[3], "1")) {
		var err error
		if numbers[i], err = strconv.ParseFloat(text, 64); err != nil {
			return nil, fmt.Errorf("the range %s: %q is no number", value, text)
		}
	}
	from, to, step := numbers[0], numbers[1], numbers[2]
	const most = 1000
	n := math.Floor((to-from)/step + 1e-9)
	if !(step > 0) || !(n >= 1) || n > most {
		return nil, fmt.Errorf("the range %s has no two values, or more than %d", value, most)
	}
	var list []string
	for i := range int(n) + 1 {
		// Rounding takes away what binary fractions add to 0.1 + 0.1 + 0.1.
		x := from + float64(i)*step
		list = append(list, strconv.FormatFloat(x, 'g', 12, 64))
	}
	return list, nil
}

// Embedded parses a YAML file that is part of the program, once. All of its keys must be fields of T.
func Embedded[T any](name string, file []byte) func() T {
	return sync.OnceValue(func() (out T) {
		d := yaml.NewDecoder(bytes.NewReader(file))
		d.KnownFields(true)
		if err := d.Decode(&out); err != nil {
			panic(fmt.Sprintf("%s: %v", name, err)) // part of the program, and tested
		}
		return out
	})
}
