package main

import (
	"github.com/spf13/cobra"

	"popri/run/tracking"
	"popri/show/trackers"
)

// trackFlag names the programs that show a run's figures.
type trackFlag struct{ names []string }

// add adds the flag, which is checked before the verb begins.
func (f *trackFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.names, "report-to", nil, "programs that show the figures as they come: "+
		joined(trackers.Names()))
	cmd.PreRunE = func(*cobra.Command, []string) error { return f.check() }
}

func (f *trackFlag) check() error { return tracking.Check(f.names) }

// trackHelp points to trackersHelp.
const trackHelp = `--report-to shows the figures in other programs while they come; "popri run --help" says which, and how they are found.`

// trackersHelp explains the flag.
const trackersHelp = `--report-to shows the figures in other programs while they come (several names between commas):
  tensorboard  writes them to the folder tensorboard in the run's; Trackio reads that folder (trackio.import_tf_events)
  mlflow       sends them to the server MLFLOW_TRACKING_URI, for the experiment MLFLOW_EXPERIMENT_NAME (default popri)
  otel         sends the times of rounds and stages as a trace of OpenTelemetry to the collector OTEL_EXPORTER_OTLP_ENDPOINT
               (OTLP over HTTP, default http://localhost:4318)
A server that is slow or away costs a warning. Give the flag again when a run is resumed: it stays the same run there,
and missing figures are added.`
