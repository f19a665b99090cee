// Package hub finds models of Hugging Face's hub in the cache folder that all programs of the hub share, and knows
// which files of a model popri reads. It does not use the network.
//
//	CACHE/models--ORG--NAME/
//	  refs/main                    the commit that a branch or tag points to
//	  snapshots/COMMIT/FILE        symbolic links to
//	  blobs/ETAG                   the files, named by the checksum that the hub states
//	  .no_exist/COMMIT/FILE        empty; the model has no such file
package hub
