// Package clients is the private half of the data: who the clients are and what each of them wrote.
//
// Only fedsim (which releases noised sums), downstream (which measures on private test clients and trains the ε = ∞
// reference), datasets/godoc and the commands import it. A client is the unit of privacy: neighbouring data sets
// differ in all the texts of one client.
//
// On disk a population is a Parquet file with one row per (client, text), sorted by client:
//
//	client_id  string, required    unique over splits
//	split      string, required    train, validation or test
//	date       string, optional    YYYY-MM-DD
//	label      string, optional
//	text       string, required    valid UTF-8, not blank
//
// or with one row per client and "texts" as a list of strings in place of "text".
package clients
