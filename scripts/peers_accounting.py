#!/usr/bin/env python3
"""Times popri's privacy loss distributions beside Python's dp-accounting, in one run on one machine.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install dp-accounting==0.6.0
    /tmp/venv/bin/python scripts/peers_accounting.py

The cases are as in BenchmarkPLD of package accountant: T rounds of Gaussian noise sigma on a Poisson sample of rate
q, epsilon at delta, both libraries at their default accuracy and on one thread. Both answers are upper bounds: the
lower one is the closer one. "gap" is the distance of popri's bounds from above and below.
"""
import os
import re
import subprocess
import sys
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

from dp_accounting.pld import privacy_loss_distribution  # noqa: E402

CASE = re.compile(
    r"^BenchmarkPLD/q=([\d.e-]+),sigma=([\d.e-]+),T=(\d+),delta=([\d.e-]+)\S*\s+\d+\s+([\d.]+) ns/op(.*)$")


def ours():
    root = Path(__file__).resolve().parent.parent
    env = dict(os.environ, GOMAXPROCS="1", CGO_ENABLED="0")
    out = subprocess.run(
        ["go", "test", "-run", "^$", "-bench", "^BenchmarkPLD$", "./accountant"], cwd=root, env=env, check=True,
        capture_output=True, text=True).stdout
    for line in out.splitlines():
        if found := CASE.match(line):
            q, sigma, rounds, delta, nanoseconds, rest = found.groups()
            metrics = {name: float(value) for value, name in re.findall(r"([\d.e+-]+) (epsilon|gap)", rest)}
            yield float(q), float(sigma), int(rounds), float(delta), float(nanoseconds) / 1e9, metrics


def theirs(q, sigma, rounds, delta, repeats=3):
    best = float("inf")
    for _ in range(repeats):
        begun = time.perf_counter()
        loss = privacy_loss_distribution.from_gaussian_mechanism(sigma, sampling_prob=q)
        epsilon = loss.self_compose(rounds).get_epsilon_for_delta(delta)
        best = min(best, time.perf_counter() - begun)
    return best, epsilon


def main():
    rows = list(ours())
    if not rows:
        sys.exit("peers_accounting: the benchmark printed no case")
    print(f"{'q':>9} {'sigma':>6} {'T':>7} {'delta':>9} | {'popri s':>8} {'epsilon':>9} {'gap':>8} "
          f"| {'dp-acc. s':>9} {'epsilon':>9}")
    for q, sigma, rounds, delta, seconds, metrics in rows:
        peer, epsilon = theirs(q, sigma, rounds, delta)
        print(f"{q:9g} {sigma:6g} {rounds:7d} {delta:9g} | {seconds:8.3f} {metrics['epsilon']:9.4g} "
              f"{metrics['gap']:8.5f} | {peer:9.3f} {epsilon:9.5f}")


if __name__ == "__main__":
    main()
