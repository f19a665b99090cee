#!/usr/bin/env python3
"""Makes testdata/golden/grpo: advantages, losses and gradients by TRL's GRPOTrainer.

    pip install torch==2.8.0 trl==1.16.0 peft
    python3 scripts/grpo_cases.py [DESTINATION]

No model takes part: the trainer's own _compute_loss gets log-probabilities as leaves (float64), and the lines of its
_generate_and_score_completions that turn rewards into advantages are run as they stand. The same seed and libraries
give the same bytes.
"""
import inspect
import json
import sys
import textwrap
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import torch
from trl.trainer import grpo_trainer
from trl.trainer.grpo_trainer import GRPOTrainer

ROOT = Path(__file__).resolve().parent.parent
LENGTHS = [5, 1, 3, 4, 2, 5]  # of an update's samples, of a group of three each
LONGEST = 6
ROUND_TOKENS, UPDATES = 47, 2  # tokens of the round, updates of one pass over it


def advantages(rewards, size, scale):
    """The trainer's own lines, from the reward functions' values to the advantages."""
    source = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    begin = source.index('        if self.multi_objective_aggregation == "sum_then_normalize":')
    end = source.index('        elif self.multi_objective_aggregation == "normalize_then_sum":')
    scope = {**vars(grpo_trainer), "rewards_per_func": rewards[:, None], "num_generations": size, "device": "cpu",
             "unscorable_mask": torch.zeros(len(rewards), dtype=torch.bool),
             "self": SimpleNamespace(multi_objective_aggregation="sum_then_normalize", scale_rewards=scale,
                                     reward_weights=torch.ones(1, dtype=torch.float64))}
    exec(textwrap.dedent(source[begin:end]), scope)  # the library's text
    return scope["advantages"]


def flat(values, mask):
    return [float(v) for v in values[mask.bool()]]


def loss(kind, beta, epsilons, logps, old, reference, advantage, mask):
    """Loss, gradient and metrics of one update by the trainer's own _compute_loss."""
    leaf = logps.clone().requires_grad_(True)
    entropies = torch.zeros_like(leaf)
    metrics = {"train": defaultdict(list)}
    accelerator = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x)
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *a, **k: (leaf, entropies, None), aux_loss_enabled=False,
        top_entropy_quantile=1.0, off_policy_mask_threshold=None, importance_sampling_level="token", beta=beta,
        loss_type=kind, epsilon_low=epsilons[0], epsilon_high=epsilons[1], use_vllm=False,
        model=SimpleNamespace(training=True), current_gradient_accumulation_steps=1, max_completion_length=LONGEST,
        accelerator=accelerator, _metrics=metrics, _entropy_bonus_enabled=False,
        args=SimpleNamespace(delta=None, use_bias_correction_kl=True, steps_per_generation=UPDATES))
    ids = torch.zeros(mask.shape, dtype=torch.long)
    inputs = {"prompt_ids": ids[:, :1], "prompt_mask": mask[:, :1], "completion_ids": ids, "completion_mask": mask,
              "advantages": advantage, "old_per_token_logps": old, "num_items_in_batch": torch.tensor(ROUND_TOKENS)}
    if beta:
        inputs["ref_per_token_logps"] = reference
    value = GRPOTrainer._compute_loss(trainer, None, inputs)
    value.backward()
    logged = metrics["train"]
    return {
        "loss_type": kind, "beta": beta, "epsilon": epsilons[0], "epsilon_high": epsilons[1], "on_policy": old is None,
        "loss": value.item(), "gradient": flat(leaf.grad, mask), "kl": logged["kl"][0] if beta else 0,
        "low": logged["clip_ratio/low_mean"][0], "high": logged["clip_ratio/high_mean"][0],
        "region": logged["clip_ratio/region_mean"][0]
    }


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "testdata/golden/grpo")
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    rewards = torch.randn(12) * 0.01
    rewards[8:12] = rewards[8]  # a group without differences
    scales = [{"scale_rewards": s, "size": n, "advantages": advantages(rewards, n, s).tolist()}
              for s in ("group", "batch", "none") for n in (4, 6)]
    mask = torch.tensor([[int(t < n) for t in range(max(LENGTHS))] for n in LENGTHS])
    logps = -torch.rand(mask.shape) * 3
    old = logps + torch.randn(mask.shape) * 0.5  # many ratios outside the range, on both sides
    reference = logps + torch.randn(mask.shape) * 0.3
    advantage = torch.tensor([1.2, -0.7, -0.5, 0.0, 0.9, -0.9])
    cases = [
        loss(kind, beta, epsilons, logps, before, reference, advantage, mask)
        for kind in ("grpo", "bnpo", "dr_grpo", "dapo") for beta in (0.0, 0.04)
        for epsilons in ((0.2, 0.2), (0.1, 0.28)) for before in (old, None)
        if before is not None or epsilons == (0.2, 0.2)
    ]
    out.mkdir(parents=True, exist_ok=True)
    content = {"rewards": rewards.tolist(), "scales": scales, "lengths": LENGTHS, "longest": LONGEST,
               "share": ROUND_TOKENS / UPDATES, "advantages": advantage.tolist(), "logps": flat(logps, mask),
               "old": flat(old, mask), "reference": flat(reference, mask), "cases": cases}
    (out / "cases.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


main()
