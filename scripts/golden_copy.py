#!/usr/bin/env python3
"""Makes testdata/golden, the repository's own part of the reference data.

    python3 scripts/golden_copy.py SOURCE [DESTINATION]

SOURCE is the whole collection. What is taken: everything that the tests understand today, within 8 MB, as tensors,
ids and figures. What is left out: architectures that no package reads yet, the largest point clouds, and every case
whose text is prose or source code from elsewhere. Lists and counts inside the files are cut to what is there, so the
tests walk the copy as they walk the whole. The same source gives the same bytes.
"""
import json
import shutil
import sys
from pathlib import Path

LIMIT = 8_000_000  # bytes, all files together
LARGEST_CLOUD = 200_000  # bytes of a point cloud of the Fréchet distance
KEPT_CLOUDS = {"d384-rank-deficient"}  # the size and the trouble of real embeddings
LONGEST_LINE = 20_000  # bytes of one tokenizer case

# Model families that package lm reads.
FAMILIES = ("gpt2",)
TOKENIZERS = ("gpt2-512", "gpt2-4096", "llama3-4096")
# Kinds of tokenizer cases whose text was put together from atoms or drawn at random.
SYNTHETIC = {
    "empty", "words", "case-trap", "space", "digits", "emoji", "marks", "cjk", "rtl", "control", "punct", "special",
    "broken-special", "space-between", "long", "space-mix", "word-space", "fuzz-atoms", "fuzz-unicode", "fuzz-ascii",
    "fuzz-latin1", "orphan",
}


def family(name):
    return name.startswith(FAMILIES)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")


def copy(source, destination):
    """Copies a file, or a folder with all that it holds, byte for byte."""
    if source.is_dir():
        for path in sorted(source.iterdir()):
            copy(path, destination / path.name)
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, destination)


def accountant(source, destination):
    for name in ("cases.jsonl", "orders.json"):
        copy(source / name, destination / name)


def dpo(source, destination):
    for name in ("losses.json", "losses-check.json"):
        copy(source / name, destination / name)
    for trace in sorted(source.glob("trace-*")):
        if family(trace.name.removeprefix("trace-")):
            copy(trace, destination / trace.name)


def fid(source, destination):
    cases = []
    for case in read(source / "frechet.json"):
        cloud = source / (case["name"] + ".safetensors")
        if cloud.stat().st_size <= LARGEST_CLOUD or case["name"] in KEPT_CLOUDS:
            copy(cloud, destination / cloud.name)
            cases.append(case)
    write(destination / "frechet.json", cases)
    for cloud in sorted(source.glob("pr-*.safetensors")):
        copy(cloud, destination / cloud.name)
    copy(source / "precision_recall.json", destination / "precision_recall.json")


def models(source, destination):
    index = read(source / "index.json")
    index["models"] = [m for m in index["models"] if family(m["folder"])]
    write(destination / "index.json", index)
    for folder in sorted({m[key] for m in index["models"] for key in ("folder", "cases")}):
        copy(source / folder, destination / folder)


def peft(source, destination):
    index = read(source / "index.json")
    # Adapters that must be refused are refused before their model is looked at.
    index["adapters"] = [a for a in index["adapters"] if family(a["base"]) or a["refused_because"]]
    write(destination / "index.json", index)
    for adapter in index["adapters"]:
        copy(source / adapter["name"], destination / adapter["name"])


def scoring(source, destination):
    for path in sorted(source.glob("d*")):
        copy(path, destination / path.name)


def tokenizers(source, destination):
    copy(source / "unicode.json", destination / "unicode.json")
    for name in TOKENIZERS:
        folder, out = source / name, destination / name
        for path in sorted(folder.iterdir()):
            if path.name not in ("cases.jsonl", "meta.json"):
                copy(path, out / path.name)
        lines = (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        lines = [line for line in lines if json.loads(line)["kind"] in SYNTHETIC and len(line) <= LONGEST_LINE]
        (out / "cases.jsonl").write_text("".join(lines), encoding="utf-8")
        meta = read(folder / "meta.json")
        meta["cases"] = len(lines)
        write(out / "meta.json", meta)


def train(source, destination):
    for folder in sorted(source.iterdir()):
        if family(folder.name):
            copy(folder, destination / folder.name)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip())
    source = Path(sys.argv[1])
    destination = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(__file__).resolve().parent.parent / "testdata" / "golden"
    for part in (accountant, dpo, fid, models, peft, scoring, tokenizers, train):
        folder = destination / part.__name__
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        part(source / folder.name, folder)
    size = 0
    for path in sorted(destination.rglob("*")):
        if path.is_file():
            path.chmod(0o644)
            size += path.stat().st_size
    print(f"{destination}: {size} bytes")
    if size > LIMIT:
        sys.exit(f"golden_copy: {size} bytes, at most {LIMIT} are allowed")


if __name__ == "__main__":
    main()
