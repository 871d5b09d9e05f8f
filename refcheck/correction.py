"""Seeing through the judge: the outcome distribution behind what an imperfect judge reported, and what may be said of it.

Pure functions of counts and a generator that is passed in. It refuses to correct by a confusion matrix that its own noise
could make singular, and never hides that controls are taken to look like the clips.

Sources: Lipton, Wang and Smola 2018 (BBSE); Saerens, Latinne and Decaestecker 2002 (EM), here for hard labels with nulls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from refcheck import metrics
from refcheck.cells import Real, over_cells
from refcheck.intervals import Interval, difference_interval
from refcheck.metrics import FloatArray, check_counts, check_q, require_iid
from refcheck.tally import Sampling

ITERATIONS = 20_000
STEP = 1e-8
"""EM stops once no share moved by more than this in one iteration."""
TINY = 1e-300
ASSUMPTION = "The judge errs on these clips as it did on the controls: controls are taken to look like the clips."
UNMEASURED = " No control ended without an outcome: a clip that did is taken to be given none, always."


class ConfusionError(ValueError):
    """A confusion matrix from which the outcomes cannot be recovered."""


@dataclass(frozen=True)
class Correction:
    """What lies behind the judge's labels.

    `shares` (k,) maximise the likelihood, among clips that ended in an outcome; `null` is the share of clips that did not.
    `tvd` is theirs from q beside the `raw` one of the labels; `floor` is the mean corrected TVD when the model *is* q, with
    the same judge, controls and clips; `bias` how far the mean corrected TVD lies above the truth at these shares;
    `interval` is for the distance and carries the noise of clips and controls. `condition` is the confusion matrix's
    condition number, `singular` its smallest singular value and `noise` the size of its sampling error. For many cells
    arrays (...), `shares` (..., k).
    """

    shares: tuple[float, ...] | FloatArray
    null: Real
    tvd: Real
    raw: Real
    floor: Real
    bias: Real
    interval: Interval
    condition: Real
    singular: Real
    noise: Real
    assumption: str


def confusion_matrix(counts: ArrayLike) -> tuple[FloatArray, FloatArray, float]:
    """Turn counts into shares (k + 1, k + 1), rows the truth and columns the label, nulls last; with row sizes and noise.

    Args:
        counts: (k, k + 1) from controls of known outcome, or (k + 1, k + 1) with controls that ended in none. Without those
            a clip that ended in no outcome is taken to be given none.

    Returns:
        Shares, row sizes (infinite for the row that is taken for granted), and the root mean squared Frobenius norm of the
        shares' sampling error, sqrt(sum_ij M_ij (1 - M_ij) / n_i).

    Raises:
        ConfusionError: for a row without a control, or a matrix with a singular matrix within its noise.
    """
    held = check_counts(counts)
    if held.ndim != 2 or held.shape[1] < 2 or held.shape[0] not in (held.shape[1] - 1, held.shape[1]):
        raise ValueError(f"a confusion matrix must be (k, k + 1) or (k + 1, k + 1), nulls last; got shape {held.shape}")
    sizes = held.sum(1)
    if np.any(sizes == 0):
        raise ConfusionError(f"no control shows outcome {np.flatnonzero(sizes == 0).tolist()}: its errors are unknown")
    shares = held / sizes[:, None]
    noise = float(np.sqrt((shares * (1 - shares) / sizes[:, None]).sum()))
    if len(shares) < held.shape[1]:
        shares, sizes = np.vstack([shares, np.eye(held.shape[1])[-1]]), np.append(sizes, np.inf)
    singular = float(np.linalg.svd(shares, compute_uv=False)[-1])
    if singular <= max(noise, 1e-9):
        raise ConfusionError(
            f"the confusion matrix is too poor to invert: its smallest singular value is {singular:.3g}, and the sampling "
            f"error of its counts is {noise:.3g}. More controls, or a judge that tells the outcomes apart, are needed"
        )
    return shares, sizes, noise


def maximum_likelihood(observed: ArrayLike, confusion: ArrayLike) -> FloatArray:
    """Shares (..., r) of the true outcomes that maximise the likelihood of the labels, by EM (Saerens et al. 2002).

    Labels are a mixture, P(j) = sum_i p_i M_ij; p_i <- p_i sum_j (y_j / N) M_ij / P(j). The likelihood is concave, so EM
    from even shares reaches its maximum, and no share becomes negative as it may by inversion.

    Args:
        observed: label counts y (..., c), nulls last, at least one.
        confusion: shares M (..., r, c), each row of sum 1.
    """
    y, m = np.broadcast_arrays(check_counts(observed)[..., None, :], np.asarray(confusion, np.float64))
    labels = y[..., 0, :]
    if np.any(labels.sum(-1) == 0):
        raise ValueError("at least one label is needed")
    shape = m.shape[:-1]
    m, weight = m.reshape(-1, *m.shape[-2:]), (labels / labels.sum(-1, keepdims=True)).reshape(-1, m.shape[-1])
    p = np.full(m.shape[:2], 1 / m.shape[1])
    active = np.arange(len(p))
    for _ in range(ITERATIONS):
        mixture = np.einsum("br,brc->bc", p[active], m[active])
        ratio = weight[active] / np.maximum(mixture, TINY)
        new = p[active] * np.einsum("brc,bc->br", m[active], ratio)
        new /= np.maximum(new.sum(-1, keepdims=True), TINY)  # labels that no row explains take no part
        moved = np.abs(new - p[active]).max(-1)
        p[active] = new
        active = active[moved > STEP]
        if active.size == 0:
            break
    return p.reshape(shape)


def _redraw(
    truth: FloatArray, total: int, matrix: FloatArray, sizes: FloatArray, generator: Generator, draws: int
) -> FloatArray:
    """Corrected shares (draws, k + 1) of clips from `truth`, judge and controls redrawn alike."""
    labels = generator.multinomial(total, _normal(truth @ matrix), size=draws)
    matrices = np.empty((draws, *matrix.shape))
    for i, (row, size) in enumerate(zip(matrix, sizes, strict=True)):
        matrices[:, i] = row if np.isinf(size) else generator.multinomial(int(size), _normal(row), size=draws) / size
    return maximum_likelihood(labels, matrices)


def _normal(p: FloatArray) -> FloatArray:
    return p / p.sum()


def _difference(shares: FloatArray, q: FloatArray) -> FloatArray:
    """Shares among outcomes less q (..., k); NaN where no outcome is left."""
    valid = shares[..., :-1].sum(-1, keepdims=True)
    return shares[..., :-1] / np.where(valid > 0, valid, np.nan) - q


@over_cells(observed=1, confusion=2, q=1)
def correct(
    observed: ArrayLike,
    confusion: ArrayLike,
    q: ArrayLike,
    generator: Generator,
    *,
    draws: int = 1_000,
    level: float = 0.95,
    sampling: Sampling = "iid",
) -> Correction:
    """Estimate what really happened from what a judge said, given its answers on controls.

    Every cell is redrawn with its judge, and each redraw estimated by EM, so many cells take as long as so many calls.

    Args:
        observed: label counts (..., k + 1), nulls last, of the clips.
        confusion: counts as for `confusion_matrix`, with leading axes of its own where judges differ.
        q: reference (k,) or (..., k).
        generator: source of the redraws of clips and controls.
        draws: of the floor, and of bias and interval.
        level: of the interval.
        sampling: of the clips; anything but `iid` is refused.

    Raises:
        ConfusionError: where the matrix is too poor (which one that lacks a label altogether always is), or no clip is left
            that ended in an outcome.
    """
    require_iid(sampling, "a corrected distance")
    y, p = check_counts(observed), check_q(q)
    matrix, sizes, noise = confusion_matrix(confusion)
    if y.shape != (p.size + 1,) or matrix.shape[1] != p.size + 1:
        raise ValueError(f"labels and confusion must have {p.size + 1} columns, got {y.shape} and {matrix.shape}")
    if y.sum() == 0:
        raise ValueError("at least one label is needed")
    total, estimate = int(y.sum()), maximum_likelihood(y, matrix)
    if estimate[:-1].sum() <= STEP:
        raise ConfusionError("the labels are explained by clips without an outcome alone: there is nothing to compare with q")
    difference = _difference(estimate, p)
    distance = float(np.abs(difference).sum() / 2)
    under_q = np.append((1 - estimate[-1]) * p, estimate[-1])
    null = np.abs(_difference(_redraw(under_q, total, matrix, sizes, generator, draws), p)).sum(-1) / 2
    redrawn = _difference(_redraw(estimate, total, matrix, sizes, generator, draws), p)
    redrawn = redrawn[~np.isnan(redrawn).any(-1)]
    if len(redrawn) < draws // 2:
        raise ConfusionError("too few clips ended in an outcome: more than half of the redraws have none")
    singular = np.linalg.svd(matrix, compute_uv=False)
    return Correction(
        shares=tuple(float(share) for share in difference + p),
        null=float(estimate[-1]),
        tvd=distance,
        raw=float(metrics.tvd(y[:-1], p)),
        floor=float(np.nanmean(null)),
        bias=float((np.abs(redrawn).sum(-1) / 2).mean() - distance),
        interval=difference_interval(difference, redrawn, level),
        condition=float(singular[0] / singular[-1]),
        singular=float(singular[-1]),
        noise=noise,
        assumption=ASSUMPTION + (UNMEASURED if np.isinf(sizes[-1]) else ""),
    )
