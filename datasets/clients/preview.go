package clients

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"popri/internal/filelock"
)

// Preview imports the first n texts of each file that are no bad rows, and returns them as they would become. They are
// private. Nothing is left of the file that they are written to on the way.
func Preview(ctx context.Context, files []ImportFile, o ImportOptions, n int64) (*Population, error) {
	o.sample, o.MinTexts, o.ValidationClients, o.TestClients = n, 0, 0, 0
	if o.Partition.Kind == "" {
		o.Clients = 0
	}
	dir, remove, err := filelock.TempFolder(os.TempDir(), "popri-preview-")
	if err != nil {
		return nil, fmt.Errorf("clients: %w", err)
	}
	defer remove()
	out := filepath.Join(dir, "preview.parquet")
	if _, err := Import(ctx, out, files, o); err != nil {
		return nil, err
	}
	return Read(out)
}
