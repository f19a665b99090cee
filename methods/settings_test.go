package methods

import (
	"errors"
	"testing"

	"popri/configs"
	"popri/testkit/testfile"
)

// Every file of testdata/bad says in its first lines what the error must contain.
func TestBadSettings(t *testing.T) {
	testfile.Refused(t, "testdata/bad/*.yaml", func(file string) error {
		_, err := configs.Load(configs.LoadOptions{File: file})
		if !errors.As(err, new(*configs.Invalid)) {
			t.Errorf("%s: %v", file, err)
		}
		return err
	})
}
