#!/usr/bin/env python3
"""Makes testdata/golden/judge: MAUVE by its authors' program, and divergences, tests and bounds by SciPy.

    pip install mauve-text==0.4.0 scikit-learn scipy
    python3 scripts/judge_cases.py [DESTINATION]

MAUVE of histograms is exact; MAUVE of points depends on random clusters, so its case has the mean of ten seeds and
their spread.
"""
import json
import sys
from pathlib import Path

import mauve
import numpy as np
from mauve.compute_mauve import get_divergence_curve_for_multinomials
from scipy.spatial.distance import jensenshannon
from scipy.stats import beta, fisher_exact
from sklearn.metrics import auc

ROOT = Path(__file__).resolve().parent.parent


def frontier(p, q):
    x, y = get_divergence_curve_for_multinomials(p, q, np.linspace(1e-6, 1 - 1e-6, 25), 5).T
    a, b = np.argsort(x), np.argsort(y)
    return 0.5 * (auc(x[a], y[a]) + auc(y[b], x[b]))


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "testdata" / "golden" / "judge"
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    histograms = []
    for k in (2, 7, 40, 200):
        for alpha in (0.1, 1.0):
            p, q = rng.dirichlet(np.full(k, alpha)), rng.dirichlet(np.full(k, alpha))
            p[rng.random(k) < 0.2], q[rng.random(k) < 0.2] = 0, 0
            if p.sum() == 0 or q.sum() == 0:
                continue
            p, q = p / p.sum(), q / q.sum()
            histograms.append({
                "p": p.tolist(), "q": q.tolist(), "mauve": float(frontier(p, q)),
                "jensen_shannon": float(jensenshannon(p, q, base=2)**2)
            })
    points = []
    for shift in (0.0, 0.6, 1.5):
        p, q = rng.standard_normal((400, 6)), rng.standard_normal((400, 6)) + shift * np.array([1, 0.5, 0, 0, 0, 0])
        p, q = np.round(p, 3), np.round(q, 3)
        values = [
            mauve.compute_mauve(p_features=p.astype(np.float32), q_features=q.astype(np.float32), seed=s,
                                verbose=False).mauve for s in range(10)
        ]
        points.append(
            {"p": p.tolist(), "q": q.tolist(), "mean": float(np.mean(values)), "std": float(np.std(values, ddof=1))})
    tables = [[3, 40, 1, 40], [10, 1321, 0, 576], [0, 5, 3, 9], [7, 7, 0, 7], [120, 1000, 60, 500]]
    fisher = [{
        "members": k, "of": n, "controls": c, "of_controls": m,
        "p": float(fisher_exact([[k, n - k], [c, m - c]], alternative="greater").pvalue)
    } for k, n, c, m in tables]
    bounds = [{
        "k": k, "n": n, "lower": float(beta.ppf(0.025, k, n - k + 1)) if k else 0.0,
        "upper": float(beta.ppf(0.975, k + 1, n - k)) if k < n else 1.0
    } for k, n in ((0, 10), (3, 10), (10, 10), (50, 660), (1, 2000))]
    (out / "cases.json").write_text(
        json.dumps({"histograms": histograms, "points": points, "fisher": fisher, "clopper_pearson": bounds}) + "\n")


if __name__ == "__main__":
    main()
