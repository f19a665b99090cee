package client

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"popri/fedsim/aggregate"
	"popri/model/embedding"
)

// observer is an aggregator that notes when something is asked of it.
type observer struct {
	files [][]byte
	log   *[]string
	start time.Time
}

func (o observer) note(what string) {
	*o.log = append(*o.log, fmt.Sprintf("%s at %d", what, time.Since(o.start).Round(time.Second)/time.Second))
}

func (o observer) Current(context.Context) (*aggregate.Announcement, error) { return nil, nil }

func (o observer) File(_ context.Context, hash []byte) ([]byte, error) {
	o.note("file")
	i := slices.IndexFunc(o.files, func(f []byte) bool { h := sha256.Sum256(f); return string(h[:]) == string(hash) })
	return o.files[i], nil
}

func (o observer) Enrolled(context.Context, ed25519.PublicKey) bool { o.note("enrolled"); return true }

func (o observer) Report(context.Context, []byte) error { o.note("report"); return nil }

func (o observer) Close() {}

// slow takes a second for a text.
type slow struct{ *embedding.Hashing }

func (s slow) Encode(texts []string) (embedding.Matrix, error) {
	time.Sleep(time.Duration(len(texts)) * time.Second)
	return s.Hashing.Encode(texts)
}

// TestTimeTellsNothing: of a client that embeds a text a second, an observer sees the same requests at the same times,
// and uploads in the second half of the window, whether it wrote 1 text or 3000, of which it embeds no half in time. At
// once, the upload comes when the texts are done. Too short a window is refused before anything is charged.
func TestTimeTellsNothing(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		texts, window int
		atOnce        bool
	}{{1, 1200, false}, {30, 1200, false}, {3000, 1200, false}, {30, 1200, true}, {1, 9, false}, {3000, 9, false}} {
		synctest.Test(t, func(t *testing.T) {
			var log, told []string
			seen := observer{w.files, &log, time.Now()}
			r := w.responder(t.TempDir(), func(o *ResponderOptions) {
				o.carriers = map[aggregate.Role]carrier{aggregate.Leader: seen, aggregate.Helper: seen}
				o.Texts = func(string) ([]string, error) { return slices.Repeat([]string{"rain"}, c.texts), nil }
				o.Open = func(path string) (embedding.Encoder, error) {
					e, err := embedding.LoadSaved(path)
					return slow{e.(*embedding.Hashing)}, err
				}
				o.AtOnce, o.Tell = c.atOnce, func(text string) { told = append(told, text) }
			})
			a := *w.asked
			a.Deadline = uint64(time.Now().Unix() + int64(c.window))
			err := r.Answer(t.Context(), &a)
			if c.window < 10 {
				if err == nil || len(log) > 0 || r.ledger != nil {
					t.Errorf("%+v: %v, requests %v", c, err, log)
				}
				return
			}
			if err != nil || len(r.ledger.Entries()) != 1 {
				t.Fatalf("%+v: %v", c, err)
			}
			before, uploads := log[:len(log)-2], log[len(log)-2:]
			if want := "enrolled at 0 enrolled at 0 file at 0 file at 0"; strings.Join(before, " ") != want {
				t.Errorf("%+v: before the upload %v, want %s", c, before, want)
			}
			var at int
			if _, err := fmt.Sscanf(uploads[0], "report at %d", &at); err != nil || uploads[1] != uploads[0] {
				t.Fatalf("%+v: uploads %v", c, uploads)
			}
			if c.atOnce != (at == c.texts) || !c.atOnce && (at < c.window/2 || at > c.window*95/100) {
				t.Errorf("%+v: the upload came after %d s", c, at)
			}
			if late := len(told) > 0; late != (c.texts > c.window/2) {
				t.Errorf("%+v: the owner was told %q", c, told)
			}
			time.Sleep(time.Hour) // what is still embedded ends
		})
	}
}
