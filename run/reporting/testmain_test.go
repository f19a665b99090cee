package reporting

import (
	"os"
	"testing"

	"popri/internal/testworld"
)

func TestMain(m *testing.M) { os.Exit(testworld.Main(m)) }
