#!/usr/bin/env python3
"""Makes testdata/golden, the repository's own part of the reference data.

    python3 scripts/golden_copy.py SOURCE [DESTINATION]

SOURCE is the whole collection. What is taken: one of each kind that the tests understand, within 8 MB, as tensors, ids
and figures. What is left out: further checkpoints, adapters and cases of one kind, weights that must be refused before
they are read, the largest point clouds, and every case whose text is prose or source code from elsewhere. Lists and
counts inside the files are cut to what is there, so the tests walk the copy as they walk the whole. The same source
gives the same bytes. The folders downstream, dpo-losses, dpo-texts, gguf, grpo, masked, selection, sentence and
unigram-scores, which other scripts make, stay as they are.
"""
import json
import shutil
import struct
import sys
from pathlib import Path

LIMIT = 8_000_000  # bytes, all files together
LARGEST_CLOUD = 200_000  # bytes of a point cloud of the Fréchet distance
KEPT_CLOUDS = {"d384-rank-deficient"}  # the size and the trouble of real embeddings
LONGEST_LINE = 20_000  # bytes of one tokenizer case

# Grouped queries with bfloat16 weights of their own head, and biases with a tied head, stand for LLaMA's kind.
MODELS = ("gpt2-tiny", "llama-tiny-bf16", "qwen2-tiny")
# Of the cases of a model: whole contexts, other positions, padding on one side, branches.
MODEL_CASES = {"single", "rightpad", "offset", "long", "branches"}
# Families whose training is traced.
FAMILIES = ("gpt2",)
TOKENIZERS = {"gpt2-512": 2, "gpt2-4096": 2, "llama3-4096": 1}  # every how many-th case
# Kinds of tokenizer cases whose text was put together from atoms or drawn at random.
SYNTHETIC = {
    "empty", "words", "case-trap", "space", "digits", "emoji", "marks", "cjk", "rtl", "control", "punct", "special",
    "broken-special", "space-between", "long", "space-mix", "word-space", "fuzz-atoms", "fuzz-unicode", "fuzz-ascii",
    "fuzz-latin1", "orphan",
}
# Kinds of texts to embed that were put together from a list of phrases or of letters.
SYNTHETIC_TEXTS = {"empty", "space", "one", "long-word", "sentence"}


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


def select_tensors(source, destination, keep, rows=None):
    """Copies the tensors of a safetensors file whose names keep accepts, in their order; of each the given rows."""
    raw = source.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    kept, data = {}, b""
    for name, tensor in sorted(header.items(), key=lambda item: item[1].get("data_offsets", [-1])[0]):
        if name == "__metadata__" or keep(name):
            kept[name] = tensor
            if name != "__metadata__":
                start, end = tensor["data_offsets"]
                part = raw[8 + length + start:8 + length + end]
                if rows is not None:
                    size = len(part) // tensor["shape"][0]
                    part = b"".join(part[i * size:(i + 1) * size] for i in rows)
                    tensor["shape"][0] = len(rows)
                tensor["data_offsets"] = [len(data), len(data) + len(part)]
                data += part
    text = json.dumps(kept, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    destination.parent.mkdir(parents=True, exist_ok=True)
    destination.write_bytes(struct.pack("<Q", len(text)) + text + data)


def models(source, destination):
    index = read(source / "index.json")
    index["models"] = [m for m in index["models"] if m["folder"] in MODELS]
    write(destination / "index.json", index)
    for model in index["models"]:
        folder, out = source / model["folder"], destination / model["folder"]
        for path in sorted(folder.iterdir()):
            if not path.name.startswith("cases."):
                copy(path, out / path.name)
        cases = read(folder / "cases.json")
        cases["cases"] = [c for c in cases["cases"] if c["name"] in MODEL_CASES]
        write(out / "cases.json", cases)
        select_tensors(folder / "cases.safetensors", out / "cases.safetensors",
                       lambda name: name.split("/")[0] in MODEL_CASES and "/hidden_" not in name)


def embedding(source, destination):
    folder, out = source / "bert-tiny", destination / "bert-tiny"
    for path in sorted(folder.iterdir()):
        if path.name not in ("texts.jsonl", "embeddings.safetensors", "meta.json"):
            copy(path, out / path.name)
    lines = (folder / "texts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    texts = [json.loads(line) for line in lines]
    rows = [
        i for i, t in enumerate(texts)
        if t["kind"] in SYNTHETIC_TEXTS or t["kind"] == "long" and all(len(w) == 1 for w in t["text"].split())
    ]
    (out / "texts.jsonl").write_text("".join(lines[i] for i in rows), encoding="utf-8")
    select_tensors(folder / "embeddings.safetensors", out / "embeddings.safetensors", lambda name: name == "embeddings",
                   rows)
    meta = read(folder / "meta.json")
    meta["texts"] = len(rows)
    write(out / "meta.json", meta)


def peft(source, destination):
    index = read(source / "index.json")
    # Adapters that must be refused are refused before their model is looked at.
    index["adapters"] = [a for a in index["adapters"] if a["base"] in MODELS or a["refused_because"]]
    write(destination / "index.json", index)
    for adapter in index["adapters"]:
        only = ("adapter_config.json",) if adapter["refused_because"] else None
        for path in sorted((source / adapter["name"]).iterdir()):
            if only is None or path.name in only:
                copy(path, destination / adapter["name"] / path.name)


def scoring(source, destination):
    for path in sorted(source.glob("d*")):
        copy(path, destination / path.name)


def tokenizers(source, destination):
    copy(source / "unicode.json", destination / "unicode.json")
    for name, step in TOKENIZERS.items():
        folder, out = source / name, destination / name
        for path in sorted(folder.iterdir()):
            if path.name not in ("cases.jsonl", "meta.json"):
                copy(path, out / path.name)
        lines = (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        lines = [line for line in lines if json.loads(line)["kind"] in SYNTHETIC and len(line) <= LONGEST_LINE][::step]
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
    committed = Path(__file__).resolve().parent.parent / "testdata" / "golden"
    destination = Path(sys.argv[2]) if len(sys.argv) == 3 else committed
    for part in (accountant, dpo, embedding, fid, models, peft, scoring, tokenizers, train):
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
