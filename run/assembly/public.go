package assembly

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/datasets"
	"popri/datasets/records"
	"popri/internal/fault"
	"popri/internal/numeric"
)

// publicFiles returns the paths that data.public names: itself where such a file is there, else its parts between
// commas.
func publicFiles(value string) []string {
	if _, err := os.Stat(value); err == nil {
		return []string{value}
	}
	return numeric.Map(strings.Split(value, ","), strings.TrimSpace)
}

// ReadPublic reads files of public text, one after the other, or what the name of an embedded public half stands for.
func ReadPublic(files ...string) (datasets.Public, error) {
	if len(files) == 1 && (files[0] == embedded || files[0] == withoutDomain) {
		g, err := Embedded()
		if err != nil {
			return datasets.Public{}, err
		}
		if files[0] == withoutDomain {
			return g.WithoutDomain(), nil
		}
		return g.Public, nil
	}
	return join(files, datasets.ReadPublic)
}

// join reads files one after the other.
func join(files []string, read func(path string) ([]datasets.Text, error)) (datasets.Public, error) {
	var texts []datasets.Text
	for _, file := range files {
		more, err := read(file)
		if err != nil {
			return datasets.Public{}, fault.User(err)
		}
		texts = append(texts, more...)
	}
	return datasets.Public{Name: strings.Join(files, ", "), Prompts: texts, Generator: texts}, nil
}

// CheckNoClients refuses files that have a column which only a file of clients has.
func CheckNoClients(files ...string) error {
	for _, file := range files {
		column, err := clientColumn(file)
		if err != nil {
			return fault.User(err)
		}
		if column != "" {
			return fault.Userf("%s "+hasColumn, file, column)
		}
	}
	return nil
}

// hasColumn says why a file is no file of public text.
const hasColumn = "has a column %s as a file of clients has; write the texts that are public to a file without it"

// SameFile reports whether two paths lead to one file.
func SameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

// clientColumn returns the name of a column that only a file of clients has, or "".
func clientColumn(path string) (string, error) {
	ext := strings.ToLower(filepath.Ext(path))
	if ext != ".parquet" && ext != ".jsonl" {
		return "", nil
	}
	names, err := records.Names(path, records.Dialect{})
	if err != nil {
		return "", err
	}
	for _, name := range []string{"client_id", "split"} {
		if slices.Contains(names, name) {
			return name, nil
		}
	}
	return "", nil
}
