package assembly

import (
	"path/filepath"
	"slices"
	"testing"

	"popri/configs"
	"popri/datasets/clients"
)

// Which train clients data.train_clients draws does not depend on anybody's texts: a client without a text since the date
// leaves, and nobody takes its place.
func TestSubsetBeforeSince(t *testing.T) {
	drawn := func(old string) (ids []string) {
		t.Helper()
		p := &clients.Population{Unit: "a client is one person"}
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			date := "2025-01-01"
			if id == old {
				date = "1999-01-01"
			}
			p.Clients = append(p.Clients, clients.Client{ID: id, Split: clients.Train, Date: date, Texts: []string{"a text of " + id}})
		}
		var c configs.Config
		c.Data.Private, c.Data.TrainClients, c.Data.Since = filepath.Join(t.TempDir(), "clients.parquet"), 3, "2020"
		if err := clients.Write(c.Data.Private, p); err != nil {
			t.Fatal(err)
		}
		got, err := LoadPrivate(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range got.Clients {
			ids = append(ids, one.ID)
		}
		return ids
	}
	all := drawn("nobody")
	if len(all) != 3 {
		t.Fatalf("%v are drawn", all)
	}
	if left := drawn(all[1]); !slices.Equal(left, []string{all[0], all[2]}) {
		t.Errorf("without a recent text of %s, %v are drawn, before %v", all[1], left, all)
	}
}
