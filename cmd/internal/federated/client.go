package federated

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/aggregate/service"
	"popri/fedsim/client"
	"popri/internal/fault"
	"popri/model/embedding"
	"popri/model/embedding/spago"
)

// clientFlags are the flags of a client.
type clientFlags struct {
	client.ResponderOptions
	federation, key, keys, keygen, record, small string
	open                                         func(small string) (Trainer, error)
	texts                                        client.Source
	yes, once                                    bool
	every                                        time.Duration
}

// Trainer trains the small model, which a folder has.
type Trainer interface {
	client.Trainer
	Close()
}

// answered begins a line of output: an announcement that was answered.
type answered struct {
	Round        uint64 `json:"round"`
	Query        string `json:"query"`
	Announcement string `json:"announcement"`
}

// Client is the command of one client. name is "client", or another where that is taken. open opens the small model; nil
// where the program cannot train.
func Client(name string, open func(small string) (Trainer, error)) *cobra.Command {
	f := clientFlags{every: 10 * time.Second, texts: client.Source{Most: 10000}, open: open}
	command := map[bool]string{true: "popri client", false: "popri-client " + name}[name == "client"]
	c := &cobra.Command{
		Use:   name + " --federation FILE --key FILE --texts PATH --epsilon E --delta D | --keygen FILE",
		Short: "Answer the questions of a federation with one's own texts, or for each client of a file",
		Long: `Waits for questions that both aggregators of a federation announce, and answers each: computes one vector of bounded length
from the texts, splits it into two shares of which each alone is uniform noise, and sends one to each aggregator. Texts never
leave this machine.

Before the first answer it says what it will send, to whom and what that costs, and asks; --yes agrees beforehand. --record keeps
the ε that all answers have spent, of whatever run, and no question is answered beyond --epsilon at --delta.

The time of an upload does not depend on the texts. The vector has half of the time until the round's deadline, and is zeros if
it is not ready then. The reports are sent at a random time of the other half.

--texts is a file of client texts (Parquet, JSON lines, CSV), a folder of text files, a mailbox (.mbox), or - for paragraphs on
standard input. The last 10 000 texts count, or as many as --most says. Each text weighs less if there are more; the vector's
length is bounded all the same.

--folder answers for another carrier than HTTPS, such as Flower: the announcement and its files, which "popri aggregate fetch"
wrote there, are answered, and both reports are left there for "popri aggregate send".

--keygen makes the client's key and prints the line that the federation's operator adds to enrolled.txt.

--keys answers for many clients, such as a hospital's. --texts is then a Parquet file of clients ("popri data build"
or "popri data import" writes it). Each of its train clients has a key in this folder, a record of its own and its own
report. --keygen with
a folder's name and --texts makes the keys that are missing and prints a line for each client.`,
		Example: "  " + command + " --keygen me.key\n" +
			"  " + command + " --federation federation.json --key me.key --texts notes/ --epsilon 2 --delta 1e-6\n" +
			"  " + command + " --keygen keys --texts patients.parquet\n" +
			"  " + command + " --federation federation.json --keys keys --texts patients.parquet --epsilon 2 --delta 1e-6",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	c.Flags().StringVar(&f.federation, "federation", "", "file federation.json, from the federation's operator")
	c.Flags().StringVar(&f.key, "key", "", "file of this client's key")
	c.Flags().StringVar(&f.keys, "keys", "", "folder with a key for each train client of --texts, a Parquet file of clients")
	c.Flags().StringVar(&f.keygen, "keygen", "", "make this client's key in this file, or with --texts a key for each "+
		"train client in this folder, and print the lines that enrol them")
	c.Flags().StringVar(&f.texts.Path, "texts", "",
		"this client's texts: a file, a folder, a mailbox, or - for standard input")
	c.Flags().StringVar(&f.texts.Client, "client", "", "whose texts count in a file of several clients (default: all)")
	c.Flags().IntVar(&f.texts.Most, "most", f.texts.Most, "texts that count, from the end; 0 for all")
	c.Flags().StringVar(&f.Encoder, "encoder", "",
		"folder of the sentence encoder; without it, an encoder that comes with a question is used if the owner agrees")
	if open != nil {
		c.Long += `

--small is a copy of RUN/small for "popri run --at-clients RUN": its questions have this model trained on the texts, and the
vector is the change of an adapter. Other models are refused.`
		c.Flags().StringVar(&f.small, "small", "",
			"folder of the small model, to train it on the texts where a question asks for that")
	}
	c.Flags().BoolVar(&f.AnnouncedEncoder, "announced-encoder", false,
		"agree to encoders that come with questions (--yes alone does not)")
	c.Flags().StringVar(&f.record, "record", "",
		"folder of what the client, or each of many, has spent (default: popri/clients/ in the user's configuration folder, by key)")
	c.Flags().StringVar(&f.Folder, "folder", "", "answer the announcement in this folder, and leave the reports there")
	c.Flags().Float64Var(&f.Epsilon, "epsilon", 0, "ε of all answers together at most")
	c.Flags().Float64Var(&f.Delta, "delta", 0, "the δ of that; below 1/clients")
	c.Flags().BoolVar(&f.yes, "yes", false, "agree to what would be asked")
	c.Flags().BoolVar(&f.once, "once", false, "answer one question and end")
	c.Flags().BoolVar(&f.AtOnce, "at-once", false,
		"send as soon as the vector is ready: for tests, because the time of the upload tells how much this client wrote")
	c.Flags().DurationVar(&f.every, "every", f.every, "how often to look for a question")
	c.Flags().BoolVar(&f.InsecureSeeds, "insecure-seeds", false,
		"accept questions whose noise comes from a seed: for tests, protects nobody")
	return c
}

// run makes keys or answers questions.
func (f *clientFlags) run(cmd *cobra.Command) error {
	if f.keygen != "" {
		return f.enrol(cmd.OutOrStdout())
	}
	if (f.key == "") == (f.keys == "") {
		return fault.Userf("give --key, or --keys for many clients")
	}
	switch {
	case f.federation == "":
		return fault.Userf("--federation is not given")
	case f.texts.Path == "":
		return fault.Userf("--texts is not given")
	case !(f.Epsilon > 0) || !(f.Delta > 0 && f.Delta < 1) || f.every <= 0:
		return fault.Userf("--epsilon %g, --delta %g, --every %v: want ε and the time above 0, and δ between 0 and 1",
			f.Epsilon, f.Delta, f.every)
	}
	o, in := f.ResponderOptions, bufio.NewReader(cmd.InOrStdin())
	var err error
	if o.Federation, err = identity.ReadFederation(f.federation); err != nil {
		return err
	}
	o.Open, o.Tell = openEncoder, func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) }
	if !f.yes {
		o.Confirm = func(offer client.Offer) error { return f.ask(offer, in, cmd.ErrOrStderr()) }
	}
	if f.small != "" {
		small, err := f.open(f.small)
		if err != nil {
			return fmt.Errorf("--small: %w", err)
		}
		defer small.Close()
		o.Small = small
	}
	if f.Folder == "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "waiting for questions from %s and %s\n", o.Federation.Leader.URL,
			o.Federation.Helper.URL)
	}
	if f.keys != "" {
		return f.runGroup(cmd, o)
	}
	return f.runOne(cmd, o, in)
}

// enrol makes the keys and prints the lines that enrol their clients.
func (f *clientFlags) enrol(w io.Writer) error {
	if f.texts.Path != "" {
		return client.EnrolGroup(f.keygen, f.texts.Path, func(line string) error {
			_, err := fmt.Fprintln(w, line)
			return err
		})
	}
	line, err := identity.CreateClientKey(f.keygen)
	if err == nil {
		_, err = fmt.Fprintln(w, line)
	}
	return err
}

// runOne answers for one client.
func (f *clientFlags) runOne(cmd *cobra.Command, o client.ResponderOptions, in *bufio.Reader) (err error) {
	if o.Key, err = identity.ReadClientKey(f.key); err != nil {
		return err
	}
	if o.Dir, err = f.recordOf(fmt.Sprintf("%x", o.Key.Public())[:16]); err != nil {
		return err
	}
	f.once = f.once || f.Folder != ""
	if f.texts.In = in; f.texts.Path == "-" {
		if !f.yes {
			return fault.Userf("--texts - takes standard input, so nobody can be asked: give --yes, or a file")
		}
		if !f.once {
			return fault.Userf("--texts - can be read once: give --once, or a file")
		}
	} else if err := f.readable(cmd.ErrOrStderr()); err != nil {
		return err
	}
	o.Texts = f.texts.Read
	r, err := client.NewResponder(o)
	if err != nil {
		return err
	}
	err = f.answer(cmd, r.Next, func(ctx context.Context, a *aggregate.Announcement) (any, error) {
		if err := r.Answer(ctx, a); err != nil {
			return nil, err
		}
		spent, err := r.Spent()
		return struct {
			answered
			Spent float64 `json:"epsilon_spent"` // by all answers of this client
		}{answered{a.Round, a.Query, a.ID().String()}, spent}, err
	})
	return errors.Join(err, r.Close())
}

// readable reads the texts before any question is known, and says what cannot be read: what is said or done later does
// not depend on them.
func (f *clientFlags) readable(w io.Writer) error {
	s := f.texts
	s.Damaged = func(err error) { fmt.Fprintf(w, "left out: %v\n", err) }
	texts, err := s.Read("")
	if err != nil {
		return fmt.Errorf("--texts: %w", err)
	}
	if len(texts) == 0 {
		fmt.Fprintf(w, "%s holds no texts of this client: as long as it holds none, answers are zeros, and count as any other\n", s.Path)
	}
	return nil
}

// runGroup answers for each client of a file.
func (f *clientFlags) runGroup(cmd *cobra.Command, o client.ResponderOptions) (err error) {
	if f.Folder != "" || f.texts.Client != "" {
		return fault.Userf("--keys answers for all train clients of --texts: leave --folder and --client out")
	}
	g := client.GroupOptions{ResponderOptions: o, Private: f.texts.Path, Keys: f.keys, Most: f.texts.Most}
	if g.Record, err = f.recordOf(""); err != nil {
		return err
	}
	group, err := client.NewGroup(g)
	if err != nil {
		return err
	}
	defer group.Close()
	return f.answer(cmd, group.Next, func(ctx context.Context, a *aggregate.Announcement) (any, error) {
		tally, err := group.Answer(ctx, a)
		return struct {
			answered
			client.Tally
		}{answered{a.Round, a.Query, a.ID().String()}, tally}, err
	})
}

// recordOf is the folder of what was spent: --record, or one of this name in the user's configuration folder. Of many
// clients ("") it has a folder for each key, like the folder of a client who answers alone.
func (f *clientFlags) recordOf(name string) (string, error) {
	if f.record != "" {
		return f.record, nil
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return "", fault.Userf("--record is not given, and there is no folder for settings: %w", err)
	}
	return filepath.Join(config, "popri", "clients", name), nil
}

// answer answers one question, or all until the command ends, with a line of output for each. A question that comes too
// late, by this machine's clock or an aggregator's, ends nothing.
func (f *clientFlags) answer(cmd *cobra.Command,
	next func(context.Context, time.Duration) (*aggregate.Announcement, error),
	respond func(context.Context, *aggregate.Announcement) (any, error)) error {
	var missed aggregate.ID
	for {
		a, err := next(cmd.Context(), f.every)
		if err != nil {
			return err
		}
		line, err := respond(cmd.Context(), a)
		late := errors.Is(err, client.ErrTooShort) || service.OutcomeOf(err) == aggregate.Late
		if err != nil && (f.once || !late && time.Now().Before(a.Ends())) {
			return err
		}
		if err != nil {
			if a.ID() != missed {
				fmt.Fprintf(cmd.ErrOrStderr(), "round %d was not answered: %v\n", a.Round, err)
			}
			missed = a.ID()
			select { // it may be announced for a while
			case <-cmd.Context().Done():
			case <-time.After(f.every):
			}
			continue
		}
		if err := answer(cmd, line); err != nil || f.once {
			return err
		}
	}
}

// ask shows the owner of the texts what is offered.
func (f *clientFlags) ask(o client.Offer, in *bufio.Reader, out io.Writer) error {
	whose := fmt.Sprintf("From %d texts", o.Texts)
	if f.keys != "" {
		whose = "For each train client of the file, from its own texts,"
	}
	coin := ""
	if o.Rate > 0 {
		coin = fmt.Sprintf("With probability %.4g that vector is yours, otherwise zeros; nobody sees which.\n", o.Rate)
	}
	how := ""
	if o.Encoder != "" {
		how = fmt.Sprintf("The encoder that computes it came with the question (SHA-256 %s).\n", o.Encoder)
	}
	if _, trains := o.Question.About.(aggregate.Updates); trains {
		how = fmt.Sprintf("The small model %s is trained on the texts, and the vector is the change of its adapter.\n", f.small)
	} else if f.small != "" {
		how += fmt.Sprintf("Further questions may have the small model %s trained on the texts.\n", f.small)
	}
	proof := ""
	if o.Proof == aggregate.RangeProof {
		proof = "A proof that no number is larger than that goes with it, and says nothing else.\n"
	}
	fmt.Fprintf(out, `Round %d asks %q.
%s a vector of %d numbers is computed, of length %g at most. It is split into two shares; each alone is random.
%s%s%sOne share goes to %s,
the other to %s: %s in all, after %s of the question. Texts are not sent.
If at least one of the two is honest, this answer costs ε = %.4g at δ = %.3g, and all your answers together %.4g of %g.
Each aggregator adds noise of %.4g times that length to the sum of at least %d of %d clients.
Agree to this and to further questions until your ε is spent? [y/N] `,
		o.Round, o.Query, whose, o.Values, o.Bound, coin, how, proof, o.Leader, o.Helper, size(o.Bytes), size(o.Received),
		o.Cost, o.Delta, o.Spent, o.Epsilon, o.Sigma, o.Least, o.Clients)
	line, err := in.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return fault.User(client.ErrNotConfirmed)
	}
	return nil
}

func size(bytes int) string { return fmt.Sprintf("%d KB", (bytes+999)/1000) }

// openEncoder opens an encoder by its file or its folder, in pure Go.
func openEncoder(path string) (embedding.Encoder, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault.User(err)
	}
	if !info.IsDir() {
		e, err := embedding.LoadSaved(path)
		return e, fault.User(err)
	}
	e, err := spago.Open(path)
	if err != nil {
		return nil, fault.User(err)
	}
	return e, nil
}
