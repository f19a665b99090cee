package methods

import (
	"errors"
	"testing"

	"popri/configs"
	"popri/testkit/testfile"
)

func TestBadSettings(t *testing.T) {
	testfile.Refused(t, "testdata/bad/*.yaml", func(file string) error {
		_, err := configs.Load(configs.LoadOptions{File: file})
		if !errors.As(err, new(*configs.Invalid)) {
			t.Errorf("%s: %v", file, err)
		}
		return err
	})
}
