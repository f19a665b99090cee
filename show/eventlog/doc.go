// Package eventlog is the log of a run, events.jsonl: one JSON object a line with "time" (UTC), "event" (its name) and
// the event's fields.
//
// [Log] appends whole lines. A killed process may leave half a line at the end; the next one removes it. [Read]
// iterates over a log, and [Follower] reads it while it grows.
package eventlog
