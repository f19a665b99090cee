package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"popri/configs"
	"popri/datasets/clients"
	"popri/datasets/speeches"
	"popri/internal/atomicfile"
	"popri/internal/parquetio"
	"popri/internal/version"
)

// The files that init writes. popri run takes the first where nothing else is named.
const (
	ownConfig = "popri.yaml"
	ownFile   = "popri-clients.parquet"
	ownPublic = "popri-public.parquet"
)

func (a *app) initialize() *cobra.Command {
	o, public, preset := clients.ImportOptions{}, []string{ownPublic}, ""
	cmd := &cobra.Command{
		Use:   "init FILE… [--client COLUMN] [--public FILE]",
		Short: "Make a configuration of your own files, and say what a run of it will do",
		Long: `Guesses which columns of the files, which may be any of "popri data import" or a data set in the hub's cache, have clients, texts,
dates and labels. Writes the clients (` + ownFile + `), public text where none is named (` + ownPublic + `, old books) and
the settings that matter, each with a comment (` + ownConfig + `). Says what "popri run" will do there. Presets by machine: smoke
(minutes on two cores), laptop (an evening), gpu, gpus.`,
		Example: "  popri init posts.csv --client user\n  popri init a.jsonl b.jsonl --text body --public news.txt --preset laptop",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runInit(cmd, o, public, preset, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Columns.Client, "client", "", "column of clients (default: guessed)")
	f.StringVar(&o.Columns.Text, "text", "", "column of texts (default: the one with most words)")
	f.StringVar(&o.Columns.Date, "date", "", "column of dates (default: guessed)")
	f.StringVar(&o.Columns.Label, "label", "", "column of labels (default: guessed)")
	f.StringArrayVar(&public, "public", public, "file of public text, as for popri demo; may be repeated")
	f.StringVar(&preset, "preset", "smoke", "settings to start from: smoke, laptop, gpu, gpus, or another preset of popri run")
	return cmd
}

// runInit makes the files and plans a run of them.
func (a *app) runInit(cmd *cobra.Command, o clients.ImportOptions, public []string, preset string, args []string) error {
	if _, err := os.Stat(ownConfig); err == nil {
		return usage(fmt.Errorf("%s is here already; take it away first", ownConfig))
	}
	files, err := importFiles(args)
	if err == nil {
		o.Columns, err = clients.Guess(files[0].Path, o)
	}
	if err != nil {
		return usage(mended(err))
	}
	a.say("columns of %s: client %q, text %q, date %q, label %q; --client, --text, --date and --label name others", files[0].Path,
		o.Columns.Client, o.Columns.Text, o.Columns.Date, o.Columns.Label)
	o.Deduplicate, o.SkipBlank, o.Program = clients.NoDeduplication, true, version.Program()
	m, err := a.imported(cmd.Context(), ownFile, files, o)
	if err != nil {
		return mended(err)
	}
	a.warnOfSplits(ownFile, m.Splits)
	if !cmd.Flags().Changed("public") {
		books, err := speeches.Public()
		if err = cmp.Or(err, atomicfile.WriteBytes(ownPublic, books)); err != nil {
			return err
		}
	}
	delta := min(1e-4, 0.5/float64(1+m.Splits[clients.Train].Clients))
	c, err := configs.Load(configs.LoadOptions{Preset: preset, Set: []string{"data.private=" + ownFile,
		"data.public=" + strings.Join(public, ","), fmt.Sprintf("privacy.delta=%.0g", delta)}})
	if err != nil {
		return usage(err)
	}
	get := func(key string) (string, error) {
		value, _ := c.Get(key)
		text, err := yaml.Marshal(value)
		return strings.TrimSpace(string(text)), err
	}
	own := new(bytes.Buffer)
	err = template.Must(template.New("").Funcs(template.FuncMap{"get": get}).Parse(ownTemplate)).Execute(own,
		map[string]any{"Preset": preset, "Clients": m.Splits})
	if err = cmp.Or(err, atomicfile.WriteBytes(ownConfig, own.Bytes())); err != nil {
		return err
	}
	a.say("%s is written, with the public text %s; popri run does what follows", ownConfig, strings.Join(public, ", "))
	return a.dryRun(*c, "", true)
}

// mended adds to an error in a file's content which command has the options that may help.
func mended(err error) error {
	if errors.Is(err, parquetio.ErrFormat) {
		return fmt.Errorf("%w. popri data import has flags for such files; popri init takes the file that it writes", err)
	}
	return err
}

// ownTemplate is the configuration as a file for people: the preset and the settings that they would change.
//
//go:embed own.yaml
var ownTemplate string

// ownRun takes the configuration of the working directory where the command line names no other, and a folder for its run.
func ownRun(o *runOptions, cmd *cobra.Command) {
	if _, err := os.Stat(ownConfig); err != nil || changed(cmd, append([]string{"config", "preset"}, worldNames...)...) != "" {
		return
	}
	if !o.resume {
		o.flags.file = ownConfig
	}
	if o.out == "" && !o.dry {
		o.out = filepath.Join("runs", "first")
	}
}
