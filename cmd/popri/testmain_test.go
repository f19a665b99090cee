package main

import (
	"os"
	"testing"

	"popri/internal/testworld"
)

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" && len(os.Args) > 1 && os.Args[1] == "ablate" {
		main()
	}
	os.Exit(testworld.Main(m))
}
