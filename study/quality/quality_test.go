package quality

import (
	"testing"

	"popri/configs"
	"popri/internal/fault"
)

// TestMeasurementsNeedTheEmbeddedDefault: what reads clients' texts without noise refuses every other client file, and
// options that make no sense.
func TestMeasurementsNeedTheEmbeddedDefault(t *testing.T) {
	other := configs.Default()
	other.Data.Private = "clients.parquet"
	none := PoolingOptions{Sigmas: []float64{1}, Rounds: 8}
	for name, measure := range map[string]func() error{
		"encoder": func() error { _, err := MeasureEncoder(other, nil); return err },
		"pooling": func() error { _, err := MeasurePooling(other, none); return err },
		"no round": func() error {
			_, err := MeasurePooling(configs.Default(), PoolingOptions{Rounds: 0})
			return err
		},
		"more than all": func() error {
			_, err := MeasurePooling(configs.Default(), PoolingOptions{Rounds: 1, InDomain: 1.5})
			return err
		},
	} {
		if err := measure(); !fault.IsUser(err) {
			t.Errorf("%s: the error is %v, want the user's mistake", name, err)
		}
	}
}
