// Package report shows what a run did: one HTML file that needs nothing else, and the event log as JSON lines.
//
// The page says first what is guaranteed to whom, then whether the small model got better, then how it came to that:
// curves and table per round, texts before and after, ablations, times, and every setting and version at the end. It
// is made from plain data ([Report]), of which any part may be missing: a run that was interrupted has a report too,
// which says what is not there yet.
//
// The file has no script and refers to nothing outside itself; all text in it is escaped. It is legible on light and
// dark screens and on paper.
package report
