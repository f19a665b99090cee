package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"popri/datasets"
	"popri/datasets/clients"
	"popri/datasets/records"
	"popri/internal/hub"
	"popri/internal/version"
	"popri/model/tokenizer"
	"popri/run/assembly"
)

// dataImported is the output of `data import`.
type dataImported struct {
	dataInformation
	Manifest *clients.Manifest `json:"manifest"`
}

// importOptions are the flags of the verb dataImport.
type importOptions struct {
	clients.ImportOptions
	out, public, shares string
}

func (a *app) dataImport() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import [SPLIT=]FILE… --out FILE",
		Short: "Make a client file from other formats",
		Long: `Reads Parquet, JSON lines, CSV, TSV, JSON (an object that maps clients to lists of texts, or a list), a mailbox (mbox)
or a folder of texts. It writes one client file, and a manifest next to it (FILE.manifest.json) with hashes, options,
counts, and what was left out and why. The format follows from the file's name. SPLIT= (train=, validation=, test=) says what a file's texts are for.

Splits come from SPLIT=, from the column --split, from dates (--validation-from, --test-from), or are drawn by client
(--split-shares; 0.7,0.1,0.2 where nothing names a split). A client whose texts straddle dates is in the split of its
newest text, and its texts of the other splits are left out. Dates are ISO 8601 (YYYY-MM-DD, YYYYMMDD, YYYY-MM, with or without
a time and an offset), seconds or milliseconds since 1970, or of --date-format.

A field of an object in JSON, or of a struct in Parquet, is named by its path: --client author.name. Ids may be texts, whole
numbers or UUIDs.

--deduplicate takes texts out of test that are public, out of validation if they are public or in test, and out of
train if they are in any of these. "exact" ignores case and white space; "near" means that a MinHash estimate of the
share of common five-word runs is 0.8 or more.

Files of any size are read as a stream and sorted on disk, next to --out. A record may have 64 MiB, a client 1048576 texts.
A bad row ends the import, and the error names it; no cell is quoted. --skip-bad counts bad rows by what is wrong with them
and leaves them out.`,
		Example: "  popri data import train=train.json validation=eval.json test=test.json --out clients.parquet\n" +
			"  popri data import posts.jsonl.gz --client author --text body --date created --label topic --out " +
			"clients.parquet\n  popri data import export.csv --client who --text entry --encoding latin1 --date when " +
			"--date-format DD/MM/YYYY --skip-bad 1% --out clients.parquet\n  popri data import data/*.parquet --client-per-text " +
			"--text review --label stars --span-words 50 --out clients.parquet\n  popri data import debates.csv " +
			"--client speech --non-letters 0.3 --drop Applause. --span-words 50 --out d.parquet\n  popri data import " +
			"speeches.csv --client speaker --test-from 2020 --min-texts 2 --deduplicate near --public public.jsonl " +
			"--out c.parquet\n  popri data import debates.csv --clients 5000 --validation-clients 200 --test-clients 300 " +
			"--out d.parquet\n  popri data import train=train.json validation=eval.json test=test.json --out clients.parquet",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runDataImport(cmd, o, args) },
	}
	o.add(cmd)
	return cmd
}

func (o *importOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "Parquet file to write")
	f.StringVar(&o.Name, "name", "", "the data set's name, for reports")
	f.StringVar(&o.Unit, "unit", "", "a sentence for reports that says who or what a client is")
	f.StringVar(&o.Format, "format", "", "format of the files: "+strings.Join(records.Formats, ", "))
	f.StringVar(&o.Encoding, "encoding", "",
		"encoding of text files, such as latin1, windows-1252, utf-16, gbk (default utf-8)")
	f.StringVar(&o.Delimiter, "delimiter", "", "sign between a CSV's cells: comma, semicolon, tab, pipe or a sign "+
		"(default: the most frequent in the first line)")
	f.BoolVar(&o.Backslash, "backslash", false, "a CSV's quotation marks are escaped by a backslash, not doubled")
	f.StringVar(&o.DateFormat, "date-format", "",
		"form of dates, such as DD/MM/YYYY or MON DD, YYYY hh:mm (default: ISO 8601 or seconds since 1970)")
	f.BoolVar(&o.HTML, "html", false, "texts are HTML: keep their plain text")
	skipBadFlag(f, &o.ImportOptions)
	f.StringVar(&o.Columns.Client, "client", "", "column of clients (default client_id)")
	f.StringVar(&o.Columns.Text, "text", "", "column of texts or lists of texts (default text or texts)")
	f.StringVar(&o.Columns.Date, "date", "", "column of dates (default date)")
	f.StringVar(&o.Columns.Label, "label", "", "column of labels (default label)")
	f.StringVar(&o.Columns.Split, "split", "", "column of splits (default split)")
	f.BoolVar(&o.ClientPerText, "client-per-text", false, "make a client of each text")
	f.BoolVar(&o.SkipBlank, "skip-blank", false,
		"count blank and missing texts and leave them out; they are errors otherwise")
	f.StringVar(&o.shares, "split-shares", "", "draw splits by client with these shares for train,validation,test")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of all draws")
	f.StringVar(&o.From, "from", "", "first date to keep (YYYY, YYYY-MM or YYYY-MM-DD)")
	f.StringVar(&o.To, "to", "", "last date to keep")
	f.StringVar(&o.ValidationFrom, "validation-from", "", "texts from this date on are for validation")
	f.StringVar(&o.TestFrom, "test-from", "", "texts from this date on are for test")
	f.IntVar(&o.SpanWords, "span-words", 0, "cut texts into spans of at most N words")
	f.IntVar(&o.SpanTokens, "span-tokens", 0, "cut texts into spans of at most N tokens of --tokenizer")
	f.StringVar(&o.Tokenizer, "tokenizer", "", "folder or file with the tokenizer.json of --span-tokens")
	f.Float64Var(&o.NonLetters, "non-letters", 0,
		"take out sentences with a larger share of characters that are no letters (the POPri paper: 0.3)")
	f.StringArrayVar(&o.Drop, "drop", nil, "regular expression whose matches are taken out of texts; may be repeated")
	f.IntVar(&o.MinWords, "min-words", 0, "leave out shorter texts and spans")
	f.IntVar(&o.MinTexts, "min-texts", 0, "leave out clients with fewer texts")
	f.IntVar(&o.MaxTexts, "max-texts", 0, "keep at most N texts of a client, the first ones")
	f.IntVar(&o.Clients, "clients", 0,
		"keep N train clients, drawn by --seed; a smaller N keeps a subset of a larger one")
	f.IntVar(&o.ValidationClients, "validation-clients", 0, "keep N validation clients, drawn in the same way")
	f.IntVar(&o.TestClients, "test-clients", 0, "keep N test clients, drawn in the same way")
	f.StringVar(&o.Deduplicate, "deduplicate", clients.NoDeduplication, "duplicates to take out between train, "+
		"validation, test and --public: "+strings.Join(clients.Deduplications, ", "))
	f.StringVar(&o.public, "public", "",
		"with --deduplicate: public texts that no client may have (.parquet, .jsonl, .json, .txt)")
}

// runDataImport makes a client file.
func (a *app) runDataImport(cmd *cobra.Command, o importOptions, args []string) error {
	files, err := importFiles(args)
	if err != nil {
		return usage(err)
	}
	if o.out == "" {
		return usage(errors.New("--out names no file"))
	}
	if o.Shares, err = parseShares(o.shares); err != nil {
		return usage(err)
	}
	if err := importResources(&o.ImportOptions, files, o.public); err != nil {
		return usage(err)
	}
	return a.importData(cmd.Context(), o.out, files, o.ImportOptions)
}

// importFiles are the files to import with their splits.
func importFiles(args []string) (files []clients.ImportFile, err error) {
	if len(args) == 0 {
		return nil, errors.New("no file is named")
	}
	for _, arg := range args {
		file := clients.ImportFile{Path: arg}
		if name, path, ok := strings.Cut(arg, "="); ok && clients.Split(name).Valid() {
			file = clients.ImportFile{Path: path, Split: clients.Split(name)}
		}
		paths, err := hub.Data(file.Path)
		if err != nil {
			return nil, err
		}
		for _, file.Path = range paths {
			files = append(files, file)
		}
	}
	return files, nil
}

// parseShares reads "0.7,0.1,0.2".
func parseShares(s string) (shares [3]float64, err error) {
	if s == "" {
		return shares, nil
	}
	parts := strings.Split(s, ",")
	if len(parts) != len(shares) {
		return shares, fmt.Errorf("--split-shares is %q, want three shares: train,validation,test", s)
	}
	for i, p := range parts {
		if shares[i], err = strconv.ParseFloat(strings.TrimSpace(p), 64); err != nil {
			return shares, fmt.Errorf("--split-shares is %q: %q is no number", s, p)
		}
	}
	if shares == [3]float64{} {
		return shares, errors.New("--split-shares are all 0")
	}
	return shares, nil
}

// importResources loads what options name: the tokenizer and the public text.
func importResources(o *clients.ImportOptions, files []clients.ImportFile, public string) error {
	o.Program = cmp.Or(o.Program, version.Program())
	if (o.Tokenizer != "") != (o.SpanTokens > 0) {
		return errors.New("--span-tokens and --tokenizer go together")
	}
	if o.Tokenizer != "" {
		tok, err := tokenizer.Load(o.Tokenizer)
		if err != nil {
			return err
		}
		o.Tokens = func(text string) int { return len(tok.Encode(text)) }
	}
	if public == "" {
		return nil
	}
	for _, f := range files {
		if assembly.SameFile(public, f.Path) {
			return fmt.Errorf("--public %s is a file of the clients", public)
		}
	}
	if err := assembly.CheckNoClients(public); err != nil {
		return fmt.Errorf("--public: %w", err)
	}
	texts, err := datasets.ReadPublic(public)
	if err != nil {
		return fmt.Errorf("--public: %w", err)
	}
	o.Public, o.PublicFile = datasets.Strings(texts), public
	return nil
}

func skipBadFlag(f *pflag.FlagSet, o *clients.ImportOptions) {
	f.StringVar(&o.SkipBad, "skip-bad", "",
		"count up to N bad rows, or N% of all rows, and leave them out; they are errors otherwise")
}

func (a *app) importData(ctx context.Context, out string, files []clients.ImportFile, o clients.ImportOptions) error {
	m, err := a.imported(ctx, out, files, o)
	if err != nil {
		return err
	}
	a.warnOfSplits(out, m.Splits)
	all := clients.Counts{}
	for _, n := range m.Splits {
		all.Clients, all.Texts, all.Words = all.Clients+n.Clients, all.Texts+n.Texts, all.Words+n.Words
	}
	result := dataImported{informationOf(clients.Information{Counts: all, Splits: m.Splits, Name: m.Name, Unit: m.Unit},
		out), m}
	return a.emit(result, func(w io.Writer) {
		result.print(w)
		fmt.Fprintf(w, "\nread\t%d texts\n", m.TextsRead)
		for _, c := range m.LeftOut {
			fmt.Fprintf(w, "left out\t%s: %d texts, %d clients\n", c.Reason, c.Texts, c.Clients)
		}
		if m.Filtered != nil {
			fmt.Fprintf(w, "filtered\t%s\n", *m.Filtered)
		}
		for _, d := range m.Duplicates {
			fmt.Fprintf(w, "duplicates\t%d texts of %s that are in %s were taken out\n", d.Texts, d.Split, d.Of)
		}
		fmt.Fprintf(w, "manifest\t%s\n", out+clients.ManifestSuffix)
	})
}

// imported makes a client file and shows how far it is.
func (a *app) imported(ctx context.Context, out string, files []clients.ImportFile, o clients.ImportOptions) (*clients.Manifest,
	error) {
	if err := checkOut(out); err != nil {
		return nil, err
	}
	for _, f := range files {
		if assembly.SameFile(out, f.Path) {
			return nil, usage(fmt.Errorf("--out %s is one of the files to import", out))
		}
	}
	bar := a.progress()
	show := bar.stages()
	o.Progress = func(name string, done, total int64) { show(name, int(done), int(total)) }
	m, err := clients.Import(ctx, out, files, o)
	bar.stop()
	if err != nil && !errors.Is(err, context.Canceled) { // it is about the input files
		err = usage(err)
	}
	return m, err
}
