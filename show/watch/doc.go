// Package watch shows a run while it trains: a page that a browser keeps open, and the same figures for Prometheus.
//
//	events.jsonl ─► Follower ─► state ─► sections ─► server-sent events, one stream a viewer
//	ledger.jsonl, rounds/, LATEST ─────────┘
//
// It reads the run's folder and nothing else, so it works for runs of other processes, across kills and resumptions,
// and for finished runs. Its memory does not grow with the length of a run: curves are thinned, and of the log nothing
// but their points is kept. The only thing that it can write is the request to stop after a round, and only for anyone who
// has the token with which it was started.
//
// The pictures are drawn by package report and sent as SVG: they look like the report's, and the page needs no library
// to draw.
package watch
