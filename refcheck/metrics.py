"""The metric core: pure functions of outcome counts and a reference. It refuses to know files, scenes, models or judges.

Shapes: counts (..., k) and q (k,) or (..., k) broadcast over leading axes; n is the number of *valid* rollouts, the sum of
the counts. What cannot be scored is NaN, never 0.

Sources: PAWBench is Pu et al. 2026, arXiv 2608.27345; CaliBench is Sadeghi et al. 2026, arXiv 2608.16829.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray

from refcheck.tally import Sampling, Tally

FloatArray = NDArray[np.float64]
Counts = Tally | ArrayLike
"""What functions of one i.i.d. cell take: a `Tally`, which says how it was sampled, or bare counts."""
Q_TOLERANCE = 1e-9
"""How far a reference's sum may be from 1: what PAWBench's validator allows."""
MAXIMUM_NULLS = 30
"""PAWBench's gate: a scene with more nulls than this, of 50 rollouts, has no score."""
CHI_SQUARE_MINIMUM = 4
"""CaliBench tests a cell only from this many valid rollouts on."""


def check_q(q: ArrayLike) -> FloatArray:
    """Return `q` (..., k) as float64 if it is a distribution on its last axis; raise `ValueError` otherwise."""
    array = np.asarray(q, np.float64)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"`q` must have a last axis of outcomes, got shape {array.shape}")
    if not np.all(np.isfinite(array)) or np.any(array < 0):
        raise ValueError(f"`q` must hold finite probabilities of at least 0, got {array.tolist()}")
    if np.any(np.abs(array.sum(-1) - 1) > Q_TOLERANCE):
        raise ValueError(f"`q` must sum to 1 within {Q_TOLERANCE:g}, got {array.sum(-1).tolist()}")
    return array


def check_counts(counts: ArrayLike) -> FloatArray:
    """Return `counts` (..., k) as float64 if they are whole numbers of at least 0; raise `ValueError` otherwise."""
    array = np.asarray(counts, np.float64)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"`counts` must have a last axis of outcomes, got shape {array.shape}")
    if not np.all(np.isfinite(array)) or np.any(array < 0) or np.any(array != np.floor(array)):
        raise ValueError(f"`counts` must be whole numbers of at least 0, got {array.tolist()}")
    return array


def require_iid(sampling: Sampling, figure: str) -> None:
    """Raise `ValueError` unless `sampling` is `iid`: a multinomial law says nothing about any other kind of tally."""
    if sampling == "quota":
        raise ValueError(
            f"{figure} is for independent rollouts, and these have exact quotas: a quota set is compared with its rounding "
            "residual (`resample.quota_residual`)"
        )
    if sampling == "coupled":
        raise ValueError(
            f"{figure} is for independent rollouts, and these are coupled within groups: resample whole groups "
            "(`resample.group_bootstrap`)"
        )
    if sampling != "iid":
        raise ValueError(f"`sampling` must be iid, quota or coupled, got {sampling!r}")


def iid_counts(counts: Counts, figure: str, sampling: Sampling = "iid") -> FloatArray:
    """Return checked counts (..., k) of a tally that is i.i.d.; raise `ValueError` naming `figure` for any other.

    Args:
        counts: a `Tally`, whose own `sampling` decides, or bare counts (..., k).
        figure: what they are wanted for, as the message should name it.
        sampling: how bare counts were sampled.
    """
    require_iid(counts.sampling if isinstance(counts, Tally) else sampling, figure)
    return check_counts(counts.array() if isinstance(counts, Tally) else counts)


def _pair(counts: ArrayLike, q: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return checked counts (..., k), q (..., k) and n (...)."""
    x, p = check_counts(counts), check_q(q)
    if x.shape[-1] != p.shape[-1]:
        raise ValueError(f"`counts` and `q` must have equally many outcomes, got {x.shape[-1]} and {p.shape[-1]}")
    return x, p, x.sum(-1)


def tvd(counts: ArrayLike, q: ArrayLike) -> FloatArray:
    """Total variation distance of the observed shares from `q`, in 0..1; NaN where there is no valid rollout.

    TVD = (1/2) sum_i |x_i / n - q_i| (PAWBench reports it x100, CaliBench as it is). Returns (...).
    """
    x, p, n = _pair(counts, q)
    share = np.full(np.broadcast_shapes(x.shape, p.shape), np.nan)
    np.divide(x, n[..., None], out=share, where=np.broadcast_to(n[..., None] > 0, share.shape))
    return np.asarray(0.5 * np.abs(share - p).sum(-1))


def coverage(counts: ArrayLike) -> FloatArray:
    """Share of the labels that were seen at least once, in 0..1 (PAWBench, x100 there); NaN without a valid rollout."""
    x = check_counts(counts)
    return np.where(x.sum(-1) > 0, (x > 0).mean(-1), np.nan)


def passes_gate(nulls: ArrayLike, maximum: int = MAXIMUM_NULLS) -> NDArray[np.bool_]:
    """Tell whether a scene with `nulls` (...) rollouts without an outcome is scored: nulls <= `maximum` (PAWBench)."""
    m = np.asarray(nulls)
    if np.any(m < 0) or maximum < 0:
        raise ValueError(f"`nulls` and `maximum` must be at least 0, got {m.tolist()} and {maximum}")
    return np.asarray(m <= maximum)


def scene_pass_rate(passing: int, scenes: int) -> float:
    """Passing scenes over the scenes of the *whole* track, in 0..1 (PAWBench: of 25); NaN for an empty track."""
    if not 0 <= passing <= scenes:
        raise ValueError(f"`passing` must be from 0 to `scenes`, got {passing} of {scenes}")
    return passing / scenes if scenes else float("nan")


def valid_share(valid: ArrayLike, total: ArrayLike) -> FloatArray:
    """Share of rollouts that ended in an outcome, rho = n / N (CaliBench); NaN where N = 0."""
    n, all_ = np.broadcast_arrays(np.asarray(valid, np.float64), np.asarray(total, np.float64))
    if np.any(n < 0) or np.any(n > all_):
        raise ValueError(f"`valid` must be from 0 to `total`, got {n.tolist()} of {all_.tolist()}")
    return np.divide(n, all_, out=np.full(n.shape, np.nan), where=all_ > 0)


def expected_tvd(n: ArrayLike, q: ArrayLike, *, sampling: Sampling = "iid") -> FloatArray:
    """E0(n), the exact mean TVD of n draws from `q` itself: the finite-sample floor. NaN where n = 0.

    E0 = (1/2n) sum_i E|X_i - n q_i|, X_i ~ Binomial(n, q_i), by De Moivre's closed form
    E|X - np| = 2 n p (1-p) b(m; n-1, p), m = floor(np), b the binomial probability (Diaconis and Zabell 1991,
    Statistical Science 6(3), "Closed form summation for classical distributions").

    Outcomes with q_i = 0 add nothing: draws from q never show them.

    Args:
        n: numbers of valid rollouts (...), whole and at least 0.
        q: reference (k,) or (..., k).
        sampling: how the rollouts were sampled; anything but `iid` is refused.

    Returns:
        E0 (...), in 0..1.
    """
    require_iid(sampling, "the floor E0")
    p, count = check_q(q), np.asarray(n, np.float64)
    if np.any(count < 0) or np.any(count != np.floor(count)):
        raise ValueError(f"`n` must be whole numbers of at least 0, got {count.tolist()}")
    size = np.maximum(count, 1)[..., None]  # a stand-in for n = 0, which becomes NaN below
    absolute = 2 * size * p * (1 - p) * scipy.stats.binom.pmf(np.floor(size * p), size - 1, p)
    return np.where(count > 0, absolute.sum(-1) / (2 * size[..., 0]), np.nan)


def excess_tvd(distance: ArrayLike, floor: ArrayLike) -> FloatArray:
    """Excess = (TVD - E0) / (1 - E0): signed, never clipped (CaliBench). NaN where either is NaN."""
    observed, e0 = np.asarray(distance, np.float64), np.asarray(floor, np.float64)
    return np.asarray((observed - e0) / (1 - e0))


def score(rho: ArrayLike, excess: ArrayLike) -> FloatArray:
    """Score of one cell = (1 - rho) + rho excess, lower is better; 1 where no rollout was valid (CaliBench)."""
    share, extra = np.asarray(rho, np.float64), np.asarray(excess, np.float64)
    return np.where(share == 0, 1.0, (1 - share) + share * extra)


def mntv(scores: ArrayLike) -> FloatArray:
    """mnTV, the mean of the cells' scores over the last axis, the scenes (CaliBench). One unscored scene makes it NaN."""
    return np.asarray(np.asarray(scores, np.float64).mean(-1))


def chi_square(counts: ArrayLike, q: ArrayLike) -> FloatArray:
    """Pearson's X^2 = sum_i (x_i - n q_i)^2 / (n q_i). Infinite once an outcome with q_i = 0 is seen; NaN where n = 0."""
    x, p, n = _pair(counts, q)
    expected = n[..., None] * p
    terms = np.where(np.broadcast_to(x > 0, expected.shape), np.inf, 0.0)
    np.divide((x - expected) ** 2, expected, out=terms, where=expected > 0)
    return np.where(n > 0, terms.sum(-1), np.nan)


@dataclass(frozen=True)
class Cell:
    """One model on one scene: what was counted and every figure that follows from it alone. Unscored is NaN.

    `counts` in the order of the outcomes; `total` N, `valid` n, `rho` = n/N; `tvd` beside its floor `e0`; `excess`;
    `score`; `coverage`; `chi_square` NaN below four valid rollouts, where CaliBench does not test.
    """

    counts: tuple[int, ...]
    total: int
    valid: int
    rho: float
    tvd: float
    e0: float
    excess: float
    score: float
    coverage: float
    chi_square: float

    @property
    def testable(self) -> bool:
        """Whether CaliBench tests this cell: at least four valid rollouts."""
        return self.valid >= CHI_SQUARE_MINIMUM


def cell(counts: Counts, nulls: int, q: ArrayLike, *, sampling: Sampling = "iid") -> Cell:
    """Compute every figure of one cell from its counts (k,), its number of nulls and the reference (k,).

    Raises `ValueError` for a cell that is not i.i.d.: it has no floor, hence no excess and no score.
    """
    x, p, n = _pair(iid_counts(counts, "CaliBench's cell", sampling), q)
    if x.ndim != 1 or p.ndim != 1:
        raise ValueError(f"a cell has counts (k,) and q (k,), got shapes {x.shape} and {p.shape}")
    valid = int(n)
    rho, distance, floor = valid_share(valid, valid + nulls), tvd(x, p), expected_tvd(valid, p)
    excess = excess_tvd(distance, floor)
    return Cell(
        counts=tuple(int(count) for count in x),
        total=valid + nulls,
        valid=valid,
        rho=float(rho),
        tvd=float(distance),
        e0=float(floor),
        excess=float(excess),
        score=float(score(rho, excess)),
        coverage=float(coverage(x)),
        chi_square=float(chi_square(x, p)) if valid >= CHI_SQUARE_MINIMUM else float("nan"),
    )
