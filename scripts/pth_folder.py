#!/usr/bin/env python3
"""Makes a Hugging Face folder, which popri reads, of a PyTorch checkpoint (.pth, .pt, .bin).

    python3 scripts/pth_folder.py CHECKPOINT --like FOLDER --out FOLDER

FOLDER of --like has the config.json and the tokenizer of the same model, such as distilgpt2. CHECKPOINT is a state
dictionary, or a dictionary that holds one ("model_state_dict", "state_dict", "model"); prefixes "module." and
"_orig_mod." are taken off. Only tensors are read from it (weights_only), because a pickle may run code: a checkpoint
that holds a whole module must be saved again, where it was made, as torch.save(model.state_dict(), …).
Needs torch and safetensors.
"""
import argparse
import pathlib
import shutil
import sys

import torch
from safetensors.torch import save_file

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("checkpoint", type=pathlib.Path)
p.add_argument("--like", type=pathlib.Path, required=True)
p.add_argument("--out", type=pathlib.Path, required=True)
a = p.parse_args()

if not (a.like / "config.json").is_file():
    sys.exit(f"{a.like}: has no config.json")
try:
    state = torch.load(a.checkpoint, map_location="cpu", weights_only=True)
except Exception as e:  # torch raises many kinds
    sys.exit(f"{a.checkpoint}: is not a dictionary of tensors alone: {e}")
for key in ("model_state_dict", "state_dict", "model"):
    if isinstance(state, dict) and isinstance(state.get(key), dict):
        state = state[key]
        break
if not isinstance(state, dict):
    sys.exit(f"{a.checkpoint}: holds a {type(state).__name__}, not a state dictionary")
tensors = {}
for name, value in state.items():
    for prefix in ("module.", "_orig_mod."):
        name = name.removeprefix(prefix)
    if not isinstance(value, torch.Tensor):
        sys.exit(f"{a.checkpoint}: {name} is a {type(value).__name__}, not a tensor")
    tensors[name] = value.contiguous().clone()
head, embedding = tensors.get("lm_head.weight"), tensors.get("transformer.wte.weight")
if head is not None and embedding is not None and torch.equal(head, embedding):
    del tensors["lm_head.weight"]  # tied
a.out.mkdir(parents=True, exist_ok=True)
save_file(tensors, a.out / "model.safetensors", metadata={"format": "pt"})
for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
             "special_tokens_map.json"):
    if (a.like / name).is_file():
        shutil.copyfile(a.like / name, a.out / name)
print(f"{a.out}: {len(tensors)} tensors, {sum(t.numel() for t in tensors.values()):,} weights")
