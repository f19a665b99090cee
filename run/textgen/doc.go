// Package textgen draws samples for a file of prompts: it reads the prompts, draws from a model with or without an
// adapter, ends samples at stop texts, and writes them as JSON lines or Parquet.
package textgen
