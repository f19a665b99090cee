package run

import (
	"testing"

	"popri/dpo/trl"
)

// enginePython returns the interpreter of an engine's environment. The test is skipped, and says so, where there is
// none.
func enginePython(t *testing.T, engine string) string {
	t.Helper()
	path, ok := trl.Python(engine)
	if !ok {
		t.Skipf("%s is not installed: there is no %s (make engines installs it)", engine, path)
	}
	return path
}
