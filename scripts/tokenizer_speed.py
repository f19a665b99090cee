#!/usr/bin/env python3
"""Times popri's tokenizers beside the reference's on one thread, turn by turn in one run; prints medians in MB/s.

    pip install tokenizers
    python3 scripts/tokenizer_speed.py TEXTS.jsonl TOKENIZER.json... [--rounds 5]

TEXTS.jsonl holds {"text": "..."} a line. Every turn is a fresh process, so "first" is the first pass over the texts,
with empty caches, and "again" the median of three further ones. The reference encodes text by text and, where faster,
all in one call (encode_batch_fast, which leaves offsets out).
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def reference(texts_path, tokenizer_path):
    from tokenizers import Tokenizer

    texts = [json.loads(line)["text"] for line in open(texts_path, encoding="utf-8")]
    tokenizer = Tokenizer.from_file(tokenizer_path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ways = {"one": lambda: [tokenizer.encode(t, add_special_tokens=False) for t in texts],
            "batch": lambda: tokenizer.encode_batch_fast(texts, add_special_tokens=False)}
    times = {}
    for name, run in ways.items():
        times[name] = []
        for _ in range(4):
            begun = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begun)
    print(json.dumps(times))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("texts")
    p.add_argument("tokenizers", nargs="+")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--reference", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.reference:
        return reference(a.texts, a.tokenizers[0])
    size = sum(len(json.loads(line)["text"].encode()) for line in open(a.texts, encoding="utf-8"))
    test = ROOT / "build" / "tokenizer.test"
    test.parent.mkdir(exist_ok=True)
    subprocess.run(["go", "test", "-c", "-o", str(test), "./model/tokenizer"], cwd=ROOT, check=True)
    one = {
        **os.environ, "GOMAXPROCS": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
        "POPRI_TEXTS": str(Path(a.texts).resolve())
    }
    for path in a.tokenizers:
        path = str(Path(path).resolve())
        rates = {"popri first": [], "popri again": [], "reference first": [], "reference again": []}
        for _ in range(a.rounds):
            out = subprocess.run([
                str(test), "-test.run", "^$", "-test.bench", "BenchmarkTexts", "-test.benchtime", "1x", "-test.count",
                "4"
            ], cwd=ROOT / "model" / "tokenizer", env={**one, "POPRI_TOKENIZERS": path}, check=True, capture_output=True,
                                 text=True).stdout
            speeds = [size / float(ns) * 1e3 for ns in re.findall(r"\s([0-9.]+) ns/op", out)]
            rates["popri first"].append(speeds[0])
            rates["popri again"].append(statistics.median(speeds[1:]))
            out = subprocess.run([sys.executable, __file__, "--reference", a.texts, path], env=one, check=True,
                                 capture_output=True, text=True).stdout
            times = json.loads(out)
            rates["reference first"].append(size / times["one"][0] / 1e6)
            rates["reference again"].append(size / min(statistics.median(t[1:]) for t in times.values()) / 1e6)
        print(
            Path(path).parent.name + ": " + ", ".join(f"{k} {statistics.median(v):.1f} MB/s" for k, v in rates.items()),
            flush=True)


if __name__ == "__main__":
    main()
