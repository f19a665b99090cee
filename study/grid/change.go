package grid

import (
	"fmt"
	"slices"
	"strings"

	"popri/configs"
	"popri/internal/fault"
)

// Change is what one row of an ablation sets: keys and values that are used together.
type Change struct {
	Name   string   `json:"name,omitempty"` // that it goes by; "" for its assignments
	Keys   []string `json:"keys"`
	Values []string `json:"values"`
}

// parseChange reads "dpo.loss=ipo dpo.beta=0.01": assignments with spaces between them. A value may hold spaces if no
// "key=" follows one of them.
func parseChange(text string) (c Change, err error) {
	for _, word := range strings.Split(text, " ") {
		key, value, assigned := strings.Cut(word, "=")
		switch _, known := configs.Default().Get(key); {
		case assigned && known && slices.Contains(c.Keys, key):
			return c, fault.Userf("--instead %s: %s is there twice", text, key)
		case assigned && known:
			c.Keys, c.Values = append(c.Keys, key), append(c.Values, value)
		case len(c.Keys) == 0:
			return c, fault.Userf("--instead %s: %q is not a key and its value, such as dpo.beta=0.01", text, word)
		default:
			c.Values[len(c.Values)-1] += " " + word
		}
	}
	if slices.Contains(c.Keys, "seed") {
		return c, fault.Userf("--instead %s: seeds are not a setting to compare; use --seeds", text)
	}
	return c, nil
}

func (c Change) String() string {
	if c.Name != "" {
		return c.Name
	}
	var parts []string
	for i, k := range c.Keys {
		parts = append(parts, k+"="+c.Values[i])
	}
	return strings.Join(parts, ",")
}

// apply is the base with the change; base says that the change leaves it as it is.
func (c Change) apply(to configs.Config) (changed configs.Config, base bool, err error) {
	changed, base = to, true
	for i, keys := range c.Keys {
		for _, k := range strings.Split(keys, "+") {
			if err := changed.Set(k, c.Values[i]); err != nil {
				return changed, false, err
			}
			was, _ := to.Get(k)
			is, _ := changed.Get(k)
			base = base && fmt.Sprint(was) == fmt.Sprint(is)
		}
	}
	return changed, base, nil
}

// OneByOne reports whether the axes are as in [OneAtATime].
func OneByOne(axes []Axis) bool { return len(axes) == 1 && axes[0].Key == changed }
