package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"popri/internal/version"
)

type versions struct {
	Version  string `json:"version"`            // the release, with the revision
	Revision string `json:"revision,omitempty"` // of the source, where the build recorded it
	Time     string `json:"time,omitempty"`     // of that revision
	Modified bool   `json:"modified"`           // the source differed from that revision
	Go       string `json:"go"`
	Libtorch string `json:"libtorch"`
	Platform string `json:"platform"`
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Versions of the program, Go and libtorch",
		Example: "  popri version --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.runVersion() },
	}
}

// runVersion prints the versions.
func (a *app) runVersion() error {
	v := versions{Version: version.Program(), Go: runtime.Version(),
		Libtorch: version.Libtorch(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.time":
				v.Time = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return a.emit(v, func(w io.Writer) {
		fmt.Fprintf(w, "popri\t%s\n", v.Version)
		if v.Revision != "" {
			fmt.Fprintf(w, "revision\t%s of %s\n", v.Revision, v.Time)
		}
		fmt.Fprintf(w, "go\t%s %s\nlibtorch\t%s\n", v.Go, v.Platform, v.Libtorch)
	})
}
