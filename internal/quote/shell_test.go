package quote_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"popri/internal/quote"
)

// FuzzShell: a shell splits the line into the words again.
func FuzzShell(f *testing.F) {
	f.Add("--set", "generate.template_header=It's a \"text\" of $HOME `x` *\n", "")
	f.Add("~/a b", "größe=1", "-")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		words := []string{a, b, c}
		if strings.Contains(a+b+c, "\x00") {
			return // no argument can hold it
		}
		out, err := exec.Command("sh", "-c", "printf '%s\\0' "+quote.Shell(words...)).Output()
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || !slices.Equal(got, words) {
			t.Errorf("%q became %q (%v)", words, got, err)
		}
	})
}
