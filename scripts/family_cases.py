#!/usr/bin/env python3
"""Makes testdata/golden/families: small random models of today's families, and what transformers computes with them.

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python3 scripts/family_cases.py [DESTINATION]

Each folder holds config.json, the weights, and cases: token ids with padding on either side and shifted positions, the
logits and log-probabilities of the tokens, greedy continuations whose every choice is clear, and of the gradients of a
loss their norms and products with a fixed vector. "-hub" folders have their config.json in the layout of published
models (transformers 4). The same seed and libraries give the same bytes.
"""
import json
import random
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import (Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GPTNeoXConfig,
                          GPTNeoXForCausalLM, GraniteConfig, GraniteForCausalLM, Olmo2Config, Olmo2ForCausalLM, OPTConfig,
                          OPTForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen3Config, Qwen3ForCausalLM, SmolLM3Config,
                          SmolLM3ForCausalLM)

ROOT = Path(__file__).resolve().parent.parent
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

COMMON = dict(vocab_size=151, max_position_embeddings=96, bos_token_id=None, eos_token_id=150, pad_token_id=None,
              attn_implementation="eager")
TINY = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, **COMMON)
SHORT = [1 + i / 7 for i in range(3)]
LONG = [4 + i for i in range(3)]
FAMILIES = {
    "qwen3": (Qwen3ForCausalLM,
              Qwen3Config(hidden_size=36, intermediate_size=52, num_hidden_layers=3, num_attention_heads=6,
                          num_key_value_heads=2, head_dim=10, tie_word_embeddings=True, rope_theta=1e6, **COMMON)),
    "smollm3": (SmolLM3ForCausalLM,
                SmolLM3Config(hidden_size=40, intermediate_size=44, num_hidden_layers=5, num_attention_heads=4,
                              num_key_value_heads=1, no_rope_layers=[1, 0, 1, 1, 0], **COMMON)),
    "olmo2": (Olmo2ForCausalLM,
              Olmo2Config(hidden_size=36, intermediate_size=50, num_hidden_layers=3, num_attention_heads=6,
                          num_key_value_heads=3, rms_norm_eps=1e-6, rope_theta=5e5, tie_word_embeddings=False,
                          **COMMON)),
    "phi3": (Phi3ForCausalLM,
             Phi3Config(hidden_size=40, intermediate_size=36, num_hidden_layers=3, num_attention_heads=5,
                        num_key_value_heads=5, tie_word_embeddings=True, **COMMON)),
    "phi4-mini": (Phi3ForCausalLM,
                  Phi3Config(hidden_size=48, intermediate_size=36, num_hidden_layers=3, num_attention_heads=6,
                             num_key_value_heads=2, tie_word_embeddings=True, partial_rotary_factor=0.75,
                             original_max_position_embeddings=64, sliding_window=300,
                             rope_scaling={"rope_type": "longrope", "type": "longrope", "short_factor": SHORT,
                                           "long_factor": LONG}, **{**COMMON, "max_position_embeddings": 512})),
    "gemma3": (Gemma3ForCausalLM,
               Gemma3TextConfig(hidden_size=36, intermediate_size=52, num_hidden_layers=7, num_attention_heads=4,
                                num_key_value_heads=1, head_dim=18, query_pre_attn_scalar=20, sliding_window=64,
                                **COMMON)),
    "gemma2": (Gemma2ForCausalLM,
               Gemma2Config(hidden_size=36, intermediate_size=52, num_hidden_layers=3, num_attention_heads=4,
                            num_key_value_heads=2, head_dim=18, query_pre_attn_scalar=20, sliding_window=96,
                            attn_logit_softcapping=1.5, final_logit_softcapping=4.0, **COMMON)),
    "granite": (GraniteForCausalLM,
                GraniteConfig(hidden_size=40, intermediate_size=44, num_hidden_layers=3, num_attention_heads=4,
                              num_key_value_heads=2, embedding_multiplier=6.0, attention_multiplier=0.2,
                              residual_multiplier=0.35, logits_scaling=1.7, tie_word_embeddings=True, **COMMON)),
    "pythia": (GPTNeoXForCausalLM, GPTNeoXConfig(intermediate_size=36, **TINY)),
    "neox-sequential": (GPTNeoXForCausalLM,
                        GPTNeoXConfig(intermediate_size=36, use_parallel_residual=False, attention_bias=False,
                                      rotary_pct=1.0, rotary_emb_base=500, tie_word_embeddings=True,
                                      hidden_act="gelu_new", **TINY)),
    "opt": (OPTForCausalLM, OPTConfig(ffn_dim=36, **TINY)),
    "opt-350m": (OPTForCausalLM,
                 OPTConfig(ffn_dim=36, do_layer_norm_before=False, word_embed_proj_dim=20, **TINY)),
    "opt-bare": (OPTForCausalLM,
                 OPTConfig(ffn_dim=36, enable_bias=False, layer_norm_elementwise_affine=False,
                           _remove_final_layer_norm=True, activation_function="gelu", tie_word_embeddings=False,
                           **TINY)),
}
END = 150


def make(name):
    cls, config = FAMILIES[name]
    torch.manual_seed(1)
    model = cls(config).eval()
    g = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for key, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=g)
            if p.ndim == 1:  # norms, which are one (in Gemma zero) at first
                p.add_(0.3 * noise)
            else:
                p.copy_((0.6 if "embed" in key else 1.6 / p.shape[-1] ** 0.5) * noise)
    return model


def hub(config):
    """The layout before version 5 of transformers."""
    d = json.loads(json.dumps(config))
    rope = d.pop("rope_parameters", {})
    if d["model_type"] == "opt":
        d |= {"activation_dropout": 0.0, "prefix": "</s>"}
    elif d["model_type"] == "gpt_neox":
        d |= {"rotary_emb_base": rope["rope_theta"], "rotary_pct": rope["partial_rotary_factor"]}
    else:
        rotary(d, rope)
    d["torch_dtype"] = d.pop("dtype", "float32")
    d["transformers_version"] = "4.45.0"
    return d


def rotary(d, rope):
    if "sliding_attention" in rope:
        d["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
        d["sliding_window_pattern"] = 6
        d.pop("layer_types")
    d["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        d["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    rope.pop("original_max_position_embeddings", None)
    kind = rope.pop("rope_type")
    d["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}


def positions(mask):
    return (mask.cumsum(1) - 1).clamp(min=0)


def forward(model, ids, mask, pos):
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=mask, position_ids=pos, use_cache=False).logits.float()


def gradients(model, ids):
    loss = model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids]), use_cache=False).loss
    loss.backward()
    parts = {}
    for key, p in model.named_parameters():
        g = p.grad.double().flatten()
        parts[key] = [float(g.norm()), float(g @ torch.sin(torch.arange(len(g), dtype=torch.float64)))]
    return {"row": ids, "loss": loss.item(), "parts": parts}


def write(folder, name):
    model, rng = make(name), random.Random(name)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tensors, listed = {}, []

    def case(label, mask, start=None):
        ids = torch.tensor([[rng.randrange(END) for _ in row] for row in mask.tolist()]).masked_fill(mask == 0, END)
        pos = positions(mask)
        if start is not None:
            pos = torch.arange(start, start + mask.shape[1])[None].expand(mask.shape[0], -1)
        logits = forward(model, ids, mask, pos)
        logp = torch.log_softmax(logits, -1)
        lp = torch.zeros(ids.shape)
        lp[:, 1:] = logp[:, :-1].gather(2, ids[:, 1:, None])[:, :, 0]
        tensors.update({
            f"{label}/input_ids": ids, f"{label}/attention_mask": mask, f"{label}/position_ids": pos.contiguous(),
            f"{label}/logits": logits, f"{label}/logprobs": lp
        })
        listed.append({"name": label, "shape": list(ids.shape)})

    case("single", torch.ones(1, 23, dtype=torch.int64))
    left, right = torch.ones(3, 9, dtype=torch.int64), torch.ones(2, 11, dtype=torch.int64)
    left[1, :4], left[2, :8], right[1, 5:] = 0, 0, 0
    case("leftpad", left)
    case("rightpad", right)
    case("offset", torch.ones(1, 8, dtype=torch.int64), start=17)

    found = []
    while len(found) < 6:
        prompt = [rng.randrange(END) for _ in range(rng.randint(1, 12))]
        ids, clear = list(prompt), True
        for _ in range(16):
            x = torch.tensor([ids])
            top = forward(model, x, torch.ones_like(x), torch.arange(len(ids))[None])[0, -1].topk(2)
            clear &= float(top.values[0] - top.values[1]) > 1e-2
            ids.append(int(top.indices[0]))
        if clear and END not in ids:
            found.append({"prompt": prompt, "continuation": ids[len(prompt):]})
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "cases.safetensors")
    content = {"cases": listed, "greedy": found, "gradients": gradients(model, found[0]["prompt"] + found[0]["continuation"])}
    (folder / "cases.json").write_text(json.dumps(content) + "\n")


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "testdata" / "golden" / "families"
    index = []
    for name in FAMILIES:
        write(root / name, name)
        index.append({"folder": name, "cases": name})
        config = json.loads((root / name / "config.json").read_text())
        other = root / f"{name}-hub"
        other.mkdir(exist_ok=True)
        (other / "config.json").write_text(json.dumps(hub(config), indent=2) + "\n")
        link = other / "model.safetensors"
        link.unlink(missing_ok=True)
        link.symlink_to(f"../{name}/model.safetensors")
        index.append({"folder": other.name, "cases": name})
    (root / "index.json").write_text(json.dumps({"models": index}, indent=2) + "\n")


if __name__ == "__main__":
    main()
