package grid

import (
	"bytes"
	"fmt"
	"sync"

	"gopkg.in/yaml.v3"
)

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
