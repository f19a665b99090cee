#!/usr/bin/env python3
"""Makes testdata/golden/gguf: what the reference libraries read from GGUF files.

    pip install torch==2.8.0 transformers==5.23.0 gguf==0.19.0 safetensors tokenizers
    python3 scripts/gguf_cases.py [DESTINATION]
    python3 scripts/gguf_cases.py --of FILE.gguf model/convert/testdata/smollm2.json

blocks.safetensors holds random blocks of each type and their values by gguf.quants, and random values as that rounds
them. Each further folder holds a small
random model as GGUF, logits and greedy continuations by transformers' own import of it or, where it has none or reads
less than the file says, by the model that the file was made of; and ids of texts by tokenizers. Vocabularies are those
of testdata/golden/tokenizers and model/tokenizer/testdata, cut short. The same seed and libraries give the same bytes.
--of takes a real model instead, and stores greedy continuations of a few prompts and the largest logits.
"""
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from gguf import MODEL_ARCH, GGUFWriter, TokenType, get_tensor_name_map, quants
from gguf.constants import GGML_QUANT_SIZES
from safetensors.numpy import save_file
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from transformers import (AutoModelForCausalLM, AutoTokenizer, Gemma2Config, Gemma2ForCausalLM, GraniteConfig,
                          GraniteForCausalLM, Olmo2Config, Olmo2ForCausalLM, Phi3Config, Phi3ForCausalLM, SmolLM3Config,
                          SmolLM3ForCausalLM)

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = 4
TYPES = [
    Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.IQ4_NL, Type.Q2_K,
    Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K
]
# Where the half-precision scales are in a block, and how large a scale makes values of about 0.05.
SCALES = {
    Type.Q8_0: ([0], 8e-4), Type.Q4_0: ([0], 1e-2), Type.Q4_1: ([0, 2], 8e-3), Type.Q5_0: ([0], 6e-3),
    Type.Q5_1: ([0, 2], 4e-3), Type.IQ4_NL: ([0], 8e-4), Type.Q2_K: ([80, 82], 4e-3), Type.Q3_K: ([108], 1.5e-3),
    Type.Q4_K: ([0, 2], 2e-4), Type.Q5_K: ([0, 2], 1e-4), Type.Q6_K: ([208], 5e-5)
}
TEXTS = [
    "", "the", " the cat", "don't  stop 12345 x2", "A\n\n  b\t\tc  \n", "1 22 333 4444", "I'LL we've  ", "ßé日本 😀",
    "<|endoftext|>x", "a<|endoftext|> b", "tail   ", "    def f(x):\n        return x+1\n", "<s>Lily</s> ran",
    "é\u0301 no"
]


def blocks(rng, kind, rows, width):
    """Random blocks [rows, bytes] of matrices with rows of width values."""
    values, size = GGML_QUANT_SIZES[kind]
    if kind in (Type.F32, Type.F16, Type.BF16):
        plain = (rng.standard_normal((rows, width)) * 0.05).astype(np.float32)
        return quants.quantize(plain, kind)
    out = rng.integers(0, 256, (rows * width // values, size), dtype=np.uint8)
    places, scale = SCALES[kind]
    for at in places:
        d = (scale * rng.uniform(0.5, 1.5, len(out)) * rng.choice([-1, 1], len(out))).astype(np.float16)
        out[:, at:at + 2] = d.view(np.uint8).reshape(-1, 2)
    return out.reshape(rows, -1)


def write_blocks(path):
    rng, tensors = np.random.default_rng(1), {}
    for kind in TYPES:
        values, size = GGML_QUANT_SIZES[kind]
        count = BLOCKS if values > 1 else 64
        b = np.ascontiguousarray(blocks(rng, kind, count, values)).view(np.uint8).reshape(count, size)
        tensors[f"{kind.name}/blocks"] = b
        tensors[f"{kind.name}/values"] = quants.dequantize(b, kind).reshape(count, values)
    plain = (np.random.default_rng(2).standard_normal((16, 32)) * np.logspace(-9, 3, 16)[:, None]).astype(np.float32)
    plain[0], plain[1, :2], plain[2] = 0, plain[1, :2] * [[-30, 30]], -np.abs(plain[2])
    tensors["plain"] = plain
    for kind in (Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0):
        tensors[f"{kind.name}/rounded"] = quants.quantize(plain, kind).view(np.uint8)
    save_file(tensors, path)


def byte_level(split, merges):
    """GPT-2's vocabulary, cut to a number of merges, with a control token at the end."""
    source = json.loads((ROOT / "testdata/golden/tokenizers/gpt2-512/tokenizer.json").read_text(encoding="utf-8"))
    by_id = sorted(source["model"]["vocab"], key=source["model"]["vocab"].get)
    kept = [m.split(" ") if isinstance(m, str) else m for m in source["model"]["merges"][:merges]]
    vocab = {p: i for i, p in enumerate(by_id[:256 + merges])}
    end = len(vocab)
    vocab["<|endoftext|>"] = end
    source["model"] |= {"vocab": vocab, "merges": kept, "ignore_merges": split == "llama-bpe"}
    source["added_tokens"] = [{
        "id": end, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
        "normalized": False, "special": True
    }]
    reference = Tokenizer.from_str(json.dumps(source))
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    common = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    of = lambda numbers: Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + numbers + "|" + common)
    reference.pre_tokenizer = {
        "gpt-2": lambda: gpt2,
        "smollm": lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2]),
        "llama-bpe": lambda: pre_tokenizers.Sequence([pre_tokenizers.Split(of(r"\p{N}{1,3}"), "isolated"), plain]),
        "qwen2": lambda: pre_tokenizers.Sequence([pre_tokenizers.Split(of(r"\p{N}"), "isolated"), plain]),
    }[split]()
    if split == "qwen2":
        reference.normalizer = normalizers.NFC()  # as its published tokenizer.json has it

    def describe(w):
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre(split)
        w.add_token_list(list(vocab))
        w.add_token_types([TokenType.NORMAL] * end + [TokenType.CONTROL])
        w.add_token_merges([" ".join(m) for m in kept])
        w.add_eos_token_id(end)
        w.add_bos_token_id(end)
        w.add_add_bos_token(split == "llama-bpe")

    return describe, reference, len(vocab)


def sentence_piece(prefix=True):
    source = json.loads((ROOT / "model/tokenizer/testdata/byte-fallback/tokenizer.json").read_text(encoding="utf-8"))
    vocab = source["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL] + [TokenType.BYTE] * 256
    kinds += [TokenType.NORMAL] * (len(tokens) - len(kinds))

    def describe(w):
        w.add_tokenizer_model("llama")
        w.add_token_list(tokens)
        w.add_token_types(kinds)
        # LLaMA's scores: the earlier a piece was learnt, the higher.
        w.add_token_scores([0.0] * 259 + [-float(i) for i in range(len(tokens) - 259)])
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        w.add_unk_token_id(0)
        if not prefix:
            w.add_add_space_prefix(False)

    reference = Tokenizer.from_str(json.dumps(source))
    if not prefix:
        reference.normalizer = normalizers.Replace(" ", "▁")
    return describe, reference, len(tokens)


def greedily(model, ids, n):
    """The n tokens that are likeliest one after the other; an end of text does not end them."""
    new, after, past = torch.tensor([ids]), [], None
    for _ in range(n):
        out = model(new, past_key_values=past, use_cache=True)
        past = out.past_key_values
        after.append(int(out.logits[0, -1].argmax()))
        new = torch.tensor([after[-1:]])
    return after


class Model:
    """Writes one model."""

    def __init__(self, folder, arch, tokens, seed, hidden=32, inner=256, layers=1, heads=4, kv=2, context=64):
        self.folder, self.rng = folder, np.random.default_rng(seed)
        folder.mkdir(parents=True, exist_ok=True)
        self.describe, self.reference, self.vocab = tokens
        self.hidden, self.inner, self.layers, self.heads, self.kv = hidden, inner, layers, heads, kv
        w = self.writer = GGUFWriter(folder / "model.gguf", arch)
        w.add_name(folder.name)
        w.add_context_length(context)
        w.add_embedding_length(hidden)
        w.add_block_count(layers)
        w.add_feed_forward_length(inner)
        w.add_head_count(heads)
        self.describe(w)

    def matrix(self, name, kind, rows, width):
        b = blocks(self.rng, kind, rows, width)
        self.writer.add_tensor(name + ".weight", b, raw_dtype=None if kind in (Type.F32, Type.F16) else kind)

    def vector(self, name, size, mean=0.0):
        self.writer.add_tensor(name, (mean + 0.1 * self.rng.standard_normal(size)).astype(np.float32))

    def finish(self, model=None):
        w = self.writer
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        torch.manual_seed(0)
        if model is None:
            model = AutoModelForCausalLM.from_pretrained(self.folder, gguf_file="model.gguf",
                                                         dtype=torch.float32).eval()
        tensors, greedy = {}, []
        for i in range(2):
            prompt = self.rng.integers(3, self.vocab - 1, 10 + 3 * i)
            ids = torch.tensor(prompt)[None]
            with torch.no_grad():
                tensors[f"{i}/ids"] = prompt.astype(np.int64)
                tensors[f"{i}/logits"] = model(ids).logits[0, -2:].float().numpy()
                after = greedily(model, prompt.tolist(), 12)
            greedy.append({"prompt": [int(x) for x in prompt], "continuation": after})
        save_file(tensors, self.folder / "logits.safetensors")
        texts = [{"text": t, "ids": self.reference.encode(t, add_special_tokens=False).ids} for t in TEXTS]
        (self.folder / "cases.json").write_text(
            json.dumps({"greedy": greedy, "texts": texts}, indent=0) + "\n", encoding="utf-8")


def rotary(m, kinds, bias=(), untied=None):
    """LLaMA and Qwen2. kinds: embedding, attention (4), gate and up, down by layer."""
    w, h = m.writer, m.hidden
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(h // m.heads)
    w.add_rope_freq_base(50000.0)
    w.add_head_count_kv(m.kv)  # without which this import leaves queries and keys permuted
    embedding, attention, up, down = kinds
    m.matrix("token_embd", embedding, m.vocab, h)
    m.vector("output_norm.weight", h, 1)
    if untied:
        m.matrix("output", untied, m.vocab, h)
    narrow = h * m.kv // m.heads
    for i in range(m.layers):
        for name, kind, rows in zip(("attn_q", "attn_k", "attn_v", "attn_output"), attention, (h, narrow, narrow, h)):
            m.matrix(f"blk.{i}.{name}", kind, rows, h)
            if name in bias:
                m.vector(f"blk.{i}.{name}.bias", rows)
        m.matrix(f"blk.{i}.ffn_gate", up[0], m.inner, h)
        m.matrix(f"blk.{i}.ffn_up", up[1], m.inner, h)
        m.matrix(f"blk.{i}.ffn_down", down[i], h, m.inner)
        m.vector(f"blk.{i}.attn_norm.weight", h, 1)
        m.vector(f"blk.{i}.ffn_norm.weight", h, 1)
    m.finish()


def today(m, width, heads, norms):
    """Qwen3 and Gemma 3: heads of a width of their own, norms of queries and keys, and other norms of blocks."""
    w, h = m.writer, m.hidden
    w.add_layer_norm_rms_eps(1e-6)
    w.add_key_length(width)
    w.add_value_length(width)
    w.add_head_count_kv(m.kv)
    m.matrix("token_embd", Type.BF16, m.vocab, h)
    m.vector("output_norm.weight", h, 1)
    for i in range(m.layers):
        for name, rows, columns in (("attn_q", heads * width, h), ("attn_k", m.kv * width, h),
                                    ("attn_v", m.kv * width, h), ("attn_output", h, heads * width),
                                    ("ffn_gate", m.inner, h), ("ffn_up", m.inner, h), ("ffn_down", h, m.inner)):
            m.matrix(f"blk.{i}.{name}", Type.Q8_0 if columns % 32 == 0 else Type.BF16, rows, columns)
        for name in norms:
            m.vector(f"blk.{i}.{name}.weight", h, 1)
        for name in ("attn_q_norm", "attn_k_norm"):
            m.vector(f"blk.{i}.{name}.weight", width, 1)
    m.finish()


def permuted(w, heads):
    """The rows of a head's rotary pairs side by side, as llama.cpp turns them."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def converted(folder, arch, tokens, cls, config, seed, turns=False, describe=lambda w: None):
    """A file of a model of transformers, named as llama.cpp's converter names its tensors. The model itself is the
    reference."""
    torch.manual_seed(seed)
    model = cls(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            noise = torch.randn(p.shape)
            p.copy_((p + 0.3 * noise if p.ndim == 1 else noise *
                     (0.6 if "embed" in key else 1.6 / p.shape[-1]**0.5)).bfloat16().float())
    c = model.config
    m = Model(folder, arch, tokens, seed, c.hidden_size, c.intermediate_size, c.num_hidden_layers,
              c.num_attention_heads, c.num_key_value_heads, c.max_position_embeddings)
    w = m.writer
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_head_count_kv(m.kv)
    w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    describe(w)
    names = get_tensor_name_map(MODEL_ARCH[arch.upper()], c.num_hidden_layers)
    for key, p in model.state_dict().items():
        if key == "lm_head.weight" and c.tie_word_embeddings:
            continue
        x = p.numpy()
        if turns and key.endswith(("q_proj.weight", "k_proj.weight")):
            x = permuted(x, m.heads if "q_proj" in key else m.kv)
        if arch.startswith("gemma") and "norm" in key:
            x = x + 1
        name = names.get_name(key, (".weight",))
        if x.ndim == 1:
            w.add_tensor(name, x)
        else:
            w.add_tensor(name, quants.quantize(x, Type.BF16), raw_dtype=Type.BF16)
    m.finish(model)


def gpt2(m):
    """The import takes 1024 positions and four times the width, whatever the file says."""
    w, h = m.writer, m.hidden
    w.add_layer_norm_eps(1e-5)
    m.matrix("token_embd", Type.Q8_0, m.vocab, h)
    m.matrix("position_embd", Type.Q4_0, 1024, h)
    for name in ("output_norm", *[f"blk.{i}.{n}" for i in range(m.layers) for n in ("attn_norm", "ffn_norm")]):
        m.vector(name + ".weight", h, 1)
        m.vector(name + ".bias", h)
    for i in range(m.layers):
        for name, kind, rows, width in (("attn_qkv", Type.Q5_0, 3 * h, h), ("attn_output", Type.Q4_1, h, h),
                                        ("ffn_up", Type.Q5_1, m.inner, h), ("ffn_down", Type.Q8_0, h, m.inner)):
            m.matrix(f"blk.{i}.{name}", kind, rows, width)
            m.vector(f"blk.{i}.{name}.bias", rows)
    m.finish()


PROMPTS = [
    "The capital of France is", "<|im_start|>user\nWhat is 12 + 30?<|im_end|>\n<|im_start|>assistant\n",
    "func main() {\n\tfmt.Println(", "// append appends the elements", "Once upon a time, in 1987, two  dogs don't"
]


def of(file, out):
    """Cases of a real model."""
    file = Path(file)
    torch.set_num_threads(2)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    cases = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            top = model(torch.tensor([ids])).logits[0, -1].topk(20)
            after = greedily(model, ids, 32)
        cases.append({
            "prompt": prompt, "ids": ids, "top": top.indices.tolist(), "logits": top.values.tolist(), "greedy": after,
            "text": tokenizer.decode(after)
        })
    Path(out).write_text(json.dumps(cases, indent=0) + "\n", encoding="utf-8")


def main():
    if sys.argv[1:2] == ["--of"]:
        return of(*sys.argv[2:])
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "testdata/golden/gguf"
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    write_blocks(out / "blocks.safetensors")
    rotary(Model(out / "llama-smollm", "llama", byte_level("smollm", 44), 2, layers=2),
           (Type.Q8_0, (Type.Q4_1, Type.Q4_1, Type.Q5_0, Type.Q4_0), (Type.Q4_1, Type.IQ4_NL), (Type.Q4_K, Type.Q6_K)))
    rotary(Model(out / "llama-spm", "llama", sentence_piece(), 3, hidden=16, inner=64, kv=4),
           (Type.F16, (Type.F16,) * 4, (Type.F16,) * 2, (Type.F16,)))
    rotary(Model(out / "llama-bpe", "llama", byte_level("llama-bpe", 44), 4, hidden=16, inner=64),
           (Type.BF16, (Type.BF16,) * 4, (Type.BF16,) * 2, (Type.BF16,)), untied=Type.BF16)
    rotary(Model(out / "qwen2", "qwen2", byte_level("qwen2", 44), 5),
           (Type.Q8_0, (Type.Q8_0,) * 4, (Type.Q4_0, Type.Q5_1), (Type.Q3_K,)), bias=("attn_q", "attn_k", "attn_v"))
    m = Model(out / "qwen3", "qwen3", byte_level("qwen2", 44), 7, inner=64, heads=2, kv=1)
    m.writer.add_rope_freq_base(1e6)
    today(m, 128, 2, ("attn_norm", "ffn_norm"))  # the width that this import takes, whatever the file says
    m = Model(out / "gemma3", "gemma3", sentence_piece(prefix=False), 8, hidden=16, inner=32, layers=7, heads=1, kv=1)
    m.writer.add_rope_freq_base(1e6)
    m.writer.add_sliding_window(64)
    today(m, 256, 1, ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"))
    plain = byte_level("llama-bpe", 44)
    common = dict(vocab_size=plain[2], bos_token_id=None, eos_token_id=plain[2] - 1, pad_token_id=None,
                  attn_implementation="eager")
    converted(
        out / "smollm3", "smollm3", plain, SmolLM3ForCausalLM,
        SmolLM3Config(hidden_size=40, intermediate_size=44, num_hidden_layers=5, num_attention_heads=4,
                      num_key_value_heads=2, max_position_embeddings=64, **common), 9, turns=True)
    converted(
        out / "olmo2", "olmo2", plain, Olmo2ForCausalLM,
        Olmo2Config(hidden_size=36, intermediate_size=50, num_hidden_layers=2, num_attention_heads=6,
                    num_key_value_heads=3, rms_norm_eps=1e-6, max_position_embeddings=64, tie_word_embeddings=False,
                    **common), 10)

    def granite(w):
        w.add_attention_scale(0.2)
        w.add_embedding_scale(6.0)
        w.add_residual_scale(0.35)
        w.add_logit_scale(1.7)

    converted(
        out / "granite", "granite", plain, GraniteForCausalLM,
        GraniteConfig(hidden_size=40, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4,
                      num_key_value_heads=2, embedding_multiplier=6.0, attention_multiplier=0.2,
                      residual_multiplier=0.35, logits_scaling=1.7, tie_word_embeddings=True,
                      max_position_embeddings=64, **common), 11, turns=True, describe=granite)

    def gemma2(w):
        w.add_key_length(20)
        w.add_value_length(20)
        w.add_sliding_window(64)
        w.add_attn_logit_softcapping(1.5)
        w.add_final_logit_softcapping(4.0)

    converted(
        out / "gemma2", "gemma2", plain, Gemma2ForCausalLM,
        Gemma2Config(hidden_size=36, intermediate_size=52, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=2, head_dim=20, query_pre_attn_scalar=20, sliding_window=64,
                     attn_logit_softcapping=1.5, final_logit_softcapping=4.0, max_position_embeddings=64, **common), 12,
        describe=gemma2)
    converted(
        out / "phi3", "phi3", plain, Phi3ForCausalLM,
        Phi3Config(hidden_size=40, intermediate_size=36, num_hidden_layers=2, num_attention_heads=5,
                   num_key_value_heads=5, tie_word_embeddings=False, max_position_embeddings=64,
                   original_max_position_embeddings=64, **common), 13)
    short, long = [1 + i / 7 for i in range(3)], [4.0 + i for i in range(3)]

    def phi4(w):
        w.add_rope_dimension_count(6)
        w.add_rope_scaling_orig_ctx_len(64)
        w.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(512 / 64) / math.log(64)))
        w.add_sliding_window(300)
        w.add_tensor("rope_factors_long.weight", np.array(long, dtype=np.float32))
        w.add_tensor("rope_factors_short.weight", np.array(short, dtype=np.float32))

    converted(
        out / "phi4-mini", "phi3", plain, Phi3ForCausalLM,
        Phi3Config(
            hidden_size=48, intermediate_size=36, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
            tie_word_embeddings=True, partial_rotary_factor=0.75, original_max_position_embeddings=64,
            sliding_window=300, max_position_embeddings=512,
            rope_scaling={"rope_type": "longrope", "type": "longrope", "short_factor": short,
                          "long_factor": long}, **common), 14, describe=phi4)
    gpt2(Model(out / "gpt2", "gpt2", byte_level("gpt-2", 44), 6, inner=128, context=1024))
    print(out, sum(p.stat().st_size for p in out.rglob("*") if p.is_file()), "bytes")


main()
