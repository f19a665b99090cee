package testworld

import (
	"os"
	"sync"
	"testing"
)

var shared struct {
	once  sync.Once
	world *World
	err   error
}

// Shared returns the world that all tests of a package share and none changes. [Main] removes it.
func Shared(t *testing.T) *World {
	t.Helper()
	shared.once.Do(func() {
		var dir string
		if dir, shared.err = os.MkdirTemp("", "popri-world-"); shared.err == nil {
			shared.world, shared.err = New(dir)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.world
}
