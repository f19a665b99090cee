package exactjson

import "testing"

func TestTrim(t *testing.T) {
	for content, want := range map[string]string{"": "", "\ufeff": "", "\ufeffa": "a", "a\ufeff": "a\ufeff",
		"\ufeff\ufeffa": "\ufeffa", "\xef\xbb": "\xef\xbb"} {
		if got := string(TrimBOM([]byte(content))); got != want {
			t.Errorf("TrimBOM(%q) = %q, want %q", content, got, want)
		}
	}
}
