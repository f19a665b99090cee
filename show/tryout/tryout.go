// Package tryout serves a page on which a run's models are tried: a text field with the words that the small model
// suggests before and after its training, and one prompt that the untuned and the tuned generator write from.
package tryout

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"

	"popri/show/report"
	"popri/show/watch"
)

//go:embed page.html
var pageHTML []byte

//go:embed page.js
var pageJS []byte

//go:embed page.css
var pageCSS string

// Models are what is tried. Several goroutines may use them.
type Models interface {
	// Suggest returns the words that the small model suggests after a text, before and after its training.
	Suggest(text string) (before, after []string, err error)
	// Prompts are those that the generator can write from.
	Prompts() []string
	// Write returns what the generator writes from a prompt, untuned and tuned, as the seed has it.
	Write(ctx context.Context, prompt int, seed uint64) (before, after string, err error)
	// Names say what the small model and the generator are.
	Names() (small, generator string)
}

// longest bounds what a page sends.
const longest = 16 << 10

// Handler serves the page to requests that are meant for the server at addr.
func Handler(addr string, m Models) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", watch.Static("text/html", pageHTML))
	mux.HandleFunc("GET /style.css", watch.Static("text/css", []byte(report.StyleSheet+pageCSS)))
	mux.HandleFunc("GET /page.js", watch.Static("text/javascript", pageJS))
	mux.HandleFunc("GET /about", func(out http.ResponseWriter, _ *http.Request) {
		small, generator := m.Names()
		watch.Answer(out, map[string]any{"small": small, "generator": generator, "prompts": m.Prompts()}, nil)
	})
	mux.HandleFunc("POST /suggest", func(out http.ResponseWriter, in *http.Request) {
		var asked struct{ Text string }
		if !read(out, in, &asked) {
			return
		}
		before, after, err := m.Suggest(asked.Text)
		watch.Answer(out, map[string][]string{"before": before, "after": after}, err)
	})
	mux.HandleFunc("POST /write", func(out http.ResponseWriter, in *http.Request) {
		var asked struct {
			Prompt int
			Seed   uint64
		}
		if !read(out, in, &asked) {
			return
		}
		if asked.Prompt < 0 || asked.Prompt >= len(m.Prompts()) {
			http.Error(out, fmt.Sprintf("prompt %d, of %d", asked.Prompt, len(m.Prompts())), http.StatusBadRequest)
			return
		}
		before, after, err := m.Write(in.Context(), asked.Prompt, asked.Seed)
		watch.Answer(out, map[string]string{"before": before, "after": after}, err)
	})
	return watch.Guard(addr, mux)
}

// read decodes what a page sends. Another site's page cannot send JSON without this server's consent.
func read(out http.ResponseWriter, in *http.Request, into any) bool {
	if in.Header.Get("Content-Type") != "application/json" {
		http.Error(out, "send application/json", http.StatusUnsupportedMediaType)
		return false
	}
	if err := json.NewDecoder(http.MaxBytesReader(out, in.Body, longest)).Decode(into); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}
