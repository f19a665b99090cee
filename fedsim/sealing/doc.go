// Package sealing encrypts what one party alone may read, by HPKE (RFC 9180: ML-KEM-768 with X25519, HKDF-SHA-256,
// AES-256-GCM), and keeps the recipients' keys in files. Package aggregate
// seals each share of a client's vector to its aggregator with it. A ciphertext is not signed: anyone who has the public
// key can make one.
package sealing
