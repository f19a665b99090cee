package evaluator

import (
	"errors"
	"os"
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/internal/cachedir"
	"popri/internal/datakey"
)

// CacheFolder is the name of a folder of fine-tunings that several evaluations share.
const CacheFolder = "evaluations"

// cacheBytes bounds the folder. A result takes some kilobytes; the state of a fine-tuning of DistilGPT2 that was ended
// takes 1.3 GB.
const cacheBytes = 8 << 30

// CacheDir is the user's folder of fine-tunings, for [Options]: reference points are trained once, and an
// evaluation that was ended continues. Another build of the program has another folder, because its models may differ.
// It is "" where there can be none.
func CacheDir() string {
	_, noKey := datakey.Load()
	base, noCache := cachedir.Dir()
	program, unknown := os.Executable()
	hash, unread := atomicfile.SHA256(program)
	if errors.Join(noKey, noCache, unknown, unread) != nil {
		return ""
	}
	dir := filepath.Join(base, CacheFolder, hash[:16])
	// What clients' texts say of models is for the user alone.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ""
	}
	if cachedir.Forget(filepath.Dir(dir), "", cacheBytes) != nil {
		return ""
	}
	return dir
}
