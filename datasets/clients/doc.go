// Package clients is the private half of the data: who the clients are and what each of them wrote.
//
// Few packages import it, and a test of internal/archtest names them: fedsim, fedsim/local and fedsim/client, which release
// noised sums, train and vote with texts and send shares of vectors; run/assembly, run and study/cost, which read clients and hand them on; eval/downstream,
// eval/domain, run/evaluator and run/judging, which measure; run/lanfl, which shares
// what a model makes of texts, where a user says that it may; datasets/godoc, which makes the embedded clients; the
// commands; and examples/loop. A client is the unit of privacy: neighbouring data sets differ in all the texts of one client.
//
// On disk a population is a Parquet file with one row per (client, text), sorted by client:
//
//	client_id  string, required    unique over splits
//	split      string, required    train, validation or test
//	date       string, optional    YYYY-MM-DD
//	label      string, optional
//	text       string, required    valid UTF-8, not blank
//
// or with one row per client and "texts" as a list of strings instead of "text".
package clients
