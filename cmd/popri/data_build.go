package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"popri/datasets"
	"popri/datasets/clients"
	"popri/datasets/godoc"
	"popri/datasets/records"
	"popri/internal/atomicfile"
	"popri/internal/numeric"
	"popri/internal/rows"
	"popri/internal/version"
)

// checkOut refuses, before any work, a file that cannot be written.
func checkOut(out string) error { return unwritable("out", atomicfile.Check(out)) }

// checkFolder refuses, before any work, a folder that cannot be made or written to.
func checkFolder(out string) error {
	if out == "" {
		return usage(errors.New("--out names no folder"))
	}
	return unwritable("out", atomicfile.CheckFolder(out))
}

func unwritable(flag string, err error) error { return usage(labelled("--"+flag, err)) }

// informationOf says who sees each split.
func informationOf(i clients.Information, source string) dataInformation {
	info := dataInformation{Information: i, Source: source, Seen: map[string]string{}}
	for split := range info.Splits {
		info.Seen[string(split)] = seenBy[split]
	}
	return info
}

func (a *app) dataBuild() *cobra.Command {
	o := clients.ImportOptions{Deduplicate: clients.NoDeduplication, Program: version.Program()}
	o.Format = records.Folder
	var out, public string
	var validation, test float64
	cmd := &cobra.Command{
		Use:   "build FOLDER | godoc --out FILE",
		Short: "Make a client file from a folder of texts",
		Long: `Makes one client of each file in the folder and one of each subfolder with all its files. Paragraphs, separated by blank
lines, become texts of at most --words words; of HTML (.html, .htm, .xhtml) the text alone is read. A client's split depends on
its name alone. Files that are no text end the work, unless --skip-bad says how many are left out. Beside the client file lies
FILE.manifest.json with hashes, counts and what was left out. "godoc" writes the embedded default, and --public the texts that
its prompts quote.`,
		Example: "  popri data build notes/ --out clients.parquet --validation 0.1 --test 0.2\n" +
			"  popri data build godoc --out clients.parquet --public public.jsonl",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usage(errors.New("--out names no file"))
			}
			if args[0] == embedded {
				if name := changed(cmd, "words", "min-words", "validation", "test", "encoding", "skip-bad"); name != "" {
					return usage(fmt.Errorf("--%s is for a folder; %s is as it is", name, embedded))
				}
				return a.buildEmbedded(out, public, o)
			}
			if public != "" {
				return usage(errors.New("--public goes with godoc only: a folder's files are all private"))
			}
			o.Shares = [3]float64{1 - validation - test, validation, test}
			return a.importData(cmd.Context(), out, []clients.ImportFile{{Path: args[0]}}, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "Parquet file to write")
	f.StringVar(&public, "public", "", "with godoc: JSON lines file for the public texts")
	f.IntVar(&o.SpanWords, "words", 48, "longest text in words (0: whole paragraphs)")
	f.IntVar(&o.MinWords, "min-words", 5, "shortest text in words")
	f.Float64Var(&validation, "validation", 0.1, "share of the clients for validation")
	f.Float64Var(&test, "test", 0.2, "share of the clients for test")
	f.StringVar(&o.Encoding, "encoding", "",
		"encoding of the files, such as latin1, windows-1252, utf-16 (default utf-8)")
	skipBadFlag(f, &o)
	f.StringVar(&o.Name, "name", "", "the data set's name, for reports")
	f.StringVar(&o.Unit, "unit", "", "a sentence for reports that says who or what a client is")
	return cmd
}

// buildEmbedded writes the embedded default, and its public texts where public names a file.
func (a *app) buildEmbedded(out, public string, o clients.ImportOptions) error {
	if err := checkOut(out); err != nil {
		return err
	}
	if public != "" {
		if err := unwritable("public", atomicfile.Check(public)); err != nil {
			return err
		}
	}
	corpus, err := godoc.Load("")
	if err != nil {
		return usage(err)
	}
	if public != "" {
		lines := numeric.Map(datasets.Strings(corpus.Public.Prompts),
			func(text string) map[string]string { return map[string]string{"text": text} })
		if err := rows.WriteLines(public, lines); err != nil {
			return err
		}
	}
	p := corpus.Private
	p.Name, p.Unit = cmp.Or(o.Name, p.Name), cmp.Or(o.Unit, p.Unit)
	if err := clients.Write(out, p); err != nil {
		return err
	}
	info := informationOf(p.Info(), out)
	return a.emit(info, info.print)
}
