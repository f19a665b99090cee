#!/usr/bin/env python3
"""Times popri and what one would use otherwise, turn by turn in one run, and prints a table of medians.

  python3 -m venv V && V/bin/pip install torch==2.8.0 transformers trl peft
  make build && V/bin/python scripts/bench_table.py --work /tmp/work --rounds 3
  V/bin/python scripts/bench_table.py --work /tmp/work --arch distilgpt2 --stage finetune
  V/bin/python scripts/bench_table.py --work /tmp/work --arch SMOLLM2 --stage finetune,evaluate --batch 32
  V/bin/python scripts/bench_table.py --arch cosine/standardize,mean/full --stage score --dtype float64
  V/bin/python scripts/bench_table.py --arch minilm --stage embed --minilm DIR --texts texts.jsonl

SMOLLM2 is a model's folder, such as ~/.cache/popri/models/smollm2-*. The scores are for 18000 samples, by 133000
clients of popri and 200 of the peer. The last one also needs sentence-transformers, a folder of all-MiniLM-L6-v2 and
lines {"text": ...}.
"""
import argparse, json, os, statistics, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--work", default="work", help="folder for the models and the work; made where it is missing")
p.add_argument("--popri", default=os.path.join(HERE, "..", "build", "popri"))
p.add_argument("--arch", default="gpt2,llama")
p.add_argument("--stage", default="generate,dpo")
p.add_argument("--dtype", default="float32,bfloat16")
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--threads", type=int, default=2)
p.add_argument("--k", type=int, default=40, help="prompts or pairs of popri")
p.add_argument("--steps", type=int, default=2, help="updates of finetune")
p.add_argument("--batch", type=int, default=160, help="rows of an update of finetune")
p.add_argument("--peer-k", type=int, default=0,
               help="prompts or pairs of the peer, whose rate does not depend on it; 0: as many")
p.add_argument("--peer-batch", type=int, default=0,
               help="prompts or pairs that the peer computes at once; 0: 8 prompts, or 4 pairs")
p.add_argument("--minilm", help="folder of the sentence encoder, of embed")
p.add_argument("--texts", help="file of the texts, of embed")
p.add_argument("--n", type=int, default=0, help="texts of embed (2000), or rows of evaluate (500)")
p.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
p.add_argument("--peer", help="of generate: transformers (the default), vllm, or llama.cpp (scripts/llama_cpp.sh); "
               "of dpo: trl (the default), liger, TRL with Liger's chunked loss (liger-kernel), or padding-free, TRL "
               "with packed rows (flash-attn)")
p.add_argument("--tune", action="store_true", help="raise vLLM's limits until its rate no longer grows")
p.add_argument("--python", default=sys.executable, help="python of the peer")
a = p.parse_args()


def run(command):
    """The last JSON line of a command, and its peak memory."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}")
    line = [l for l in text.splitlines() if l.startswith("{")][-1]
    return json.loads(line), usage.ru_maxrss / 2**20


def tuned(command):
    """The limits of vLLM's scheduler with which it is fastest: twice as many as long as that gains 3 %."""
    best, rate = [], 0
    for seqs in (1024, 2048, 4096, 8192):
        limits = ["--seqs", str(seqs), "--batched-tokens", str(16 * seqs)]
        r, _ = run(command + limits)
        print(f"vLLM with {' '.join(limits)}: {r['rate']:.4g} {r['unit']}/s", file=sys.stderr)
        if r["rate"] < 1.03 * rate:
            break
        best, rate = limits, r["rate"]
    return best


peers = os.path.join(HERE, "peers.py")
print(
    "| work | type | peer | popri | ratio | peer GiB | popri GiB | popri GFLOP/s |\n|---|---|---|---|---|---|---|---|")
for arch in a.arch.split(","):
    arch, folder = os.path.basename(arch.rstrip("/")), arch if os.path.isdir(arch) else ""
    model = os.path.join(a.work, arch)
    if a.stage not in ("embed", "score") and not os.path.exists(os.path.join(model, "prompts.json")):
        subprocess.run([a.python, peers, "work", "--arch", arch, "--from", folder, "--k", str(max(40, a.k, a.peer_k)),
                        "--out", model], check=True, stdout=sys.stderr)
    for stage in a.stage.split(","):
        for dtype in a.dtype.split(","):
            options = ["--dtype", dtype, "--threads", str(a.threads), "--device", a.device]
            if stage == "embed":
                options += ["--texts", a.texts, "--n", str(a.n or 2000)]
                they, we = ["embed", "--minilm", a.minilm] + options, ["embed", "--model", a.minilm] + options
            elif stage == "score":
                they = ["score", "--clients", "200", "--threads", str(a.threads)]
                we = ["score", "--query", arch, "--samples", "18000", "--clients", "133000"]
                we += ["--threads", str(a.threads)]
            else:
                sizes = {"finetune": ["--steps", str(a.steps), "--batch", str(a.batch)], "evaluate": ["--n", str(a.n or 500)]}
                size = lambda k: sizes.get(stage, ["--k", str(k)])
                they = [stage, "--model", model] + options + size(a.peer_k or a.k)
                we = [stage, "--model", model] + options + size(a.k)
                if a.peer:
                    they += ["--peer", a.peer]
                if a.peer_batch and stage not in sizes:
                    they += ["--batch", str(a.peer_batch)]
                if a.device == "cuda" and stage == "finetune":  # all rows in one pass, as the peer does
                    we += ["--micro", "0"]
            if a.tune:
                they += tuned([a.python, peers] + they)
            theirs, ours, flops, memory = [], [], [], [0, 0]
            for _ in range(a.rounds):
                r, gib = run([a.python, peers] + they)
                theirs.append(r["rate"])
                memory[0] = max(memory[0], gib)
                r, gib = run([a.popri, "bench"] + we + ["--json"])
                ours.append(r["rate"])
                flops.append(r.get("flops", 0) / r["seconds"] / 1e9)
                memory[1] = max(memory[1], gib)
            m = statistics.median
            ratio = m(o / t for o, t in zip(ours, theirs))
            name = f"{stage}, {arch}" + (f", beside {a.peer}" if a.peer else "")
            print(f"| {name} | {dtype} | {m(theirs):.3g} {r['unit']}/s | {m(ours):.3g} | {ratio:.1f}× "
                  f"| {memory[0]:.1f} | {memory[1]:.1f} | {m(flops):.0f} |", flush=True)
