#!/usr/bin/env python3
"""Makes testdata/golden/selection: what lists of the largest counts spend, by dp_accounting.

    pip install dp-accounting==0.6.0
    python3 scripts/selection_cases.py [DESTINATION]

A list is k draws whose privacy loss is in a range of eta = 1/scale: a Rényi divergence of k·alpha·eta²/8, as of
zero-concentrated privacy with rho = k·eta²/8. Its slack, the probability of what this does not cover, is taken off
delta beforehand. popri bounds a draw's divergence by eta as well, which is less from the order 8/eta on, so the best
order of every case is below.
"""
import json
import sys
from pathlib import Path

from dp_accounting import GaussianDpEvent, ZCDpEvent
from dp_accounting.rdp import RdpAccountant

ROOT = Path(__file__).resolve().parent.parent
ORDERS = [1 + i / 10 for i in range(1, 100)] + list(range(11, 64)) + [64, 96, 128, 192, 256, 512, 1024]
# picks, lists, scale, slack, delta; sigma and number of noised sums beside them
CASES = [
    (30, 1, 4.0, 1e-7, 1e-5, 0, 0),
    (30, 5, 20.0, 1e-6, 2e-5, 0, 0),
    (30, 10, 6.5, 5e-7, 1e-5, 0, 0),
    (300, 20, 40.0, 1e-9, 3e-6, 0, 0),
    (1, 8, 2.0, 0, 1e-5, 0, 0),
    (30, 5, 20.0, 1e-6, 2e-5, 3.0, 4),
    (10, 7, 9.0, 1e-7, 1e-6, 12.5, 20),
    (100, 3, 50.0, 0, 3e-6, 1.5, 1),
]


def case(picks, lists, scale, slack, delta, sigma, sums):
    accountant = RdpAccountant(ORDERS)
    accountant.compose(ZCDpEvent(rho=lists * picks / scale**2 / 8))
    if sums:
        accountant.compose(GaussianDpEvent(sigma), sums)
    epsilon, order = accountant.get_epsilon_and_optimal_order(delta - lists * slack)
    assert 1.1 < order < min(8 * scale, 1024), order
    return {"picks": picks, "lists": lists, "scale": scale, "slack": slack, "delta": delta, "sigma": sigma,
            "sums": sums, "epsilon": epsilon, "order": order}


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "testdata" / "golden" / "selection"
    out.mkdir(parents=True, exist_ok=True)
    cases = [case(*c) for c in CASES]
    (out / "cases.json").write_text(json.dumps({"orders": ORDERS, "cases": cases}) + "\n")


if __name__ == "__main__":
    main()
