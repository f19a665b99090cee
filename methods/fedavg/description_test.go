package fedavg

import (
	"errors"
	"testing"

	"popri/lora"
	"popri/methods/method"
)

// TestDamagedModel: a small model that cannot be opened is an error, and what New returned with it can be closed.
func TestDamagedModel(t *testing.T) {
	damaged := errors.New("damaged")
	e := method.Env{Given: method.Given{Small: &method.Small{Open: func() (*lora.Part, error) { return nil, damaged }}}}
	for _, d := range []method.Description{FedAvg, FTRL} {
		m, err := d.New(e)
		if !errors.Is(err, damaged) {
			t.Errorf("%s: %v", d.Name, err)
		}
		m.Close()
	}
}
