package download

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/hub"
	"popri/model/safetensors"
)

// Options say which model to fetch, from where and where to.
type Options struct {
	Name     string
	Revision string // branch, tag or commit; "" is hub.DefaultRevision
	Endpoint string // address of the hub
	Token    string // sent to the hub alone; "" for none
	Cache    string // the hub's cache folder
	Offline  bool   // use no network: the model must be in the cache
	// Check, where not nil, gets the content of config.json before weights are fetched, and refuses a model by an
	// error.
	Check func(config []byte) error
	// Progress, where not nil, is told how many bytes of the files that are fetched have come, of how many in all.
	Progress func(done, total int64)
	// Say, where not nil, gets a line when a request is repeated.
	Say func(format string, args ...any)

	sleep func(context.Context, time.Duration) error // of tests; nil waits
	stall time.Duration                              // of tests; 0 is stallAfter
}

// FromEnvironment returns options with what the hub's own variables say: HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE,
// HF_HUB_CACHE and HF_HOME.
func FromEnvironment() (Options, error) {
	cache, err := hub.Cache()
	if err != nil {
		return Options{}, err
	}
	o := Options{Endpoint: hub.Endpoint(), Token: os.Getenv("HF_TOKEN"), Cache: cache}
	switch strings.ToUpper(os.Getenv("HF_HUB_OFFLINE")) {
	case "1", "ON", "YES", "TRUE":
		o.Offline = true
	}
	return o, nil
}

// Result says what was fetched.
type Result struct {
	Name     string   `json:"name"`
	Revision string   `json:"revision"`
	Commit   string   `json:"commit"`
	Folder   string   `json:"folder"`        // with the files
	Files    []string `json:"files"`         // in it that popri reads
	Bytes    int64    `json:"bytes"`         // of all files
	Fetched  int64    `json:"fetched_bytes"` // the rest was there
}

// entry is a file of the model as the hub states it.
type entry struct {
	name string
	size int64
	etag string // SHA-256 of the content, or git's SHA-1 of it
}

// getter is one fetching of a model.
type getter struct {
	client
	folder   string // of the model in the cache
	commit   string
	has      []string // names of the model's files
	entries  []entry
	fetched  int64 // bytes that were fetched and are whole
	expected int64 // bytes to fetch, as far as known
}

// Get fetches the files of a model that popri reads into the cache, as far as they are not there with the right
// content. An interrupted download continues where it ended. The snapshot's config.json appears last, so that no
// program takes an incomplete model for a whole one.
func Get(ctx context.Context, o Options) (*Result, error) {
	if o.Revision == "" {
		o.Revision = hub.DefaultRevision
	}
	if err := errors.Join(hub.CheckName(o.Name), hub.CheckRevision(o.Revision)); err != nil {
		return nil, fault.User(err)
	}
	if o.Offline {
		return cached(o)
	}
	folder := hub.Folder(o.Cache, o.Name)
	if err := atomicfile.CheckFolder(folder); err != nil {
		return nil, fault.User(err)
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	g := &getter{client: c, folder: folder}
	if g.commit, g.has, err = g.list(ctx); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(g.folder, "blobs"), 0o755); err != nil {
		return nil, err
	}
	if err := g.settings(ctx); err != nil {
		return nil, err
	}
	if err := g.weights(ctx); err != nil {
		return nil, err
	}
	if err := g.publish(); err != nil {
		return nil, err
	}
	r := &Result{Name: o.Name, Revision: o.Revision, Commit: g.commit, Folder: hub.Snapshot(g.folder, g.commit),
		Fetched: g.fetched}
	for _, e := range g.entries {
		r.Files, r.Bytes = append(r.Files, e.name), r.Bytes+e.size
	}
	slices.Sort(r.Files)
	return r, nil
}

// cached is [Get] without network.
func cached(o Options) (*Result, error) {
	dir, err := hub.Find(o.Cache, o.Name, o.Revision, hub.Decoder)
	if err != nil {
		return nil, fault.Userf("HF_HUB_OFFLINE is set, so nothing is fetched, and %w", err)
	}
	return &Result{Name: o.Name, Revision: o.Revision, Commit: filepath.Base(dir), Folder: dir}, nil
}

// settings fetches the small files, and refuses a model that popri cannot read before its weights are fetched.
func (g *getter) settings(ctx context.Context) error {
	for _, name := range hub.Settings {
		if !g.had(name) {
			continue
		}
		if err := g.one(ctx, name, mostSettings); err != nil {
			return err
		}
		if name == hub.Config && g.o.Check != nil {
			content, err := os.ReadFile(g.blob(g.entries[len(g.entries)-1]))
			if err != nil {
				return err
			}
			if err := g.o.Check(content); err != nil {
				return fault.Userf("%s: %s: %w", g.o.Name, name, err)
			}
		}
	}
	if !g.had(hub.Config) {
		return fault.Userf("%s has no %s at %s: popri reads folders of transformers and GGUF files (popri model import)",
			g.o.Name, hub.Config, g.o.Revision)
	}
	more := []string{hub.PoolingFile}
	if g.had(hub.Modules) {
		var err error
		if more, err = g.named(hub.Modules, hub.ModuleFiles); err != nil {
			return err
		}
	} else if !g.had(hub.PoolingFile) {
		more = nil
	}
	pieces := slices.DeleteFunc(slices.Clone(hub.Pieces), func(name string) bool { return !g.had(name) })
	if !g.had(hub.Tokenizer) {
		if len(pieces) == 0 {
			return fault.Userf("%s has no %s at %s; in Python, transformers.AutoTokenizer.from_pretrained(%[1]q)."+
				"save_pretrained(DIR) writes one", g.o.Name, hub.Tokenizer, g.o.Revision)
		}
		more = append(more, pieces...)
	}
	for _, name := range more {
		if err := g.one(ctx, name, mostWeights); err != nil {
			return err
		}
	}
	return nil
}

// weights fetches model.safetensors or the shards of its index, all sizes first.
func (g *getter) weights(ctx context.Context) error {
	names := []string{safetensors.ModelFile}
	if !g.had(safetensors.ModelFile) {
		if !g.had(safetensors.ModelIndex) {
			return fault.Userf("%s has no %s at %s, and popri reads no other weights; the hub's own conversions of "+
				"other models are branches such as refs/pr/1 (--revision)", g.o.Name, safetensors.ModelFile,
				g.o.Revision)
		}
		if err := g.one(ctx, safetensors.ModelIndex, mostSettings); err != nil {
			return err
		}
		var err error
		if names, err = g.named(safetensors.ModelIndex, hub.Shards); err != nil {
			return err
		}
	}
	var all []entry
	for _, name := range names {
		e, err := g.describe(ctx, name, mostWeights)
		if err != nil {
			return err
		}
		all = append(all, e)
	}
	g.expected = g.fetched
	absent := all[:0:0]
	for _, e := range all {
		there, err := g.there(e)
		if err != nil {
			return err
		}
		if !there {
			g.expected += e.size
			absent = append(absent, e)
		}
	}
	for _, e := range absent {
		if err := g.download(ctx, e); err != nil {
			return err
		}
	}
	g.entries = append(g.entries, all...)
	return nil
}

func (g *getter) had(name string) bool { return slices.Contains(g.has, name) }

// blob is where the cache keeps the content of a file.
func (g *getter) blob(e entry) string { return filepath.Join(g.folder, "blobs", e.etag) }

// named are the files that a file, fetched before, names.
func (g *getter) named(name string, parse func([]byte) ([]string, error)) ([]string, error) {
	i := slices.IndexFunc(g.entries, func(e entry) bool { return e.name == name })
	content, err := os.ReadFile(g.blob(g.entries[i]))
	if err != nil {
		return nil, err
	}
	names, err := parse(content)
	if err != nil {
		return nil, fault.Userf("%s: %w", g.o.Name, err)
	}
	return names, nil
}

// one fetches a file of up to most bytes, if the cache does not have it.
func (g *getter) one(ctx context.Context, name string, most int64) error {
	e, err := g.describe(ctx, name, most)
	if err != nil {
		return err
	}
	there, err := g.there(e)
	if err != nil {
		return err
	}
	if !there {
		g.expected = g.fetched + e.size
		if err := g.download(ctx, e); err != nil {
			return err
		}
	}
	g.entries = append(g.entries, e)
	return nil
}

// there reports whether the cache has a file. A damaged one is fetched again.
func (g *getter) there(e entry) (bool, error) {
	info, err := os.Stat(g.blob(e))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if info.Size() != e.size {
		return false, nil
	}
	sum, err := checksum(g.blob(e), e)
	return sum == e.etag, err
}

// publish links the files into the snapshot, and then lets the revision point to it.
func (g *getter) publish() error {
	dir := hub.Snapshot(g.folder, g.commit)
	rest := slices.DeleteFunc(slices.Clone(g.entries), func(e entry) bool { return e.name == hub.Config })
	for _, e := range append(rest, g.entries[0]) { // hub.Settings begins with config.json
		if err := g.link(dir, e); err != nil {
			return err
		}
	}
	if !g.had(hub.Modules) { // no file there and a file that nobody has fetched are different things
		if err := write(filepath.Join(g.folder, ".no_exist", g.commit, hub.Modules), nil); err != nil {
			return err
		}
	}
	if hub.IsCommit(g.o.Revision) {
		return nil
	}
	return write(filepath.Join(g.folder, "refs", filepath.FromSlash(g.o.Revision)), []byte(g.commit))
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, content)
}

// link makes the file appear in a snapshot: as a symbolic link, as the hub's programs do.
func (g *getter) link(dir string, e entry) error {
	path := filepath.Join(dir, filepath.FromSlash(e.name))
	target, err := filepath.Rel(filepath.Dir(path), g.blob(e))
	if err != nil {
		return err
	}
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(path),
		fmt.Sprintf("%s%s-%d", atomicfile.TempPrefix, filepath.Base(path), os.Getpid()))
	_ = os.Remove(temp) // of a killed process of this number
	if err := os.Symlink(target, temp); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}
