#!/usr/bin/env python3
"""Writes one table as Parquet in many ways, and what a reader must find in it.

  python3 scripts/parquet_cases.py --out testdata/golden/parquet --sample 40
  python3 scripts/parquet_cases.py --out /tmp/parquet && POPRI_PARQUET=/tmp/parquet go test ./internal/parquetio -run TestCases

The table is written by pyarrow with each codec, page version, encoding, page size and type of texts and times, and by DuckDB and
Polars with each codec; --sample keeps this number of the files, drawn with seed 1. Needs pyarrow, duckdb and polars.
"""
import argparse, datetime, itertools, json, os, random

import duckdb, polars
import pyarrow as pa
import pyarrow.parquet as pq

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--out", required=True)
p.add_argument("--sample", type=int, default=0, help="files to keep (0: all)")
a = p.parse_args()
os.makedirs(a.out, exist_ok=True)
r = random.Random(1)
N = 40
day = datetime.date(2001, 2, 3)
utc = datetime.timezone.utc
text = [None if i % 11 == 5 else r.choice(["", "a", "the same text", "é中😀 " * (i % 5), "line\nline", "x" * (i * 3)]) for i in range(N)]
rows = {
    "id": [i * i * (-1) ** i * 1000003 for i in range(N)],
    "gap": [None if i % 7 == 3 else float(i) for i in range(N)],
    "text": text,
    "day": [day + datetime.timedelta(days=17 * i) for i in range(N)],
    "at": [datetime.datetime(1999, 12, 31, 23, 59, 59, tzinfo=utc) + datetime.timedelta(hours=31 * i) for i in range(N)],
    "flag": [None if i % 9 == 2 else i % 3 == 0 for i in range(N)],
    "words": [[w for w in ("one two three".split()[: i % 4])] for i in range(N)],
}


def shown(v):
    if v is None:
        return None
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, datetime.datetime):
        return v.astimezone(utc).date().isoformat()
    if isinstance(v, list):
        return [shown(x) for x in v]
    return str(int(v)) if isinstance(v, float) else str(v)


json.dump({k: [shown(v) for v in column] for k, column in rows.items()}, open(os.path.join(a.out, "expected.json"), "w"),
          ensure_ascii=False)


def table(texts, unit):
    return pa.table({
        "id": pa.array(rows["id"], pa.int64()), "gap": pa.array(rows["gap"], pa.float64()), "text": pa.array(text, texts),
        "day": pa.array(rows["day"], pa.date32()), "at": pa.array(rows["at"], pa.timestamp(unit, "UTC")),
        "flag": pa.array(rows["flag"], pa.bool_()), "words": pa.array(rows["words"], pa.list_(pa.string()))})


files = []


def arrow(name, texts=pa.string(), unit="us", **options):
    files.append((name, lambda path: pq.write_table(table(texts, unit), path, **options)))


encodings = {"plain": dict(use_dictionary=False), "dictionary": {},
             "delta": dict(use_dictionary=False, column_encoding={"id": "DELTA_BINARY_PACKED", "text": "DELTA_LENGTH_BYTE_ARRAY",
                                                                  "gap": "BYTE_STREAM_SPLIT"}),
             "delta-bytes": dict(use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})}
for codec, version, (encoding, options), size in itertools.product(
        ["none", "snappy", "gzip", "zstd", "brotli", "lz4"], ["1.0", "2.0"], encodings.items(), [64, 1 << 20]):
    arrow(f"pyarrow-{codec}-{version}-{encoding}-{size}", compression=codec, data_page_version=version, data_page_size=size,
          **options)
for name, more in {"large": dict(texts=pa.large_string()), "categories": dict(texts=pa.dictionary(pa.int32(), pa.string())),
                   "view": dict(texts=pa.string_view()), "ms": dict(unit="ms"), "ns": dict(unit="ns"),
                   "groups": dict(row_group_size=7), "old": dict(version="1.0"), "bare": dict(write_statistics=False, store_schema=False),
                   "batch": dict(write_batch_size=3), "index": dict(write_page_index=True, write_page_checksum=True)}.items():
    arrow("pyarrow-" + name, **more)
base = table(pa.string(), "us")
for codec in ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4_raw"]:
    files.append(("duckdb-" + codec, lambda path, codec=codec: duckdb.sql("select * from base").write_parquet(path, compression=codec)))
for codec in ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4"]:
    for more in ({}, {"data_page_size": 64, "row_group_size": 7}):
        files.append((f"polars-{codec}-{len(more)}",
                      lambda path, codec=codec, more=more: polars.from_arrow(base).write_parquet(path, compression=codec, **more)))
if a.sample:
    files = r.sample(files, a.sample)
for name, write in files:
    write(os.path.join(a.out, name + ".parquet"))
print(f"{len(files)} files in {a.out}")
