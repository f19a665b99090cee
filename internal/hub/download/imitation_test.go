package download

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// imitation is a hub with one model: it lists the files, states checksums, and sends large files from another host.
type imitation struct {
	t        *testing.T
	name     string
	files    map[string]string
	large    map[string]bool // sent by the other host, with a SHA-256
	hub, cdn *httptest.Server

	mu       sync.Mutex
	requests []string                                                // METHOD PATH, with the Range if there is one
	tokens   map[string]bool                                         // that the hub saw
	spoil    func(w http.ResponseWriter, r *http.Request) (did bool) // goes first, at both hosts
}

func newImitation(t *testing.T, name string, files map[string]string, large ...string) *imitation {
	m := &imitation{t: t, name: name, files: files, large: map[string]bool{}, tokens: map[string]bool{}}
	for _, name := range large {
		m.large[name] = true
	}
	m.hub = httptest.NewServer(http.HandlerFunc(m.answer))
	m.cdn = httptest.NewServer(http.HandlerFunc(m.content))
	t.Cleanup(m.hub.Close)
	t.Cleanup(m.cdn.Close)
	return m
}

func (m *imitation) etag(name string) string {
	content := m.files[name]
	if m.large[name] {
		sum := sha256.Sum256([]byte(content))
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum([]byte(fmt.Sprintf("blob %d\x00%s", len(content), content)))
	return hex.EncodeToString(sum[:])
}

func (m *imitation) seen(r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Range")))
}

// asked counts the requests that begin so.
func (m *imitation) asked(prefix string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

func (m *imitation) answer(w http.ResponseWriter, r *http.Request) {
	m.seen(r)
	m.mu.Lock()
	m.tokens[r.Header.Get("Authorization")] = true
	m.mu.Unlock()
	if m.spoil != nil && m.spoil(w, r) {
		return
	}
	if revision, ok := strings.CutPrefix(r.URL.Path, "/api/models/"+m.name+"/revision/"); ok {
		if revision != "main" && revision != commit && revision != "refs/pr/1" {
			w.Header().Set("X-Error-Code", "RevisionNotFound")
			http.Error(w, "{}", http.StatusNotFound)
			return
		}
		type sibling struct {
			Name string `json:"rfilename"`
		}
		answer := map[string]any{"sha": commit, "id": m.name}
		var list []sibling
		for name := range m.files {
			list = append(list, sibling{name})
		}
		answer["siblings"] = list
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/"+m.name+"/resolve/"+commit+"/")
	if _, there := m.files[name]; !ok || !there {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	if m.large[name] {
		w.Header().Set("X-Linked-Etag", `"`+m.etag(name)+`"`)
		w.Header().Set("X-Linked-Size", fmt.Sprint(len(m.files[name])))
		http.Redirect(w, r, m.cdn.URL+"/"+name+"?signature=hidden", http.StatusFound)
		return
	}
	w.Header().Set("ETag", `W/"`+m.etag(name)+`"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(m.files[name]))
}

func (m *imitation) content(w http.ResponseWriter, r *http.Request) {
	m.seen(r)
	if token := r.Header.Get("Authorization"); token != "" {
		m.t.Errorf("the other host saw %q", token)
	}
	if m.spoil != nil && m.spoil(w, r) {
		return
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(m.files[strings.TrimPrefix(r.URL.Path, "/")]))
}

// options fetch from the imitation into a new cache, without waiting.
func (m *imitation) options() Options {
	return Options{Name: m.name, Endpoint: m.hub.URL, Cache: m.t.TempDir(),
		sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
}

// decoder has the files of a small language model, and some that popri does not read.
func decoder() map[string]string {
	return map[string]string{"config.json": `{"model_type": "gpt2"}`, "tokenizer.json": `{"version": "1.0"}`,
		"generation_config.json": "{}", "README.md": "# read me", "pytorch_model.bin": "pickle",
		"model.safetensors": strings.Repeat("0123456789", 30000)}
}
