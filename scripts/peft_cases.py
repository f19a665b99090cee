#!/usr/bin/env python3
"""Makes testdata/golden/peft-train: losses and gradients of adapters with DoRA and dropout, by PEFT's own layers.

    pip install torch transformers==5.23.0 peft==0.21.2
    python3 scripts/peft_cases.py [DESTINATION]

Each folder has a random adapter for a model of testdata/golden/models or families, and cases.safetensors: token ids, the logits,
the mean next-token loss and its gradients. Dropout's masks are those that popri draws for rows with the seeds 0, 1, …:
a module with the known mask stands in for PEFT's torch.nn.Dropout. The same seed and libraries give the same bytes.
"""
import json
import shutil
import sys
from pathlib import Path

import peft
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parent.parent
CASES = {  # name: model, settings of LoraConfig
    "gpt2-dora": ("gpt2-tiny", {"use_dora": True}),
    "gpt2-dropout": ("gpt2-tiny", {"lora_dropout": 0.25}),
    "qwen2-dora-dropout": ("qwen2-tiny", {"use_dora": True, "lora_dropout": 0.25, "use_rslora": True}),
    "neox": ("../families/pythia", {}),
    "opt": ("../families/opt-350m", {}),
}
TARGETS = {
    "gpt2-tiny": ["c_attn"], "qwen2-tiny": ["q_proj", "v_proj", "o_proj", "down_proj"],
    "../families/pythia": ["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"],
    "../families/opt-350m": ["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"]
}
WORD, WIDE = (1 << 64) - 1, (1 << 128) - 1


def pcg(seed1, seed2):
    """The first number of Go's rand.NewPCG: PCG-DXSM with 128 bits."""
    state = (seed1 << 64 | seed2) * (2549297995355413924 << 64 | 4865540595714422341)
    state = (state + (6364136223846793005 << 64 | 1442695040888963407)) & WIDE
    hi, lo = state >> 64, state & WORD
    hi ^= hi >> 32
    hi = hi * 0xda942042e4dd58b5 & WORD
    hi ^= hi >> 48
    return hi * (lo | 1) & WORD


def word(key, row, column):
    """The number of 32 bits by which dropout decides over an element (model/tensor/drop.h)."""
    z = (key + (row + 1) * 0x9e3779b97f4a7c15) & WORD
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & WORD
    z = (z ^ z >> 27) * 0x94d049bb133111eb & WORD
    z ^= z >> 31
    x = (column + z) & 0xffffffff
    x = ((x ^ x >> 16) * 0x7feb352d + (z >> 32)) & 0xffffffff
    x = (x ^ x >> 15) * 0x846ca68b & 0xffffffff
    return x ^ x >> 16


def fnv(text):
    h = 0xcbf29ce484222325
    for b in text.encode():
        h = (h ^ b) * 0x100000001b3 & WORD
    return h


class Mask(torch.nn.Module):
    """Dropout with popri's masks for a projection."""

    def __init__(self, name, share):
        super().__init__()
        self.name, self.share = name, share

    def forward(self, x):
        batch, tokens, width = x.shape
        keys, limit = [pcg(seed, fnv(self.name)) for seed in range(batch)], round(self.share * 2**32)
        kept = [[[float(word(k, t, i) >= limit) for i in range(width)] for t in range(tokens)] for k in keys]
        return x * torch.tensor(kept) / (1 - self.share)


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "testdata/golden/peft-train")
    index = []
    for name, (base, settings) in CASES.items():
        torch.manual_seed(len(index))
        model = AutoModelForCausalLM.from_pretrained(ROOT / "testdata/golden/models" / base, dtype=torch.float32).eval()
        model.name_or_path = base
        config = peft.LoraConfig(r=3, lora_alpha=6, target_modules=TARGETS[base], task_type="CAUSAL_LM", **settings)
        model = peft.get_peft_model(model, config)
        model.eval()  # of what else drops, nothing does
        trained = {k: p for k, p in model.named_parameters() if p.requires_grad}
        with torch.no_grad():
            for k, p in trained.items():
                if "lora_B" in k:
                    p.normal_(std=0.2)
                elif "magnitude" in k:
                    p.mul_(torch.exp(0.1 * torch.randn_like(p)))
        folder = out / name
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        stored = load_file(folder / "adapter_model.safetensors")
        ids = torch.randint(0, model.config.vocab_size, (2, 7))
        content = {"ids": ids}
        with torch.no_grad():
            content["logits"] = model(ids).logits.contiguous()
        if config.lora_dropout:
            for path, layer in model.named_modules():
                if isinstance(layer, peft.tuners.lora.LoraLayer):
                    layer.training = True  # of DoRA, PEFT drops nothing otherwise
                    layer.lora_dropout["default"] = Mask(path.removeprefix("base_model.model."), config.lora_dropout)
        logits = model(ids).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        content["loss"] = loss.detach()[None]
        for k, p in trained.items():
            key = k.replace(".default", "")
            key = key.removesuffix(".weight") if "magnitude" in key else key
            assert torch.equal(stored[key], p), key
            content["grad " + key] = p.grad.contiguous()
        save_file(content, folder / "cases.safetensors")
        index.append({"name": name, "base": base})
    (out / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


main()
