package pretraining

import (
	"fmt"
	"path/filepath"
	"strings"

	"popri/configs"
	"popri/internal/cachedir"
	"popri/trainer/pretrain"
)

// Name describes a model that Prepare trained, "" for any other folder.
func Name(dir string) string {
	root, err := cachedir.Dir()
	if err != nil || filepath.Dir(filepath.Clean(dir)) != filepath.Join(root, folder) {
		return ""
	}
	p, ok := pretrain.ReadProvenance(dir)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s (%.1f M parameters, on %s, SHA-256 %.12s)", configs.Trained, float64(p.Parameters)/1e6,
		FileNames(p.Corpus), p.CorpusHash)
}

// FileNames are the names of files between commas, without their folders.
func FileNames(list string) string {
	var names []string
	for _, name := range strings.Split(list, ", ") {
		names = append(names, filepath.Base(name))
	}
	return strings.Join(names, ", ")
}
