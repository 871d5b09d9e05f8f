"""At which step each plain loop of the speed table is fair: the coarsest whose half gives the same outcomes and durations.

    python -m benchmarks.peer_steps [out=docs/peer_steps.md] [only=pawbench/A-01,...] [n=4000]

From the coarsest rate upwards, n rollouts at it are held against n at twice the rate, on the same launches: outcomes by
chi-square of two samples (as if launches were others: bounces soon forget them), no p-value below .01, and their
mean duration within 5 %, which is what a kernel and its engine are held to. A loop whose bodies tunnel or explode ends
otherwise or later, and fails.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.stats import chi2_contingency

from benchmarks.__main__ import comparisons, publish, table
from benchmarks.compare import Comparison, Ends

COARSEST = 240  # 1/s: PyBullet's own; no loop of the table is timed at a longer step
FINEST = 3840  # 1/s
LEAST, SAME = 0.01, 0.05  # p-value; share of the mean duration
HEAD = """# Steps of the plain loops

Written by `python -m benchmarks.peer_steps out=docs/peer_steps.md`. A loop passes at the first rate that twice the rate bears
out: outcomes alike by chi-square (p at least .01), mean durations within 5 %. "timed" is what [performance.md](performance.md)
measures."""


def compare(a: Ends, b: Ends) -> tuple[float, float, float]:
    """Return the distance between two runs' outcomes (nothing shown being one), its p-value, and how much longer `a` took."""
    shown = [np.array([end[0] for end in ends]) + 1 for ends in (a, b)]
    size = max(int(x.max()) for x in shown) + 1
    counts = np.array([np.bincount(x, minlength=size) for x in shown])
    counts = counts[:, counts.sum(axis=0) > 0]
    shares = counts / counts.sum(axis=1, keepdims=True)
    p = float(chi2_contingency(counts, correction=False).pvalue) if counts.shape[1] > 1 else 1.0
    longer = np.mean([end[1] for end in a]) / np.mean([end[1] for end in b]) - 1.0
    return 0.5 * float(np.abs(shares[0] - shares[1]).sum()), p, float(longer)


def search(one: Comparison, n: int) -> list[tuple[str, ...]]:
    """Return a row for every rate tried, up to the first that half its step bears out."""
    rows, rate, coarse = [], COARSEST, one.run_peer(n, COARSEST)
    while True:
        fine = one.run_peer(n, 2 * rate)
        distance, p, longer = compare(coarse, fine)
        passes = p >= LEAST and abs(longer) <= SAME
        nothing = float(np.mean([end[0] < 0 for end in coarse]))
        timed = "timed" if rate == one.rate else ""
        told = "passes" if passes else "fails"
        rows.append((one.scene, str(rate), f"{distance:.4f}", f"{p:.3g}", f"{longer:+.1%}", f"{nothing:.3f}", told, timed))
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
        if passes or rate >= FINEST:
            return rows
        rate, coarse = 2 * rate, fine


def main(arguments: list[str]) -> int:
    """Search, print, and write the page if `out=` names one."""
    given = dict(word.split("=", 1) for word in arguments)
    if unknown := set(given) - {"out", "only", "n"}:
        print(f"unknown: {', '.join(sorted(unknown))}; there are out=, only=, n=", file=sys.stderr)
        return 2
    n, only = int(given.get("n", "4000")), given.get("only", "").split(",")
    rows = [row for one in comparisons() if only == [""] or one.scene in only for row in search(one, n)]
    header = ("scene", "rate [1/s]", "TVD to twice it", "p", "longer by", "nothing shown", f"n = {n:,}", "")
    publish([HEAD, "", *table(header, rows)], given)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
