// Package federated has the commands of clients and aggregators, for popri and for popri-client, which is pure Go.
package federated

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/aggregate/service"
	"popri/fedsim/client"
	"popri/fedsim/sealing"
	"popri/internal/fault"
	"popri/internal/parallel"
	"popri/internal/rng"
)

// Aggregate is the command "aggregate" with its parts.
func Aggregate() *cobra.Command {
	c := &cobra.Command{
		Use:   "aggregate",
		Short: "Sum clients' vectors at two aggregators that each see nothing",
		Long: `Clients split their vectors into two shares and send one to each of two aggregators. A share alone is uniform noise. Each
aggregator sums its shares, adds the full privacy noise and charges its own ledger; "popri run --clients" adds both sums up.
docs/federation.md says who runs what and who is trusted with what.`,
		Example: "  popri aggregate ca --out fed --clients 10 --leader https://127.0.0.1:7401 --helper " +
			"https://127.0.0.1:7402\n  popri aggregate leader --identity fed/leader --enrolled fed/enrolled.txt " +
			"--state leader --epsilon 7 --delta 1e-5",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(aggregator(aggregate.Leader), aggregator(aggregate.Helper), both(), keygen(), authority(), renew(), fetch(), send(), health())
	return c
}

func fetch() *cobra.Command {
	var federation, out string
	c := &cobra.Command{
		Use:   "fetch --federation FILE --out DIR",
		Short: "Write the open announcement and its files into a folder for clients",
		Long: `For clients who are reached by another way than HTTPS, such as Flower: writes what both aggregators announce, the question
and the encoder into a folder. Carried to a client, "popri client --folder" answers it, and "popri aggregate send" uploads the
reports that come back.`,
		Example: "  popri aggregate fetch --federation fed/federation.json --out asked",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := identity.ReadFederation(federation)
			if err != nil {
				return err
			}
			a, err := client.Fetch(cmd.Context(), f, out)
			if err != nil {
				return err
			}
			return answer(cmd, map[string]any{"announcement": a.ID().String(), "round": a.Round, "deadline": a.Ends()})
		},
	}
	c.Flags().StringVar(&federation, "federation", "", "file "+identity.FederationFile)
	c.Flags().StringVar(&out, "out", "", "folder to write into")
	Required(c, "federation", "out")
	return c
}

func send() *cobra.Command {
	var federation string
	c := &cobra.Command{
		Use:     "send --federation FILE FOLDER…",
		Short:   "Upload the reports that clients left in folders",
		Long:    `Uploads both reports in each folder that "popri client --folder" answered. A report that is held already is no error.`,
		Example: "  popri aggregate send --federation fed/federation.json answers/1 answers/2",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			f, err := identity.ReadFederation(federation)
			if err != nil {
				return err
			}
			if err := client.Send(cmd.Context(), f, dirs); err != nil {
				return err
			}
			return answer(cmd, map[string]any{"sent": len(dirs)})
		},
	}
	c.Flags().StringVar(&federation, "federation", "", "file "+identity.FederationFile)
	Required(c, "federation")
	return c
}

func health() *cobra.Command {
	var federation string
	c := &cobra.Command{
		Use:   "health --federation FILE leader|helper",
		Short: "Ask an aggregator whether it answers",
		Long: `Asks the aggregator once, as a client would, for at most ten seconds, and fails if it does not answer: for the health checks
of containers. Says when its certificate ends in less than two weeks.`,
		Example:   "  popri aggregate health --federation fed/federation.json leader",
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{string(aggregate.Leader), string(aggregate.Helper)},
		RunE: func(cmd *cobra.Command, args []string) error {
			return askHealth(cmd.Context(), cmd.ErrOrStderr(), federation, args[0])
		},
	}
	c.Flags().StringVar(&federation, "federation", "", "file "+identity.FederationFile)
	Required(c, "federation")
	return c
}

// askHealth asks the aggregator of that role whether it answers.
func askHealth(ctx context.Context, out io.Writer, federation, name string) error {
	role := aggregate.Role(name)
	if !slices.Contains(aggregate.Roles, role) {
		return fault.Userf("%q, want %s or %s", role, aggregate.Leader, aggregate.Helper)
	}
	f, err := identity.ReadFederation(federation)
	if err != nil {
		return err
	}
	secrets, err := f.ClientTLS("")
	if err != nil {
		return err
	}
	remote := service.NewRemote(f.Party(role).URL, role, secrets)
	defer remote.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ends, err := remote.Health(ctx)
	if left := time.Until(ends); err == nil && left < certificateNotice {
		fmt.Fprintf(out, "the certificate of the %s ends on %s: popri aggregate renew\n", role, ends.Format(time.DateOnly))
	}
	return err
}

// certificateNotice is how long before its end a certificate is spoken of.
const certificateNotice = 14 * 24 * time.Hour

// warnOfEnd logs that the certificate ends soon.
func warnOfEnd(log *slog.Logger, ends time.Time) {
	if time.Until(ends) < certificateNotice {
		log.Warn("the certificate ends soon: popri aggregate renew", "ends", ends.Format(time.RFC3339))
	}
}

// answer prints a command's result as a line of JSON.
func answer(cmd *cobra.Command, result any) error {
	return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
}

// Required marks flags that must be given.
func Required(c *cobra.Command, names ...string) {
	for _, name := range names {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined
		}
	}
}

// aggregatorFlags are the flags of a leader or helper.
type aggregatorFlags struct {
	metrics                           string // file
	identity, enrolled, state, listen string
	epsilon, delta, rate              float64
	inFlight, group                   int
	maxFile                           int64
	seed                              uint64
	verbose                           bool
}

func aggregator(role aggregate.Role) *cobra.Command {
	f := newAggregatorFlags()
	gets := "masked vectors"
	if role == aggregate.Helper {
		gets = "the seeds of the masks"
	}
	c := &cobra.Command{
		Use:   string(role) + " --identity DIR --enrolled FILE --state DIR",
		Short: "Run the aggregator that gets " + gets,
		Long: `Serves until it is interrupted: takes the trainer's announcements and the clients' reports, and gives its noised sum to the
trainer. Its state is in --state, from which it continues after a kill. Its own ledger allows --epsilon and --delta,
whatever the trainer asks; the ledger and the list of enrolled clients cannot change afterwards.

It listens at the port of its address in federation.json, with TLS 1.3; /metrics has its figures for Prometheus, and the log on
standard error has no payloads. The other aggregator must be run by somebody else: both together can read every vector.`,
		Example: fmt.Sprintf("  popri aggregate %s --identity fed/%[1]s --enrolled fed/enrolled.txt --state %[1]s "+
			"--epsilon 7 --delta 1e-5", role),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.serve(cmd.Context(), cmd, role) },
	}
	f.add(c)
	c.Flags().StringVar(&f.listen, "listen", "",
		"address to listen at (default: the port of its address in "+identity.FederationFile+")")
	return c
}

// both runs the two aggregators on one machine, for data owners who all trust it.
func both() *cobra.Command {
	f := newAggregatorFlags()
	c := &cobra.Command{
		Use:   "both --identity DIR --enrolled FILE --state DIR",
		Short: "Run both aggregators on one machine that all clients trust",
		Long: `Runs the leader and the helper in one process, each with its folder of --identity and of --state. Both together can read every
vector, and so can the operator of this machine. It is for clients who trust one machine with their sums, such as
hospitals that trust one of them, and for tests. Clients and trainer notice no difference.`,
		Example: "  popri aggregate both --identity fed --enrolled fed/enrolled.txt --state state --epsilon 7 --delta 1e-5",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			group, ctx := errgroup.WithContext(cmd.Context())
			for _, role := range aggregate.Roles {
				one := *f
				one.identity, one.state = filepath.Join(f.identity, string(role)), filepath.Join(f.state, string(role))
				group.Go(func() error { return one.serve(ctx, cmd, role) })
			}
			return group.Wait()
		},
	}
	f.add(c)
	return c
}

func newAggregatorFlags() *aggregatorFlags {
	return &aggregatorFlags{epsilon: 7, rate: 50, inFlight: 64, maxFile: 256, group: 1}
}

// add adds the flags that every aggregator has.
func (f *aggregatorFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.identity, "identity", "", "folder of the certificate, the keys and "+identity.FederationFile)
	c.Flags().StringVar(&f.enrolled, "enrolled", "", "file of the clients' public keys, one a line")
	c.Flags().StringVar(&f.state, "state", "", "folder of the ledger and the batches")
	c.Flags().Float64Var(&f.epsilon, "epsilon", f.epsilon, "what its ledger allows, for a new --state")
	c.Flags().Float64Var(&f.delta, "delta", 0, "the δ of that; below 1/clients")
	c.Flags().IntVar(&f.group, "group", f.group, "clients that one person may have")
	c.Flags().IntVar(&f.inFlight, "in-flight", f.inFlight,
		"requests that are answered at once; more are told to come again")
	c.Flags().Float64Var(&f.rate, "rate", f.rate, "requests a second from one address; 0 for no limit")
	c.Flags().Int64Var(&f.maxFile, "max-file", f.maxFile, "MiB of a question or an encoder at most")
	c.Flags().BoolVar(&f.verbose, "verbose", false, "log every request")
	c.Flags().StringVar(&f.metrics, "metrics-token", "",
		"file with the token that readers of /metrics show (Authorization: Bearer …); without it, nobody reads them")
	c.Flags().Uint64Var(&f.seed, "insecure-seed", 0,
		"take the noise from this seed, as a simulation with it does: for tests, protects nobody")
	Required(c, "identity", "enrolled", "state", "delta")
}

// serve runs one aggregator until ctx ends.
func (f *aggregatorFlags) serve(ctx context.Context, cmd *cobra.Command, role aggregate.Role) (err error) {
	var seed *uint64
	if cmd.Flags().Changed("insecure-seed") {
		derived := rng.Seed(f.seed, "noise") // as a run with this seed does
		seed = &derived
	}
	federation, err := identity.ReadFederation(filepath.Join(f.identity, identity.FederationFile))
	if err != nil {
		return err
	}
	key, err := sealing.ReadPrivateKey(filepath.Join(f.identity, identity.SealFile))
	if err != nil {
		return err
	}
	if own := federation.Party(role).Key; string(own) != string(key.Public().Bytes()) {
		return fault.Userf("%s holds another key than the key of the %s in %s", f.identity, role, identity.FederationFile)
	}
	enrolled, revoked, noClients := identity.ReadEnrolled(f.enrolled)
	server, noServer := federation.ServerTLS(f.identity)
	secrets, noSecrets := federation.ClientTLS(f.identity)
	token, noToken := f.metricsToken()
	if err := cmp.Or(noClients, noServer, noSecrets, noToken); err != nil {
		return err
	}
	if err := os.MkdirAll(f.state, 0o700); err != nil {
		return fault.User(err)
	}
	l, err := ledger.Obtain(filepath.Join(f.state, "ledger.jsonl"), ledger.Budget{Epsilon: f.epsilon, Delta: f.delta,
		Mechanism: "gaussian", Unit: "a client is an enrolled key", Relation: accountant.ZeroOut,
		Data:  identity.Tag(enrolled),
		Group: f.group, Clients: len(enrolled), InsecureSeededNoise: seed != nil})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	a, err := aggregate.Open(aggregate.Config{Role: role, Key: key, Enrolled: enrolled, Revoked: revoked, Ledger: l,
		Dir: filepath.Join(f.state, "batches"), InsecureSeed: seed})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	listener, err := f.listener(federation.Party(role).URL)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})).With("role",
		string(role))
	if seed != nil {
		log.Warn("the noise comes from a seed: this protects nobody")
	}
	log.Info("listening", "address", listener.Addr().String(), "clients", len(enrolled))
	ends := server.Certificates[0].Leaf.NotAfter
	warnOfEnd(log, ends)
	defer parallel.Every(24*time.Hour, func() { warnOfEnd(log, ends) })()
	peer := service.NewRemote(federation.Party(role.Peer()).URL, role.Peer(), secrets)
	peer.Waits = func(err error) { log.Warn("the other aggregator is tried again", "reason", err.Error()) }
	return service.New(service.Options{Aggregator: a, Peer: peer, Dir: filepath.Join(f.state, "files"),
		InFlight: max(1, f.inFlight), Rate: f.rate, MaxFile: f.maxFile << 20, Patience: 30 * time.Second,
		Log: log, MetricsToken: token, Certificate: ends}).Serve(ctx, listener,
		server)
}

// listener listens on --listen, or on the address that others know.
func (f *aggregatorFlags) listener(address string) (net.Listener, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fault.User(err)
	}
	if f.listen == "" {
		f.listen = ":" + cmp.Or(u.Port(), "443")
		if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsLoopback() {
			f.listen = u.Host
		}
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return nil, fault.Userf("--listen: %w", err)
	}
	return l, nil
}

// metricsToken is the content of --metrics-token.
func (f *aggregatorFlags) metricsToken() (string, error) {
	if f.metrics == "" {
		return "", nil
	}
	content, err := os.ReadFile(f.metrics)
	token := strings.TrimSpace(string(content))
	if err == nil && len(token) < 16 {
		err = fmt.Errorf("%s has %d characters, want 16 or more", f.metrics, len(token))
	}
	if err != nil {
		return "", fault.Userf("--metrics-token: %w", err)
	}
	return token, nil
}
