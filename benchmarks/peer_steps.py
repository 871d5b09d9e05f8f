"""At which step each plain loop of the speed table is fair: the coarsest whose half gives the same outcomes and durations.

    python -m benchmarks.peer_steps keep=FOLDER [out=docs/peer_steps.md] [only=pawbench/A-01,...] [n=4000]

From the coarsest rate upwards, n rollouts at it are held against n at twice the rate, on the same launches: outcomes by
chi-square of two samples (as if launches were others: bounces soon forget them), no p-value below .01, and their
mean duration within 5 %, which is what a kernel and its engine are held to. A loop whose bodies tunnel or explode ends
otherwise or later, and fails. n is what the loop runs in two minutes or so, 20,000 at most. What a loop gave goes to `keep`:
another run takes it from there, and the page is of all that is kept; of loops run at several n, of the largest.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency

from benchmarks.__main__ import comparisons, publish, table
from benchmarks.compare import Comparison
from refcheck.output import atomic

COARSEST = 240  # 1/s: PyBullet's own; no loop of the table is timed at a longer step
FINEST = 1920  # 1/s: the last that twice the rate is run against
MOST, TIMES = 20_000, 60  # rollouts; two seconds each
LEAST, SAME = 0.01, 0.05  # p-value; share of the mean duration
HEAD = """# Steps of the plain loops

Written by `python -m benchmarks.peer_steps keep=FOLDER out=docs/peer_steps.md`. A loop passes at the first rate that twice the
rate bears out: outcomes alike by chi-square (p at least .01), mean durations within 5 %. "timed at" is its rate in
[performance.md](performance.md): where it fails at that rate, that is kind to it."""


class Kept:
    """What loops gave, in a folder: a file (n, 2) for each loop, rate and n."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def _stem(self, one: Comparison) -> str:
        told = re.sub(r"[0-9]+", "", one.peer)  # a loop is the same whatever rate it is timed at
        return f"{one.scene.replace('/', '-')}-{hashlib.blake2b(told.encode(), digest_size=4).hexdigest()}"

    def largest(self, one: Comparison) -> int:
        """Return the largest n at which this loop was run, or 0."""
        return max((int(file.stem.split("-")[-1]) for file in self.folder.glob(f"{self._stem(one)}-*.npy")), default=0)

    def ends(self, one: Comparison, n: int, rate: int, run: bool) -> NDArray[np.float64] | None:
        """Return what each of n rollouts showed, and its duration [s]: from the folder, or if asked `run` and put there."""
        file = self.folder / f"{self._stem(one)}-{rate}-{n}.npy"
        if not file.exists() and run:
            with atomic(file) as part:
                np.save(part, np.array(one.run_peer(n, rate), float))
        return np.load(file) if file.exists() else None


def compare(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the distance between two runs' outcomes (nothing shown being one), its p-value, and how much longer `a` took."""
    shown = [x[:, 0].astype(int) + 1 for x in (a, b)]
    size = max(int(x.max()) for x in shown) + 1
    counts = np.array([np.bincount(x, minlength=size) for x in shown])
    counts = counts[:, counts.sum(axis=0) > 0]
    shares = counts / counts.sum(axis=1, keepdims=True)
    p = float(chi2_contingency(counts, correction=False).pvalue) if counts.shape[1] > 1 else 1.0
    return 0.5 * float(np.abs(shares[0] - shares[1]).sum()), p, float(a[:, 1].mean() / b[:, 1].mean() - 1.0)


def search(one: Comparison, n: int, kept: Kept, run: bool) -> list[tuple[str, ...]]:
    """Return a row for every rate tried, up to the first that half its step bears out; unless to `run`, of what is kept."""
    rows, rate, coarse = list[tuple[str, ...]](), COARSEST, kept.ends(one, n, COARSEST, run)
    while True:
        fine = kept.ends(one, n, 2 * rate, run)
        if coarse is None or fine is None:
            return rows
        distance, p, longer = compare(coarse, fine)
        passes = p >= LEAST and abs(longer) <= SAME
        nothing = float(np.mean(coarse[:, 0] < 0))
        told = "passes" if passes else "fails"
        measured = (f"{n:,}", str(rate), f"{distance:.4f}", f"{p:.3g}", f"{longer:+.1%}", f"{nothing:.3f}")
        rows.append((one.scene, *measured, told, str(one.rate), one.peer))
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
        if passes or rate >= FINEST:
            return rows
        rate, coarse = 2 * rate, fine


def main(arguments: list[str]) -> int:
    """Search, print, and write the page if `out=` names one."""
    given = dict(word.split("=", 1) for word in arguments)
    if "keep" not in given or set(given) - {"keep", "out", "only", "n"}:
        print("there are keep= (needed), out=, only=, n=", file=sys.stderr)
        return 2
    kept, only = Kept(Path(given["keep"])), given.get("only", "").split(",")
    rows, missing = [], []
    for one in comparisons():
        run = only == [""] or one.scene in only
        n = int(given["n"]) if run and "n" in given else kept.largest(one) or min(MOST, TIMES * one.peer_rollouts)
        found = search(one, n, kept, run)
        rows += found
        if not found:
            missing.append(one.scene)
    told = f"Not run, so that their loops' rates are chosen: {', '.join(missing)}." if missing else "Every loop was run."
    header = ("scene", "n", "rate [1/s]", "TVD to twice it", "p", "longer by", "nothing shown", "", "timed at", "loop")
    publish([HEAD, "", told, "", *table(header, rows)], given)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
