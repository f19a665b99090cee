package main

import (
	"github.com/spf13/cobra"

	"popri/experiment"
	"popri/trackers"
)

// trackFlag names the programs that show a run's figures.
type trackFlag struct{ names []string }

func (f *trackFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.names, "report-to", nil, "programs that show the figures as they come: "+joined(trackers.Names()))
}

func (f *trackFlag) check() error { return experiment.CheckTrackers(f.names) }

// trackHelp explains the flag.
const trackHelp = `--report-to tensorboard writes the figures of updates and rounds to the folder tensorboard in --out. --report-to mlflow sends
them to the server that MLFLOW_TRACKING_URI names, for the experiment MLFLOW_EXPERIMENT_NAME (default popri); a server
that is slow or away costs a warning. Give the flag again with --resume: the same run goes on there, and figures that are
missing are added.`
