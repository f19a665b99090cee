#!/usr/bin/env python3
"""Makes testdata/golden/dpo-losses: preference losses and their gradients by TRL's own code.

    pip install torch==2.8.0 trl==1.16.0 peft
    python3 scripts/dpo_losses_cases.py [DESTINATION]

No model takes part: DPOTrainer._compute_loss gets a pair's log-probabilities as leaves from a stub, and cpo_loss of
CPOTrainer and odds_ratio_loss of ORPOTrainer get them as arguments. float64, but for two computations that TRL does in
float32 whatever it is given; their cases have a tolerance of their own. batch.json has what depends on a batch: losses
that sort, KTO against the other half of the pairs by KTOTrainer._compute_loss, and weights by the policy. The same
seed and libraries give the same bytes.
"""
import json
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from trl import DPOTrainer
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer
from trl.trainer.kto_trainer import KTOTrainer

ROOT = Path(__file__).resolve().parent.parent
OF_DIFFERENCE = ["sigmoid", "sigmoid_norm", "hinge", "ipo", "exo_pair", "robust", "discopop"]
SMOOTHED = {"exo_pair": [1e-3, 0.2], "robust": [0.1]}
RATIOS = [0.3, -2.1, 0.0, 12.5, -7.0, 60.0]  # of policy to reference, beside random ones


def pairs():
    """Log-probabilities of the tokens of pairs: policy and reference, chosen and rejected. float32 holds them without
    rounding."""
    def tokens(n, ratio):
        reference = (-3 * torch.rand(n) - 1).float().double()
        move = torch.randn(n) * 0.3
        policy = (reference + move - move.mean() + ratio / n).clamp(max=-1e-3)
        return policy.float().double(), reference
    out = []
    for i in range(10):
        ratio = RATIOS[i % len(RATIOS)] if i < len(RATIOS) else torch.randn(()).item() * 3
        n, m = (int(torch.randint(1, 12, ())) for _ in range(2))
        out.append(tokens(n, ratio) + tokens(m, -ratio / 2))
    return out


def dpo(pair, loss, beta, smoothing=0.0, divergence="reverse_kl", ld_alpha=None, dtype=torch.float64):
    """Loss, token gradients and summed log-probabilities of one pair by DPOTrainer._compute_loss."""
    return batch([tuple(x.to(dtype) for x in pair)], loss, beta, smoothing, divergence, ld_alpha)


def batch(pairs, loss, beta, smoothing=0.0, divergence="reverse_kl", ld_alpha=None, log_squares=None):
    """The same of several pairs, the chosen completions first. log_squares are ln Σ p² of each token, for weights."""
    completions = [p[0] for p in pairs] + [p[2] for p in pairs]
    references = [p[1] for p in pairs] + [p[3] for p in pairs]
    lengths = [len(x) for x in completions]
    longest = max(lengths)
    leaves = [x.clone().requires_grad_() for x in completions]
    mask = torch.zeros(len(leaves), 1 + longest, dtype=torch.long)  # one token of prompt
    for row, n in enumerate(lengths):
        mask[row, 1:1 + n] = 1

    def model(log_probs):
        z = torch.zeros(len(leaves), longest)
        padded = lambda rows: torch.stack([F.pad(x, (0, longest - len(x))) for x in rows])
        return lambda **_: SimpleNamespace(log_probs=padded(log_probs), entropy=z, mean_logits=z, is_top1=z.bool(),
                                           log_sum_sq_probs=padded(log_squares) if log_squares else None)

    same = lambda x: x
    module = torch.nn.Identity()  # in training, without adapters or checkpointing
    module.is_gradient_checkpointing = False
    stub = SimpleNamespace(model=module, aux_loss_enabled=False, ld_alpha=ld_alpha, precompute_ref_logps=False,
                           accelerator=SimpleNamespace(device="cpu", gather_for_metrics=same, gather=same),
                           args=SimpleNamespace(gradient_checkpointing_kwargs=None, discopop_tau=0.05),
                           ref_model=model(references), f_divergence_type=divergence, f_alpha_divergence_coef=0.5,
                           loss_types=[loss], loss_weights=[1.0], beta=beta, label_smoothing=smoothing,
                           use_weighting=log_squares is not None, _metrics={"train": defaultdict(list)},
                           _total_train_tokens=0, _tp_size=1)
    inputs = {"input_ids": torch.zeros_like(mask), "attention_mask": mask, "completion_mask": mask}
    value = DPOTrainer._compute_loss(stub, model(leaves), inputs, False)
    value.backward()
    logged = stub._metrics["train"]
    return value.item(), [x.grad.tolist() for x in leaves], [logged["logps/chosen"][0], logged["logps/rejected"][0]]


def without_reference(pair, loss, beta, gamma):
    """Loss and gradients by CPOTrainer.cpo_loss, or by ORPOTrainer.odds_ratio_loss with the completion's likelihood."""
    chosen, _, rejected, _ = pair
    leaves = [chosen.sum().requires_grad_(), rejected.sum().requires_grad_()]
    n, m = (1, 1) if loss == "cpo" else (len(chosen), len(rejected))
    stub = SimpleNamespace(accelerator=SimpleNamespace(device="cpu"), alpha=0.0, beta=beta, label_smoothing=0.0,
                           simpo_gamma=gamma, loss_type="sigmoid" if loss == "cpo" else "simpo")
    if loss == "orpo":
        value = -leaves[0] / n - ORPOTrainer.odds_ratio_loss(stub, leaves[0] / n, leaves[1] / m)[0]
    else:
        value = CPOTrainer.cpo_loss(stub, leaves[0] / n, leaves[1] / m)[0]
    value.backward()
    return value.item(), leaves[0].grad.item(), leaves[1].grad.item()


def kto(sums, references, label, other, beta):
    """Loss and gradients of completions of one label by KTOTrainer._compute_loss, whose KL is of the other half
    of pairs."""
    n = len(sums)
    leaves = sums.clone().unsqueeze(1).requires_grad_()
    z, mask = torch.zeros(n, 1), torch.ones(n, 2, dtype=torch.long)
    same = lambda x: x
    module = lambda **_: SimpleNamespace(log_probs=leaves, entropy=z, mean_logits=z, is_top1=z.bool(), aux_loss=None)
    module.training = True
    stub = SimpleNamespace(model=module, aux_loss_enabled=False, precompute_ref_logps=True, calculate_KL=True,
                           loss_type="kto", beta=beta, desirable_weight=1.0, undesirable_weight=1.0,
                           accelerator=SimpleNamespace(device="cpu", gather_for_metrics=same, gather=same),
                           args=SimpleNamespace(), _compute_kl_logps=lambda *_: other[0],
                           _metrics={"train": defaultdict(list)}, _total_train_tokens=0, _tp_size=1)
    inputs = {
        "input_ids": torch.zeros_like(mask), "attention_mask": mask, "completion_mask": mask,
        "label": torch.full((n,), label), "ref_logps": references, "ref_KL_logps": other[1]
    }
    value = KTOTrainer._compute_loss(stub, module, inputs, False)
    value.backward()
    return value.item(), leaves.grad[:, 0]


def write_batch(out, data):
    """Losses of all pairs together, and of pairs with weights, with gradients that are sums over a completion's
    tokens."""
    torch.manual_seed(2)
    n, sorting, weighted = len(data), [], []
    for loss in ("aot", "aot_unpaired"):
        for beta, e in ((0.05, 0.0), (0.5, 0.1), (2.0, 0.0)):
            value, grads, _ = batch(data, loss, beta, e)
            sorting.append({
                "loss": loss, "beta": beta, "label_smoothing": e, "mean": value,
                "grad_chosen": [n * g[0] for g in grads[:n]], "grad_rejected": [n * g[0] for g in grads[n:]]
            })
    sums = [torch.stack([p[k].sum() for p in data]) for k in range(4)]
    for beta in (0.05, 0.5):
        chosen, by_chosen = kto(sums[0], sums[1], True, sums[2:], beta)
        rejected, by_rejected = kto(sums[2], sums[3], False, sums[:2], beta)
        sorting.append({"loss": "kto_pair", "beta": beta, "label_smoothing": 0, "mean": (chosen + rejected) / 2,
                        "grad_chosen": (n / 2 * by_chosen).tolist(), "grad_rejected": (n / 2 * by_rejected).tolist()})
    squares = [(-2 * torch.rand(len(x))).float().double() for x in [p[0] for p in data] + [p[2] for p in data]]
    for loss in ("sigmoid", "ipo", "apo_zero"):
        rows = [batch([p], loss, 0.1, log_squares=[squares[i], squares[n + i]]) for i, p in enumerate(data)]
        weighted.append({
            "loss": loss, "beta": 0.1, "losses": [r[0] for r in rows], "grad_chosen": [r[1][0][0] for r in rows],
            "grad_rejected": [r[1][1][0] for r in rows]
        })
    content = {"sorting": sorting, "log_sum_squares": [x.tolist() for x in squares], "weighted": weighted}
    (out / "batch.json").write_text(json.dumps(content) + "\n", encoding="utf-8")


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "testdata/golden/dpo-losses")
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    data = pairs()
    cases, kinds = [], []
    for beta in (0.05, 0.5):
        for loss in ("exo_pair", "nca_pair", "bco_pair", "sppo_hard", "apo_zero", "apo_down", "discopop"):
            kinds += [(loss, beta, e, "reverse_kl") for e in SMOOTHED.get(loss, [0.0])]
    for divergence in ("forward_kl", "js_divergence", "alpha_divergence"):
        kinds += [(loss, 0.1, SMOOTHED.get(loss, [0.0])[0], divergence) for loss in OF_DIFFERENCE]
    for loss, beta, e, divergence in kinds:
        single = divergence == "alpha_divergence"
        rows = [dpo(p, loss, beta, e, divergence, dtype=torch.float32 if single else torch.float64) for p in data]
        cases.append({"loss": loss, "beta": beta, "label_smoothing": e, "divergence": divergence, "gamma": 0,
                      "tolerance": 1e-5 if single else 1e-10, "losses": [r[0] for r in rows],
                      "grad_chosen": [r[1][0][0] for r in rows], "grad_rejected": [r[1][1][0] for r in rows]})
    for loss, gamma in (("cpo", 0), ("simpo", 0), ("simpo", 0.5), ("orpo", 0)):
        for beta in (0.1, 2.0):
            rows = [without_reference(p, loss, beta, gamma) for p in data]
            cases.append({"loss": loss, "beta": beta, "label_smoothing": 0, "divergence": "reverse_kl", "gamma": gamma,
                          "tolerance": 1e-5 if loss == "orpo" else 1e-10, "losses": [r[0] for r in rows],
                          "grad_chosen": [r[1] for r in rows], "grad_rejected": [r[2] for r in rows]})
    shared = []
    for loss, alpha in (("sigmoid", 0.0), ("sigmoid", 0.5), ("ipo", 0.3), ("sppo_hard", 1.0)):
        rows = [dpo(p, loss, 0.1, ld_alpha=alpha) for p in data]
        shared.append({
            "loss": loss, "beta": 0.1, "ld_alpha": alpha, "losses": [r[0] for r in rows], "logps": [r[2] for r in rows],
            "grad_tokens": [r[1] for r in rows]
        })
    out.mkdir(parents=True, exist_ok=True)
    names = ("policy_chosen", "ref_chosen", "policy_rejected", "ref_rejected")
    content = {"pairs": [dict(zip(names, (x.tolist() for x in p))) for p in data], "cases": cases, "ld_alpha": shared}
    write_batch(out, data)
    (out / "cases.json").write_text(json.dumps(content) + "\n", encoding="utf-8")


main()
