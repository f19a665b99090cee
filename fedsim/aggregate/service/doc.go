// Package service carries the messages of package aggregate over HTTP/2 and TLS 1.3:
//
//	POST /v1/announcements            trainer     open a batch
//	GET  /v1/announcements/current    anybody     the announcement that reports are taken for; 204 if there is none
//	PUT  /v1/files/SHA256             trainer     a question or an encoder
//	GET  /v1/files/SHA256             anybody
//	GET  /v1/clients/KEY              anybody     whether reports of a client's key are taken
//	POST /v1/reports                  clients     a report, which the client's key signs
//	GET  /v1/batches/ID/reports       aggregator  identifiers of the reports, once nothing is taken any more
//	GET  /v1/batches/ID/verify        aggregator  its half of the key by which proofs are checked
//	GET  /v1/batches/ID/proofs/N      aggregator  its records about the proofs of the reports that both hold, from the N-th on
//	GET  /v1/batches/ID/share         trainer     the noised share
//	GET  /healthz                     anybody
//	GET  /metrics                     who shows the operator's token
//
// Trainer and aggregators show a certificate, clients do not, so that clients can come through a load balancer. The
// header Popri-Outcome of an answer has the [aggregate.Outcome]. A [Server] answers, a [Remote] asks.
package service
