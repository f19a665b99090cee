package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/aggregate/service"
	"popri/run/federated"
)

// clientsFlag names the two aggregators of clients that are elsewhere.
type clientsFlag struct {
	urls     []string
	identity string
}

func (f *clientsFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.urls, "clients", nil,
		"the leader's and the helper's address: --clients https://leader,https://helper")
	cmd.Flags().StringVar(&f.identity, "identity", "", "with --clients: the trainer's folder of popri aggregate ca")
}

// connect returns the aggregators; nil where none are named.
func (f *clientsFlag) connect() (federated.Aggregators, error) {
	if len(f.urls) == 0 && f.identity == "" {
		return nil, nil
	}
	if len(f.urls) != 2 || f.identity == "" {
		return nil, usage(fmt.Errorf("--clients names %d addresses and --identity is %q, want two, the leader's first, "+
			"and the trainer's folder", len(f.urls), f.identity))
	}
	federation, err := identity.ReadFederation(filepath.Join(f.identity, identity.FederationFile))
	if err != nil {
		return nil, err
	}
	secrets, err := federation.ClientTLS(f.identity)
	if err != nil {
		return nil, err
	}
	for _, u := range f.urls {
		if err := identity.CheckURL(u); err != nil {
			return nil, usage(fmt.Errorf("--clients: %w", err))
		}
	}
	return federated.Aggregators{aggregate.Leader: service.NewRemote(f.urls[0], aggregate.Leader, secrets),
		aggregate.Helper: service.NewRemote(f.urls[1], aggregate.Helper, secrets)}, nil
}
