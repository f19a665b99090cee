package tryout

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// echo suggests what was typed, and writes its question.
type echo struct{}

func (echo) Suggest(text string) (before, after []string, err error) {
	return []string{"old"}, []string{"new", text}, nil
}

func (echo) Prompts() []string { return []string{"first prompt", "second <prompt>"} }

func (echo) Write(_ context.Context, prompt int, seed uint64) (before, after string, err error) {
	if prompt == 1 {
		return "", "", fmt.Errorf("no model")
	}
	return fmt.Sprint("untuned ", seed), "tuned", nil
}

func (echo) Names() (small, generator string) { return "a small model", "a generator" }

func TestHandler(t *testing.T) {
	server := httptest.NewServer(nil)
	defer server.Close()
	server.Config.Handler = Handler(server.Listener.Addr().String(), echo{})
	ask := func(path, kind, body, host string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		r.Host = host
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var text strings.Builder
		if err := answer.Write(&text); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, text.String()
	}
	for _, c := range []struct {
		path, kind, body, host string
		code                   int
		want                   string
	}{
		{"/suggest", "application/json", `{"text": "a b"}`, "", 200, `"after":["new","a b"]`},
		{"/write", "application/json", `{"prompt": 0, "seed": 7}`, "", 200, `untuned 7`},
		{"/write", "application/json", `{"prompt": 1}`, "", 500, "no model"},
		{"/write", "application/json", `{"prompt": 2}`, "", 400, "prompt 2, of 2"},
		{"/write", "application/json", `{"prompt": -1}`, "", 400, "prompt -1"},
		{"/suggest", "text/plain", `{"text": "a"}`, "", 415, "application/json"},
		{"/suggest", "application/json", `{`, "", 400, ""},
		{"/suggest", "application/json", `{"text": "` + strings.Repeat("a", longest) + `"}`, "", 400, "too large"},
		{"/suggest", "application/json", `{"text": "a"}`, "evil.example", 421, "not called"},
	} {
		if code, text := ask(c.path, c.kind, c.body, c.host); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s %.40s: %d, %s", c.path, c.body, code, text)
		}
	}
}

// A browser shows what is typed and suggested, on a desk and on a telephone.
func TestInBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no Chromium (apt-get install chromium)")
	}
	server := httptest.NewServer(nil)
	defer server.Close()
	server.Config.Handler = Handler(server.Listener.Addr().String(), echo{})
	for _, size := range []string{"1280,900", "390,844"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		page, err := exec.CommandContext(ctx, browser, "--headless=new", "--no-sandbox", "--disable-gpu",
			"--virtual-time-budget=5000", "--window-size="+size, "--user-data-dir="+t.TempDir(), "--dump-dom",
			server.URL+"/#my%20fel").Output()
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`id="before"><button>old</button>`, `<button>new</button><button>my fel</button>`,
			"a small model", "<option>2: second &lt;prompt&gt;</option>", `id="asked">first prompt`} {
			if !strings.Contains(string(page), want) {
				t.Errorf("at %s the page lacks %q:\n%s", size, want, page)
			}
		}
	}
}
