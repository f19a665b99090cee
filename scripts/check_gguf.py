#!/usr/bin/env python3
"""Has llama.cpp read the files of popri model export, and compares tokens, greedy continuations and perplexity with popri.

    pip install llama-cpp-python==0.3.36 numpy
    python3 scripts/check_gguf.py [FOLDER...]

The Go test TestForLlamaCpp of package convert exports the golden models and the model folders that are named. Ids of texts
and, in float32, greedy continuations must be equal, and the perplexity of a file in float32 must be popri's; for
other types it is printed. A model of random weights may have two tokens with nearly the same logit: a continuation may leave
popri's where llama.cpp's two largest logits differ by less than TIE of the largest. Exits with 1 if anything else differs.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from llama_cpp import Llama

TIE = 2e-3  # llama.cpp rounds the inputs of attention to half precision


def losses(model, chunk):
    model.reset()
    model.eval(chunk)
    logits = model.scores[:len(chunk) - 1].astype(np.float64)
    top = logits.max(axis=1)
    return np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - logits[np.arange(len(chunk) - 1), chunk[1:]]


def follows(model, prompt, after):
    """How many tokens of a continuation are llama.cpp's, and whether a near tie ended that."""
    model.reset()
    model.eval(prompt + after)
    for i, token in enumerate(after):
        logits = model.scores[len(prompt) - 1 + i]
        if logits.argmax() != token:
            return i, logits.max() - logits[token] < TIE * np.abs(logits).max()
    return len(after), True


def check(folder):
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    ok, figures = True, [f"popri {np.exp(cases['loss']):.4f}"]
    for kind in ("f32", "f16", "q8_0", "q4_0"):
        path = folder / f"{kind}.gguf"
        model = Llama(str(path), n_ctx=len(cases["chunks"][0]), logits_all=True, verbose=False,
                      # it makes contexts at least 256 tokens, for which Phi-4-mini's small case has other frequencies
                      kv_overrides={"phi3.rope.scaling.original_context_length": 256},
                      n_threads=1 if path.stat().st_size < 1e7 else os.cpu_count())
        loss = np.concatenate([losses(model, c) for c in cases["chunks"]]).mean()
        whole = [follows(model, p, a) for p, a in zip(cases["prompts"], cases["next"])]
        same = sum(n == len(a) for (n, _), a in zip(whole, cases["next"]))
        figures.append(f"{kind} {np.exp(loss):.4f} ({path.stat().st_size / 1e6:.1f} MB, {same} of {len(whole)} greedy equal)")
        if kind == "f32":
            ok &= abs(loss - cases["loss"]) < 1e-3 and all(tie for _, tie in whole)
    other = [c["text"] for c in cases["texts"] if model.tokenize(c["text"].encode(), add_bos=False, special=True) != c["ids"]]
    print(f"{'ok  ' if ok and not other else 'FAIL'} {folder.name}: {len(cases['texts'])} texts, {len(other)} with other tokens"
          f" {other[:3] or ''}\n       perplexity: {', '.join(figures)}", flush=True)
    return ok and not other


def main():
    repository = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as temporary:
        models = os.pathsep.join(str(Path(f).resolve()) for f in sys.argv[1:])
        subprocess.run(["go", "test", "-count=1", "-run", "^TestForLlamaCpp$", "./model/convert"], cwd=repository, check=True,
                       env={**os.environ, "POPRI_GGUF_OUT": temporary, "POPRI_GGUF_MODELS": models})
        results = [check(f) for f in sorted(Path(temporary).iterdir())]
        sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()
