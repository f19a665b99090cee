package hfconfig

import (
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	type inner struct {
		Deep int `json:"deep"`
	}
	type config struct {
		Size int `json:"size"`
		inner
	}
	for content, refused := range map[string]string{
		`{"size": 3, "deep": 4, "use_cache": true, "hidden_dropout_prob": 0.1, "summary_type": "x", "mine": 1}`: "",
		`{"unknown": null, "qk_norm": false, "num_experts": 0, "fourth": [], "fifth": {}, "sixth": ""}`:         "",
		`{"_model_name_or_path": "a/b", "_anything": [1]}`:                                                      "",
		`{"unknown": 1}`:                                  "unknown: 1",
		`{"is_causal": false}`:                            "is_causal: false is not supported",
		`{"use_qk_norm": true}`:                           "use_qk_norm: true is not supported",
		`{"layers_kept": 0}`:                              "layers_kept: 0 is not supported",
		`{"unknown": "` + strings.Repeat("x", 200) + `"}`: "x… (202 bytes) is not supported",
		`{"second": 2, "third": 3}`:                       "second: 2, third: 3 are not supported (those that do not change what the model computes are accepted with --accept-key second --accept-key third)",
		`{"quantization_config": {"a": 1}}`:               "quantization_config",
		`{"size": "x"}`:                                   "size",
		`[]`:                                              "array",
		``:                                                "JSON",
	} {
		var c config
		err := Decode([]byte(content), &c, "mine")
		switch {
		case refused == "" && err != nil:
			t.Errorf("%s: %v", content, err)
		case refused != "" && (err == nil || !strings.Contains(err.Error(), refused)):
			t.Errorf("%s: %v, want an error with %q", content, err, refused)
		}
		if strings.Contains(content, `"deep": 4`) && (c.Size != 3 || c.Deep != 4) {
			t.Errorf("%s: read %+v", content, c)
		}
	}
}

// A field that the user accepts is passed over, any other one is still refused.
func TestAccept(t *testing.T) {
	Accept("mup_scale", "other")
	defer Accept()
	var c struct{}
	if err := Decode([]byte(`{"mup_scale": 2, "other": "x"}`), &c); err != nil {
		t.Error(err)
	}
	if err := Decode([]byte(`{"mup_scale": 2, "third": "x"}`), &c); err == nil ||
		!strings.Contains(err.Error(), "third") {
		t.Errorf("a field that was not accepted: %v", err)
	}
	Accept()
	if err := Decode([]byte(`{"mup_scale": 2}`), &c); err == nil {
		t.Error("a field is accepted that was named in an earlier call only")
	}
}
