package lm

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// Values of config.json are cut where an error quotes them, and a byte-order mark is no part of the file.
func TestConfigErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, content := range []string{
		fmt.Sprintf(`{"model_type": %q}`, long),
		fmt.Sprintf(`{"model_type": "llama", "hidden_act": %q}`, long),
		fmt.Sprintf(`{"model_type": "llama", "layer_types": [%q]}`, long),
		fmt.Sprintf(`{"model_type": "llama", "rope_scaling": {"rope_type": %q}}`, long),
		fmt.Sprintf(`{"model_type": "llama", "eos_token_id": %q}`, long),
		fmt.Sprintf(`{"model_type": "llama", "vocab_size": %s}`, strings.Repeat("9", 5000)),
		fmt.Sprintf(`{"model_type": "llama", %q: 1}`, long),
		fmt.Sprintf(`{"model_type": "gpt2", "activation_function": %q}`, long),
	} {
		dir := t.TempDir()
		testfile.Write(t, filepath.Join(dir, "config.json"), "\ufeff"+content)
		_, err := readConfig(dir)
		if err == nil || len(err.Error()) > len(dir)+500 || strings.Contains(err.Error(), "invalid character") {
			t.Errorf("%.60s…: %.300v", content, err)
		}
	}
}
