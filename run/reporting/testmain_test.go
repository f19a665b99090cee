package reporting

import (
	"os"
	"testing"

	"popri/testkit/testworld"
)

func TestMain(m *testing.M) { os.Exit(testworld.Main(m)) }
