package hub

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"popri/internal/quote"
)

const (
	// DefaultEndpoint is where the hub is. The variable HF_ENDPOINT names another.
	DefaultEndpoint = "https://huggingface.co"
	// DefaultRevision is the branch that a name alone means.
	DefaultRevision = "main"
)

var (
	namePattern     = regexp.MustCompile(`^(\w[\w.-]{0,95}/)?\w[\w.-]{0,95}$`)
	revisionPattern = regexp.MustCompile(`^\w[\w.-]*(/[\w.-]+)*$`)
	commitPattern   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// CheckName refuses what is no name of a model, and what would lead out of the cache folder.
func CheckName(name string) error {
	if !namePattern.MatchString(name) || strings.Contains(name, "..") || strings.Contains(name, "--") {
		return quote.Errorf("%q is no name of a model on the hub, such as gpt2 or HuggingFaceTB/SmolLM2-135M-Instruct", name)
	}
	return nil
}

// CheckRevision refuses what is no name of a branch or tag and no commit.
func CheckRevision(revision string) error {
	if len(revision) > 200 || !revisionPattern.MatchString(revision) || strings.Contains(revision, "..") {
		return quote.Errorf("%q is no branch, tag or commit", revision)
	}
	return nil
}

// IsCommit reports whether a text is the full name of a commit.
func IsCommit(text string) bool { return commitPattern.MatchString(text) }

// Endpoint is the address of the hub: $HF_ENDPOINT, else [DefaultEndpoint].
func Endpoint() string {
	return strings.TrimRight(cmp.Or(os.Getenv("HF_ENDPOINT"), DefaultEndpoint), "/")
}

// Cache is the folder with the models: $HF_HUB_CACHE, else the folder hub in $HF_HOME, else in huggingface in the
// user's cache folder. It need not be there yet.
func Cache() (string, error) {
	dir := cmp.Or(os.Getenv("HF_HUB_CACHE"), os.Getenv("HUGGINGFACE_HUB_CACHE"))
	if home := os.Getenv("HF_HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, "hub")
	}
	if rest, ok := strings.CutPrefix(dir, "~/"); ok { // the hub's own programs read it so
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, rest)
	}
	if dir != "" {
		return filepath.Abs(dir)
	}
	// Not os.UserCacheDir, which differs on macOS: the hub's programs use ~/.cache everywhere.
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder for models of the hub: %w (set HF_HOME)", err)
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "huggingface", "hub"), nil
}

// Folder is where a cache keeps the model of that name.
func Folder(cache, name string) string {
	return filepath.Join(cache, "models--"+strings.ReplaceAll(name, "/", "--"))
}

// Snapshot is the folder with the files of a commit. [Folder] gives the folder of the model.
func Snapshot(folder, commit string) string { return filepath.Join(folder, "snapshots", commit) }

// commitOf reads to which commit a revision of the model in folder points, "" if the cache does not know.
func commitOf(folder, revision string) string {
	if IsCommit(revision) {
		return revision
	}
	content, err := os.ReadFile(filepath.Join(folder, "refs", filepath.FromSlash(revision)))
	if commit := strings.TrimSpace(string(content)); err == nil && IsCommit(commit) {
		return commit
	}
	return ""
}

// Role is what a model is for; it decides which files are needed.
type Role int

const (
	// Decoder is a generator or a small model.
	Decoder Role = iota
	// Encoder turns texts into vectors, by sentence-transformers' modules.
	Encoder
)

// ErrNotCached says that the cache does not have a model, or not all of its files.
var ErrNotCached = errors.New("not in the hub's cache")

// Resolve returns the folder that a user means by a path or a name: a folder of that path, else the main revision of
// the model of that name in the cache. The error says how to get what is not there.
func Resolve(path string, role Role) (string, error) {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return path, nil
	case err == nil && strings.EqualFold(filepath.Ext(path), ".gguf"):
		return "", fmt.Errorf("%s is a GGUF file: popri model import makes a model folder of it", path)
	case err == nil:
		return "", fmt.Errorf("the model %s is a file, must be a folder", path)
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the model folder cannot be looked at: %w", err)
	case CheckName(path) != nil:
		return "", fmt.Errorf("the model folder %s is not there", path)
	}
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	dir, err := Find(cache, path, DefaultRevision, role)
	if err != nil {
		return "", fmt.Errorf("there is no folder %[1]s, and %[2]w: popri model get %[1]s fetches it; without "+
			"network, copy %[3]s of %[4]s/%[1]s to a folder and name that folder", path, err, needs[role], Endpoint())
	}
	return dir, nil
}

// Find returns the folder of a model's revision in the cache, if all files are there that its role needs. Otherwise the
// error is [ErrNotCached] and says what is missing.
func Find(cache, name, revision string, role Role) (string, error) {
	folder := Folder(cache, name)
	commit := commitOf(folder, revision)
	if commit == "" {
		err := fmt.Errorf("%s is %w %s", name, ErrNotCached, cache)
		if known, _ := os.ReadDir(Snapshot(folder, "")); len(known) > 0 {
			err = fmt.Errorf("%w: it has commits of the model, of which none is said to be %s: name the folder %s", err, revision,
				Snapshot(folder, known[0].Name()))
		}
		return "", err
	}
	dir := Snapshot(folder, commit)
	missing, err := missingFiles(dir, role)
	if err != nil {
		return "", err
	}
	if missing != "" {
		return "", fmt.Errorf("%s is incomplete, %w: %s has no %s", name, ErrNotCached, dir, missing)
	}
	return dir, nil
}

var dataFile = regexp.MustCompile(`\.(parquet|(jsonl|ndjson|csv|tsv)(\.gz)?)$`)

// Data returns the path or, where nothing is there, the files of the main revision of the data set ORG/NAME in the cache.
func Data(path string) (files []string, err error) {
	_, err = os.Stat(path)
	if err == nil || strings.Count(path, "/") != 1 || CheckName(path) != nil || dataFile.MatchString(path) {
		return []string{path}, nil // its reader says what is wrong with it
	}
	cache, err := Cache()
	folder := filepath.Join(cache, "datasets--"+strings.ReplaceAll(path, "/", "--"))
	if commit := commitOf(folder, DefaultRevision); commit != "" {
		snapshot := Snapshot(folder, commit)
		for _, pattern := range []string{"*", "*/*"} {
			found, _ := fs.Glob(os.DirFS(snapshot), pattern) // a folder's own name may hold the signs of a pattern
			for _, name := range found {
				if dataFile.MatchString(name) {
					files = append(files, filepath.Join(snapshot, name))
				}
			}
		}
	}
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("there is no file %s, and no data set with Parquet, JSON lines or CSV of that name in the hub's cache %s: hf "+
			"download --repo-type dataset %[1]s fetches it; without network, copy its files and name them", path, cache)
	}
	return files, err
}
