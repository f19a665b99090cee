// Package atomicfile replaces files so that a reader sees the old content or the new one, never a part.
//
// The new content is written to a temporary file in the same directory, flushed to the disk and renamed over the
// old file; then the directory is flushed, so that the rename itself survives a power cut. When anything fails, a
// full disk included, the temporary file is removed and the old file stays as it was. A process killed in the middle
// leaves at most a hidden file whose name starts with [TempPrefix], which nothing reads.
package atomicfile
