// Package report shows what a run did: one HTML file that needs nothing else.
//
// The page shows what is guaranteed to whom, the small model's results, curves and a table per round, texts before and
// after, ablations, times, and every setting and version. It is made from plain data ([Report]), of which any part may
// be missing: the report of an interrupted run says what is missing.
//
// The file refers to nothing outside itself; all text in it is escaped. Its one script, allowed by its hash, browses
// the samples of the rounds and saves figures and tables; without it everything else is there. If a run has very many
// samples, they are on a second page next to it. Pages are legible on light and dark screens and on paper.
package report
