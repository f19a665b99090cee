package download

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"popri/internal/fault"
	"popri/internal/hub"
)

// holds checks that a folder has the files with the content that the imitation sends, and no temporary ones.
func holds(t *testing.T, m *imitation, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(content) != m.files[name] {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
	}
	for _, pattern := range []string{"*.incomplete", ".tmp-*"} {
		for _, at := range []string{"../../blobs", "."} {
			if left, _ := filepath.Glob(filepath.Join(dir, at, pattern)); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		}
	}
}

func TestGet(t *testing.T) {
	m := newImitation(t, "org/name", decoder(), "model.safetensors")
	o := m.options()
	o.Token = "secret"
	last := int64(0)
	o.Progress = func(done, total int64) {
		if done > total || done < last {
			t.Errorf("%d of %d bytes after %d", done, total, last)
		}
		last = done
	}
	r, err := Get(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"config.json", "generation_config.json", "model.safetensors",
		"tokenizer.json"}; !slices.Equal(r.Files, want) {
		t.Errorf("files %q", r.Files)
	}
	holds(t, m, r.Folder, r.Files...)
	if r.Commit != commit || r.Fetched != r.Bytes || last != r.Bytes ||
		r.Folder != filepath.Join(o.Cache, "models--org--name", "snapshots", commit) {
		t.Errorf("%+v, progress to %d", r, last)
	}
	// The layout is as the hub's own programs make it.
	if target, err := os.Readlink(filepath.Join(r.Folder, "config.json")); err != nil ||
		target != "../../blobs/"+m.etag("config.json") {
		t.Errorf("config.json is a link to %s, %v", target, err)
	}
	if ref, err := os.ReadFile(filepath.Join(o.Cache, "models--org--name", "refs", "main")); err != nil ||
		string(ref) != commit {
		t.Errorf("refs/main is %q, %v", ref, err)
	}
	if len(m.tokens) != 1 || !m.tokens["Bearer secret"] {
		t.Errorf("the hub saw %v", m.tokens)
	}
	for _, role := range []hub.Role{hub.Decoder, hub.Encoder} { // that there is no modules.json is known
		if dir, err := hub.Find(o.Cache, "org/name", "main", role); err != nil || dir != r.Folder {
			t.Errorf("%s, %v", dir, err)
		}
	}

	// A second time, contents are compared and not fetched; a damaged one is.
	o.Progress = nil
	before := m.asked("GET /org") + m.asked("GET /model")
	if r, err := Get(context.Background(), o); err != nil || r.Fetched != 0 ||
		m.asked("GET /org")+m.asked("GET /model") != before {
		t.Errorf("again: %+v, %v", r, err)
	}
	blob := filepath.Join(o.Cache, "models--org--name", "blobs", m.etag("model.safetensors"))
	if err := os.WriteFile(blob, []byte(strings.Repeat("x", len(m.files["model.safetensors"]))), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := Get(context.Background(), o); err != nil || r.Fetched != int64(len(m.files["model.safetensors"])) {
		t.Errorf("damaged: %+v, %v", r, err)
	}
	holds(t, m, r.Folder, r.Files...)

	// Without network, the cache answers.
	asked := m.asked("")
	o.Offline = true
	if r, err := Get(context.Background(), o); err != nil || r.Commit != commit || m.asked("") != asked {
		t.Errorf("offline: %+v, %v", r, err)
	}
	o.Name = "other"
	if _, err := Get(context.Background(), o); !fault.IsUser(err) || !strings.Contains(err.Error(), "HF_HUB_OFFLINE") ||
		m.asked("") != asked {
		t.Errorf("offline, not there: %v", err)
	}
}

// Shards and the modules of an encoder are found by the files that name them.
func TestGetNamedFiles(t *testing.T) {
	files := map[string]string{"config.json": `{"model_type": "bert"}`, "spiece.model": "pieces",
		"model.safetensors.index.json":     `{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}`,
		"model-00001-of-00002.safetensors": "one", "model-00002-of-00002.safetensors": "two",
		"model-00003-of-00003.safetensors": "other",
		"modules.json": `[{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"},
			{"path": "2_Dense", "type": "x.Dense"}, {"path": "3_Normalize", "type": "x.Normalize"}]`,
		"1_Pooling/config.json": "{}", "2_Dense/config.json": "{}", "2_Dense/model.safetensors": "dense",
		"2_Dense/pytorch_model.bin": "no"}
	m := newImitation(t, "encoder", files, "model-00001-of-00002.safetensors")
	o := m.options()
	o.Revision = "refs/pr/1"
	r, err := Get(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	delete(files, "model-00003-of-00003.safetensors")
	delete(files, "2_Dense/pytorch_model.bin")
	for name := range files {
		holds(t, m, r.Folder, name)
	}
	if len(r.Files) != len(files) {
		t.Errorf("%q", r.Files)
	}
	if dir, err := hub.Find(o.Cache, "encoder", "refs/pr/1", hub.Encoder); err != nil || dir != r.Folder {
		t.Errorf("%s, %v", dir, err)
	}
}

// A download that was interrupted continues where it ended, in the same command and in a later one.
func TestGetGoesOn(t *testing.T) {
	m := newImitation(t, "gpt2", decoder(), "model.safetensors")
	o := m.options()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	half := len(m.files["model.safetensors"]) / 2
	m.spoil = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/model.safetensors" || r.Method != http.MethodGet {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(2*half))
		_, _ = w.Write([]byte(m.files["model.safetensors"][:half]))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
	o.Progress = func(done, total int64) {
		if total > int64(half) && done >= int64(half) {
			cancel()
		}
	}
	if _, err := Get(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	part := filepath.Join(o.Cache, "models--gpt2", "blobs", m.etag("model.safetensors")+".incomplete")
	if info, err := os.Stat(part); err != nil || info.Size() != int64(half) {
		t.Fatalf("left %v, %v", info, err)
	}
	if _, err := hub.Find(o.Cache, "gpt2", "main", hub.Decoder); !errors.Is(err, hub.ErrNotCached) {
		t.Errorf("an interrupted download is found: %v", err)
	}
	m.spoil, o.Progress = nil, nil
	r, err := Get(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, m, r.Folder, r.Files...)
	if m.asked(fmt.Sprintf("GET /model.safetensors bytes=%d-", half)) != 1 {
		t.Errorf("%q", m.requests)
	}

	// What an earlier command left may be damaged: it is fetched again, once.
	blob := strings.TrimSuffix(part, ".incomplete")
	if err := errors.Join(os.Remove(blob), os.WriteFile(part, []byte("damaged"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if r, err = Get(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	holds(t, m, r.Folder, r.Files...)
	// It may be whole, or longer than the file, as well.
	for _, left := range []string{m.files["model.safetensors"], m.files["model.safetensors"] + "more"} {
		if err := errors.Join(os.Remove(blob), os.WriteFile(part, []byte(left), 0o644)); err != nil {
			t.Fatal(err)
		}
		if r, err = Get(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		holds(t, m, r.Folder, r.Files...)
	}
}

// times spoils the first n requests to a path.
func times(n int, path string, f func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter,
	*http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path || n == 0 {
			return false
		}
		n--
		f(w, r)
		return true
	}
}

// Errors that pass by themselves are tried again.
func TestGetTriesAgain(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			http.Error(w, "no", code)
		}
	}
	content := decoder()["model.safetensors"]
	for name, c := range map[string]struct {
		n    int
		path string
		do   func(http.ResponseWriter, *http.Request)
		wait time.Duration // the longest
	}{
		"listing, 503":  {4, "/api/models/gpt2/revision/main", status(503), 15 * time.Second},
		"checksum, 429": {2, "/gpt2/resolve/" + commit + "/config.json", status(429), 7 * time.Second},
		"content, 403":  {1, "/model.safetensors", status(403), 7 * time.Second}, // the signature of the address has run out
		"content, 500":  {3, "/model.safetensors", status(500), 7 * time.Second},
		"no answer": {1, "/model.safetensors",
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, time.Second},
		"truncated": {2, "/model.safetensors", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = w.Write([]byte(content[:1000]))
		}, 2 * time.Second},
		"short without a length": {1, "/model.safetensors", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(content[:1000]))
			w.(http.Flusher).Flush()
		}, time.Second},
		"stalled": {1, "/model.safetensors", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(content[:1000]))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, time.Second},
		"no range": {1, "/model.safetensors", status(416), 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newImitation(t, "gpt2", decoder(), "model.safetensors")
			o := m.options()
			longest, said := time.Duration(0), 0
			o.sleep = func(_ context.Context, d time.Duration) error { longest = max(longest, d); return nil }
			o.Say = func(string, ...any) { said++ }
			o.stall = 300 * time.Millisecond
			if name == "no range" { // of a part that the hub says is complete
				dir := filepath.Join(o.Cache, "models--gpt2", "blobs")
				if err := errors.Join(os.MkdirAll(dir, 0o755),
					os.WriteFile(filepath.Join(dir, m.etag("model.safetensors")+".incomplete"), []byte("012"),
						0o644)); err != nil {
					t.Fatal(err)
				}
				c.wait = time.Second
			}
			m.spoil = times(c.n, c.path, c.do)
			r, err := Get(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			holds(t, m, r.Folder, r.Files...)
			if longest != c.wait || said != c.n {
				t.Errorf("waited %s, said %d lines", longest, said)
			}
		})
	}
}

func TestGetRefuses(t *testing.T) {
	answer := func(code int, header ...string) func(*imitation, *Options) {
		return func(m *imitation, _ *Options) {
			m.spoil = func(w http.ResponseWriter, r *http.Request) bool {
				for i := 0; i < len(header); i += 2 {
					w.Header().Set(header[i], header[i+1])
				}
				http.Error(w, "no", code)
				return true
			}
		}
	}
	sends := func(content string) func(*imitation, *Options) {
		return func(m *imitation, _ *Options) {
			m.spoil = times(1<<30, "/model.safetensors",
				func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(content)) })
		}
	}
	with := func(name, content string) func(*imitation, *Options) {
		return func(m *imitation, _ *Options) { m.files[name] = content }
	}
	without := func(name string) func(*imitation, *Options) {
		return func(m *imitation, _ *Options) { delete(m.files, name) }
	}
	states := func(header, value string) func(*imitation, *Options) {
		return func(m *imitation, _ *Options) {
			m.spoil = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodHead || !strings.HasSuffix(r.URL.Path, "tokenizer.json") {
					return false
				}
				w.Header().Set("X-Linked-Etag", m.etag("tokenizer.json"))
				w.Header().Set("X-Linked-Size", "18")
				w.Header().Set(header, value)
				return true
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*imitation, *Options)
		user   bool
		want   []string
	}{
		"name that leads elsewhere": {func(_ *imitation, o *Options) { o.Name = "../../etc" }, true,
			[]string{`"../../etc"`}},
		"name with a separator": {func(_ *imitation, o *Options) { o.Name = "a--b" }, true, []string{`"a--b"`}},
		"revision":              {func(_ *imitation, o *Options) { o.Revision = "../../x" }, true, []string{`"../../x"`}},
		"no such revision":      {func(_ *imitation, o *Options) { o.Revision = "v9" }, true, []string{"gpt2", "v9"}},
		"endpoint": {func(_ *imitation, o *Options) { o.Endpoint = "hub.local" }, true,
			[]string{"HF_ENDPOINT", `"hub.local"`}},
		"token in the clear": {func(_ *imitation, o *Options) { o.Endpoint, o.Token = "http://192.0.2.1", "secret" },
			true, []string{"HF_TOKEN", "http://192.0.2.1"}},
		"no such model":   {func(_ *imitation, o *Options) { o.Name = "none" }, true, []string{"404", "none"}},
		"gated, no token": {answer(401), true, []string{"HF_TOKEN", "/gpt2", "401"}},
		"gated, token": {func(m *imitation, o *Options) { o.Token = "t"; answer(403)(m, o) }, true,
			[]string{"HF_TOKEN", "403"}},
		"a wait of an hour": {answer(429, "Retry-After", "3600"), false, []string{"429", "1h0m0s"}},
		"always 502":        {answer(502), false, []string{"502", "gpt2", "models--gpt2"}},
		"wrong content":     {sends(strings.Repeat("9876543210", 30000)), false, []string{"model.safetensors", "checksum"}},
		"more than stated": {sends(strings.Repeat("0123456789", 30001)), false,
			[]string{"model.safetensors", "more than the 300000 bytes"}},
		"always truncated": {sends("0123"), false, []string{"model.safetensors", "4 of 300000 bytes"}},
		"content never sent": {func(m *imitation, _ *Options) {
			m.spoil = times(1<<30, "/model.safetensors",
				func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
		}, false, []string{"model.safetensors", "127.0.0.1", "403"}},
		"other host is gone": {func(m *imitation, _ *Options) { m.cdn.Close() }, false,
			[]string{"model.safetensors", "127.0.0.1", "refused"}},
		"no checksum": {states("X-Linked-Etag", `"abc-2"`), false, []string{"tokenizer.json", `"abc-2"`}},
		"a size beyond bounds": {states("X-Linked-Size", "99999999999"), false,
			[]string{"tokenizer.json", "99999999999"}},
		"no weights":   {without("model.safetensors"), true, []string{"model.safetensors", "--revision"}},
		"no tokenizer": {without("tokenizer.json"), true, []string{"tokenizer.json"}},
		"no config":    {without("config.json"), true, []string{"config.json"}},
		"module outside": {with("modules.json", `[{"path": "../../x", "type": "a.Pooling"}]`), true,
			[]string{`"../../x"`}},
		"module that is not there": {with("modules.json", `[{"path": "1_Pooling", "type": "a.Pooling"}]`), true,
			[]string{"1_Pooling/config.json is missing"}},
		"shard outside": {func(m *imitation, o *Options) {
			without("model.safetensors")(m, o)
			with("model.safetensors.index.json", `{"weight_map": {"a": "../x.safetensors"}}`)(m, o)
		}, true, []string{`"../x.safetensors"`}},
		"unsupported": {func(_ *imitation, o *Options) {
			o.Check = func(b []byte) error { return fmt.Errorf("refused %s", b) }
		}, true, []string{"config.json", `refused {"model_type"`}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newImitation(t, "gpt2", decoder(), "model.safetensors")
			o := m.options()
			c.change(m, &o)
			_, err := Get(context.Background(), o)
			if err == nil || fault.IsUser(err) != c.user {
				t.Fatalf("%v; the user's: %v", err, fault.IsUser(err))
			}
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("%v shows a signed address", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %s", err, want)
				}
			}
			if _, err := hub.Find(o.Cache, "gpt2", "main", hub.Decoder); !errors.Is(err, hub.ErrNotCached) {
				t.Errorf("a refused model is found: %v", err)
			}
			if m.asked("GET /model.safetensors") > 0 && slices.Contains([]string{"unsupported", "no tokenizer"}, name) {
				t.Error("weights were fetched before")
			}
		})
	}
}

// The listing may name any file; what popri does not read is not asked for.
func TestGetIgnoresOtherFiles(t *testing.T) {
	files := decoder()
	files["../../../evil"] = "evil"
	m := newImitation(t, "gpt2", files)
	if _, err := Get(context.Background(), m.options()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"evil", "README.md", "pytorch_model.bin"} {
		for _, r := range m.requests {
			if strings.Contains(r, name) {
				t.Errorf("asked for %s", r)
			}
		}
	}
}

// A hub that is encrypted must not lead to a host that is not.
func TestRedirectKeepsEncryption(t *testing.T) {
	c, err := newClient(Options{Endpoint: "https://hub.example"})
	if err != nil {
		t.Fatal(err)
	}
	request := func(method, address string) *http.Request {
		r, err := http.NewRequest(method, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer secret")
		return r
	}
	first := []*http.Request{request("GET", "https://hub.example/a")}
	if err := c.redirect(request("GET", "http://cdn.example/a"), first); err == nil {
		t.Error("followed to http")
	}
	for address, keeps := range map[string]bool{"https://hub.example/b": true, "https://cdn.hub.example/b": false,
		"https://hub.example:8443/b": false} {
		r := request("GET", address)
		if err := c.redirect(r, first); err != nil || (r.Header.Get("Authorization") != "") != keeps {
			t.Errorf("%s: %v, %v", address, r.Header, err)
		}
	}
}
