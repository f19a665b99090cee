package pretrain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"popri/datasets"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/filelock"
)

// Cache is a folder of trained models, each in a folder that is named by the public text and the recipe. A model
// appears in it when its training has ended; a training that was interrupted continues.
type Cache struct {
	Dir string
	// Begin, where not nil, is told of a training that begins; Waiting, of one in another process that is waited for.
	Begin   func(c *Corpus, dir string)
	Waiting func(dir string)
	// Each, where not nil, is called as training calls it.
	Each func(Stats)
}

// Model returns the folder of the model that the recipe gives on its part of the public text, and trains it where it is
// not there. made says that it was trained now. provenance is called with the size of the vocabulary.
func (h Cache) Model(ctx context.Context, public datasets.Public, r Recipe,
	provenance func(vocab int) Provenance) (dir string, made bool, err error) {
	if err := os.MkdirAll(h.Dir, 0o755); err != nil {
		return "", false, fault.User(err)
	}
	name := r.key(public.Hash())
	dir = filepath.Join(h.Dir, name)
	if complete(dir) {
		return dir, false, nil
	}
	lock, err := h.lock(ctx, dir)
	if err != nil {
		return "", false, err
	}
	defer lock.Release()
	if complete(dir) { // another process was faster
		return dir, false, nil
	}
	texts := Texts(public, r.Role)
	tok, err := Tokenizer(texts, "", r.Vocab)
	if err != nil {
		return "", false, err
	}
	if err := ctx.Err(); err != nil {
		return "", false, err
	}
	corpus := NewCorpus(texts, tok)
	if h.Begin != nil {
		h.Begin(corpus, dir)
	}
	o := r.Options
	o.SaveEvery = 0
	err = atomicfile.Folder(dir, func(unfinished string) error {
		if _, err := Make(ctx, unfinished, dir+".training", corpus, tok, o, provenance(tok.VocabSize()), h.Each); err != nil {
			return fmt.Errorf("training the %s on %s: %w", r.Role, public.Name, err)
		}
		return nil
	})
	if err != nil {
		return "", false, err
	}
	return dir, true, nil
}

// complete reports whether the folder holds a model. It is renamed to its name as a whole.
func complete(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, provenanceFile))
	return err == nil
}

// lock waits for the lock on a model.
func (h Cache) lock(ctx context.Context, dir string) (*filelock.Lock, error) {
	for told := false; ; told = true {
		lock, err := filelock.Acquire(dir + ".lock")
		if !errors.Is(err, filelock.ErrLocked) {
			return lock, err
		}
		if !told && h.Waiting != nil {
			h.Waiting(dir)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
