package bom

import "testing"

func TestTrim(t *testing.T) {
	for content, want := range map[string]string{"": "", "\ufeff": "", "\ufeffa": "a", "a\ufeff": "a\ufeff",
		"\ufeff\ufeffa": "\ufeffa", "\xef\xbb": "\xef\xbb"} {
		if got := string(Trim([]byte(content))); got != want {
			t.Errorf("Trim(%q) = %q, want %q", content, got, want)
		}
	}
}
