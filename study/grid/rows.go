package grid

import (
	"slices"
	"strings"

	"popri/configs"
	"popri/internal/fault"
)

// Row is a named set of assignments, such as "trainer.rounds=20".
type Row struct {
	Name string
	Set  []string
}

// Named lists the runs of each row with each value of an axis, with the base's seed and the seeds after it. Rows are
// the values of the first column, which has the given head.
func Named(base configs.Config, head string, rows []Row, over Axis, seeds int) ([]Axis, []Cell, error) {
	first := Axis{Key: head}
	var changes []Change
	values := map[string][]string{}
	for _, r := range rows {
		if slices.Contains(first.Values, r.Name) {
			return nil, nil, fault.Userf("%s %s is there twice", head, r.Name)
		}
		first.Values = append(first.Values, r.Name)
		for _, v := range over.Values {
			c := Change{Name: r.Name + "," + over.Key + "=" + v}
			for _, text := range append(slices.Clone(r.Set), over.Key+"="+v) {
				key, value, _ := strings.Cut(text, "=")
				c.Keys, c.Values = append(c.Keys, key), append(c.Values, value)
			}
			changes, values[c.Name] = append(changes, c), []string{r.Name, v}
		}
	}
	found, err := cells(base, "the row", changes, seeds, func(c Change) []string { return values[c.Name] })
	return []Axis{first, over}, found, err
}
