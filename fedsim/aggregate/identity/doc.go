// Package identity says who is who in a federation with two aggregators: the certificates by which trainer and
// aggregators know each other, the keys to which shares are sealed, the keys by which clients sign, and the list of
// enrolled clients. [Create] makes all of it for tests and pilots:
//
//	federation.json         public: the aggregators' addresses and keys, the certificate of the authority
//	enrolled.txt            the clients' public keys, one a line; both aggregators have it
//	authority.key           signs certificates; stays with the one who made the federation
//	leader/, helper/        cert.pem, key.pem, seal.key, federation.json: one folder for each aggregator
//	trainer/                cert.pem, key.pem, federation.json
//	clients/0001.key, …     one for each client; a client that makes its own key ([CreateClientKey]) hands over a line to enrol
package identity
