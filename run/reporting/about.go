package reporting

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"popri/configs"
	"popri/internal/fault"
	"popri/internal/quote"
	"popri/internal/rundir"
	"popri/methods"
	"popri/show/watch"
)

// About says what the run in dir is, for anyone who watches it.
func About(dir string) (watch.About, error) {
	c, err := configuration(dir)
	if err != nil {
		return watch.About{}, err
	}
	title, subtitle := titles(dir, c)
	d := methods.Of(*c)
	return watch.About{Title: title, Subtitle: subtitle, Rounds: d.Rounds(*c), Series: d.Series.WithPrivacy()}, nil
}

// configuration is the configuration of the run in dir.
func configuration(dir string) (*configs.Config, error) {
	c, err := configs.Load(configs.LoadOptions{File: filepath.Join(dir, rundir.Config)})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Userf("%s holds no run: there is no %s", dir, rundir.Config)
	}
	return c, err
}

// titles are the words above a run's pages.
func titles(dir string, c *configs.Config) (title, subtitle string) {
	d := methods.Of(*c)
	if title = c.Provenance["title"]; title == "" {
		title = d.Title + " run " + filepath.Base(dir)
	}
	rounds := quote.Count(d.Rounds(*c), "round", "")
	return title, fmt.Sprintf("%s; %s of %s", c.Provenance["private"], rounds, d.Work(*c))
}
