package clients

import (
	"fmt"
	"slices"

	"popri/internal/parquetio"
)

// LabelOf returns the label of text i, "" for none.
func (c Client) LabelOf(i int) string { return at(c.Label, c.Labels, i) }

// Labels returns the label of every text of the clients, in the order of [Texts]; "" for none.
func Labels(clients []Client) []string {
	var out []string
	for _, c := range clients {
		for i := range c.Texts {
			out = append(out, c.LabelOf(i))
		}
	}
	return out
}

// Unlabelled returns the first row without a label of a client file's splits, and the number of such rows. No row gives -1.
func Unlabelled(path string, splits ...Split) (first int64, n int, err error) {
	f, err := parquetio.Open(path)
	if err != nil {
		return -1, 0, fmt.Errorf("clients: %w", err)
	}
	defer f.Close()
	list, err := f.Strings("split")
	if err != nil {
		return -1, 0, fmt.Errorf("clients: %w", err)
	}
	labels, err := optional(f, "label")
	if err != nil {
		return -1, 0, fmt.Errorf("clients: %w", err)
	}
	first = -1
	for i, split := range list {
		if labels[i].Value != "" || !slices.Contains(splits, Split(split.Value)) {
			continue
		}
		if n++; first < 0 {
			first = int64(i)
		}
	}
	return first, n, nil
}
