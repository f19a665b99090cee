package embedding

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"popri/internal/cachedir"
	"popri/model/safetensors"
)

const storedVectors = "vectors"

// storedBytes bounds the folder: the files that were read longest ago go first. A pool of 40 000 public texts of 384
// values takes 60 MB.
const storedBytes = 2 << 30

// Stored encodes texts, or reads what an earlier call with the same encoder and the same texts left in dir. It is for
// public texts alone: the file says how they look to the encoder. A file that cannot be read is written again. tell and ctx are
// as for [InParts].
func Stored(ctx context.Context, e Encoder, dir string, texts []string, tell func(done, total int)) (Matrix, error) {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q\n", Key(e))
	for _, t := range texts {
		fmt.Fprintf(hash, "%q\n", t)
	}
	path := filepath.Join(dir, hex.EncodeToString(hash.Sum(nil)[:12])+".safetensors")
	if m, err := readStored(path, len(texts), e.Dim()); err == nil {
		now := time.Now()
		os.Chtimes(path, now, now) // in use; a folder of somebody else's is only read
		return m, nil
	} else if errors.Is(err, fs.ErrPermission) {
		return Matrix{}, err
	}
	m, err := InParts(ctx, e, texts, tell)
	if err != nil {
		return m, err
	}
	shape := []int64{int64(m.Rows), int64(m.Dim)}
	tensors := []safetensors.Tensor{safetensors.FromFloat32(storedVectors, shape, m.Data)}
	if os.MkdirAll(dir, 0o755) != nil || safetensors.Write(path, tensors, nil) != nil {
		return m, nil // the cache only saves time
	}
	return m, cachedir.Forget(dir, path, storedBytes)
}

func readStored(path string, rows, dim int) (Matrix, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return Matrix{}, err
	}
	defer f.Close()
	t, ok := f.Tensor(storedVectors)
	if !ok {
		return Matrix{}, fmt.Errorf("embedding: %s has no tensor %q", path, storedVectors)
	}
	if err := t.CheckFinite(); err != nil {
		return Matrix{}, fmt.Errorf("embedding: %s: %w", path, err)
	}
	data, err := t.Float32s()
	if err != nil {
		return Matrix{}, err
	}
	m := Matrix{rows, dim, data}
	return m, m.Check()
}
