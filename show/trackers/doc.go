// Package trackers shows a run's figures in programs for experiment tracking: TensorBoard, MLflow and OpenTelemetry.
//
//	events of a run ─► Reader ─► points ─► Set ─┬─► TensorBoard  RUN/tensorboard
//	files of a run  ─► Reader ─► history ──┘    ├─► MLflow       HTTP; RUN/mlflow.json has the run's id there
//	stages of a run ────────────────────────────┴─► otel         OTLP over HTTP; RUN/otel.json has the run's trace
//
// A figure has its name in steps.jsonl, evals.jsonl or metrics.json, which for training are TRL's names. Trackers get
// only what these files and eval.json hold. They know no text.
//
// A run that continues reads its history from its files and gives it to each tracker, which adds what it lacks. So
// nothing that is kept elsewhere can be behind the run's own files.
package trackers
