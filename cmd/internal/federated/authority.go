package federated

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/internal/fault"
	"popri/internal/numeric"
)

func authority() *cobra.Command {
	var o identity.Options
	var out, trainer string
	days := 90
	c := &cobra.Command{
		Use:   "ca --out DIR --leader FILE --helper FILE --trainer FILE",
		Short: "Make the authority of a federation, sign certificates, and enrol clients",
		Long: `Makes the authority of a federation and signs the certificates of leader, helper and trainer, who made their keys themselves:
"popri aggregate keygen" writes request.json, and --leader, --helper and --trainer name these files. The authority holds nothing
that opens a report. federation.json is public, has the keys that reports are sealed to, and goes to everybody; leader/, helper/
and trainer/ each have the certificate for one of them. The owner of authority.key can make
further certificates.

enrolled.txt, which both aggregators need, lists the clients' public keys, one a line: a client that makes its own key (popri
client --keygen) sends the line that this prints. "revoked " before a line ends it.

With addresses in place of files, all keys are made here, for tests. A reader of that folder reads every report.`,
		Example: "  popri aggregate ca --out fed --leader leader.json --helper helper.json --trainer trainer.json\n" +
			"  popri aggregate ca --out fed --clients 10 --leader https://127.0.0.1:7401 --helper https://127.0.0.1:7402",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Valid, err = validFor(days); err != nil {
				return err
			}
			return found(cmd, out, trainer, o)
		},
	}
	c.Flags().StringVar(&out, "out", "", "new folder of the federation")
	c.Flags().StringVar(&o.Leader, "leader", "", "the leader's request.json; for tests its address, https://host:port")
	c.Flags().StringVar(&o.Helper, "helper", "", "the helper's request.json, or for tests its address")
	c.Flags().StringVar(&trainer, "trainer", "", "the trainer's request.json")
	c.Flags().IntVar(&o.Clients, "clients", 0, "number of clients to make keys for and to enrol")
	c.Flags().IntVar(&days, "days", days, "how long the certificates are valid")
	Required(c, "out", "leader", "helper")
	return c
}

// found makes the federation.
func found(cmd *cobra.Command, out, trainer string, o identity.Options) (err error) {
	if strings.Contains(o.Leader, "://") || strings.Contains(o.Helper, "://") {
		if trainer != "" {
			return fault.Userf("--trainer %s is a request: then --leader and --helper name requests, too", trainer)
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "all keys are made here, for tests: a reader of this folder reads every report")
	} else if o.Requests, err = readRequests(map[string]string{string(aggregate.Leader): o.Leader,
		string(aggregate.Helper): o.Helper, identity.Trainer: trainer}); err != nil {
		return err
	}
	if err := identity.Create(out, o); err != nil {
		return err
	}
	return answer(cmd, map[string]any{"federation": filepath.Join(out, identity.FederationFile),
		"enrolled": filepath.Join(out, identity.EnrolledFile), "clients": o.Clients})
}

// validFor is how long certificates of the given days are valid.
func validFor(days int) (time.Duration, error) {
	if days < 1 {
		return 0, fault.Userf("--days is %d, want 1 or more", days)
	}
	return time.Duration(days) * 24 * time.Hour, nil
}

// readRequests reads the request of each role from its file.
func readRequests(files map[string]string) (list []*identity.Request, err error) {
	for _, role := range slices.Sorted(maps.Keys(files)) {
		if files[role] == "" {
			return nil, fault.Userf("--%s names no request.json", role)
		}
		r, err := identity.ReadRequest(files[role])
		if err != nil {
			return nil, err
		}
		if r.Role != role {
			return nil, fault.Userf("%s is the request of the %s, not of the %s", files[role], r.Role, role)
		}
		list = append(list, r)
	}
	return list, nil
}

func keygen() *cobra.Command {
	var out, address string
	c := &cobra.Command{
		Use:   "keygen leader|helper|trainer --out DIR",
		Short: "Make the keys of an aggregator or of the trainer, on its own machine",
		Long: `Makes keys in a new folder and writes request.json, which is public and goes to the authority (popri aggregate ca, or renew).
The certificate and federation.json that come back are put into the folder.`,
		Example:   "  popri aggregate keygen leader --out leader --url https://leader.example:7401",
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{string(aggregate.Leader), string(aggregate.Helper), identity.Trainer},
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := identity.CreateIdentity(out, args[0], address); err != nil {
				return err
			}
			return answer(cmd, map[string]any{"request": filepath.Join(out, identity.RequestFile)})
		},
	}
	c.Flags().StringVar(&out, "out", "", "folder of the keys")
	c.Flags().StringVar(&address, "url", "", "an aggregator's address: https://host:port")
	Required(c, "out")
	return c
}

func renew() *cobra.Command {
	var dir string
	days := 90
	c := &cobra.Command{
		Use:   "renew --authority DIR REQUEST…",
		Short: "Sign new certificates, for the same keys or for new ones",
		Long: `Signs certificates for requests again, before the old ones end, in the folder of "popri aggregate ca": leader/, helper/ and
trainer/ there get the certificates. A request of new keys (popri aggregate keygen into a new folder) takes the place of
the old one: federation.json then has the new key, and goes to every client between two runs.`,
		Example: "  popri aggregate renew --authority fed leader/request.json helper/request.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			valid, err := validFor(days)
			if err != nil {
				return err
			}
			requests, err := numeric.TryMap(files, identity.ReadRequest)
			if err != nil {
				return err
			}
			return identity.Renew(dir, requests, valid)
		},
	}
	c.Flags().StringVar(&dir, "authority", "", "folder with authority.key and federation.json")
	c.Flags().IntVar(&days, "days", days, "how long the certificates are valid")
	Required(c, "authority")
	return c
}
