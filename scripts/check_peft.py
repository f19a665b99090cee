#!/usr/bin/env python3
"""Has the real peft load popri's adapters, for every architecture and kind of adapter, and compares the logits.

    pip install torch transformers peft
    python3 scripts/check_peft.py [FOLDER]

The Go tests TestExport of package lora and TestExportTrained of package run/standalone, whose adapter preference
training made, write models, adapters and logits into FOLDER (default: a temporary one). Logits with the adapter off,
on and merged, computed by transformers and peft, may differ from popri's by TOLERANCE of the largest logit at most; so
may logits of AutoPeftModelForCausalLM, which finds the model by itself, where an adapter names it. Exits with 1 if any
does, or if there was nothing to compare.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from peft import AutoPeftModelForCausalLM, PeftConfig, PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

TOLERANCE = 2e-5  # float32: other orders of adding up


def check(root):
    failed = checked = 0
    for model_dir in sorted(root.glob("*/model")):
        for adapter in sorted(p.parent for p in model_dir.parent.glob("*/adapter_config.json")):
            base = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
            want = load_file(adapter / "logits.safetensors")
            got = {}
            with torch.no_grad():
                got["off"] = base(want["ids"]).logits
                tuned = PeftModel.from_pretrained(base, adapter).eval()
                got["on"] = tuned(want["ids"]).logits
                merged = tuned.merge_and_unload()(want["ids"]).logits
                if PeftConfig.from_pretrained(adapter).base_model_name_or_path:
                    auto = AutoPeftModelForCausalLM.from_pretrained(adapter, dtype=torch.float32).eval()
                    got["auto"] = auto(want["ids"]).logits
            want["auto"] = want["on"]
            distance = {k: (got[k] - want[k]).abs().max().item() for k in got}
            distance["merged"] = (merged - want["on"]).abs().max().item()
            largest = want["on"].abs().max().item()
            ok = all(d <= TOLERANCE * largest for d in distance.values())
            checked += 1
            failed += not ok
            figures = ", ".join(f"{k} {d:.1e}" for k, d in distance.items())
            print(f"{'ok  ' if ok else 'FAIL'} {adapter.relative_to(root)}: {figures} (largest logit {largest:.1f})")
    print(f"{checked} adapters, {failed} differ")
    return checked > 0 and failed == 0


def main():
    if len(sys.argv) > 2:
        sys.exit(__doc__.strip())
    repository = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(sys.argv[1] if len(sys.argv) == 2 else temporary).resolve()
        subprocess.run(["go", "test", "-count=1", "-run", "^TestExport", "./lora", "./run/standalone"], cwd=repository,
                       check=True, env={**os.environ, "POPRI_PEFT_OUT": str(root)})
        sys.exit(0 if check(root) else 1)


if __name__ == "__main__":
    main()
