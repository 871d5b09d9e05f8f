"""Whether the evidence for a certificate bears its verdict out: `holds` and `fails` are asked for the same.

It reads what `evidence` ran and runs nothing itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from refcheck import metrics
from refcheck.evidence import NOT_YET, Check, evidence_of

if TYPE_CHECKING:
    from refcheck.verify import Certificate

Status = Literal["agrees", "contradicts", "open", "missing"]


class Judged(Protocol):
    """What of a certificate its checks are held to: one just made, or one read back."""

    @property
    def alpha(self) -> float: ...  # noqa: D102
    @property
    def epsilon(self) -> float: ...  # noqa: D102
    @property
    def verdict(self) -> str: ...  # noqa: D102
    @property
    def reason(self) -> str: ...  # noqa: D102
    @property
    def engine(self) -> Any: ...  # noqa: D102


@dataclass(frozen=True)
class Distance:
    """TVD from q of n rollouts that ended in an outcome; the distance of their law lies in [`lower`, `upper`]."""

    tvd: float
    lower: float
    upper: float
    n: int


@dataclass(frozen=True)
class Support:
    """What one check says of the verdict. `distance` is that of the changed physics from q, None where nothing ran.

    `agrees`: as far as it goes; `contradicts`: its bounds exclude the verdict, or leave a knock-out no room to move anything;
    `open`: too few rollouts to tell whether a knock-out moves anything; `missing`: it was not run, or cannot be.
    """

    check: str
    status: Status
    said: str
    distance: Distance | None = None


def bounded(counts: NDArray[np.integer], q: NDArray[np.float64], alpha: float) -> Distance:
    """Return the distance from `q` (k,) of `counts` (k,), at least one rollout, each bound with error `alpha`.

    McDiarmid (1989): one rollout moves TVD by 1/n at most, and its mean exceeds the distance by at most what the shares'
    own noise gives (`metrics.expected_tvd` at the shares).
    """
    n = int(counts.sum())
    tvd, floor = float(metrics.tvd(counts, q)), float(metrics.expected_tvd(n, counts / n))
    radius = math.sqrt(math.log(1.0 / alpha) / (2.0 * n))
    return Distance(tvd, max(0.0, tvd - floor - radius), min(1.0, tvd + radius), n)


def distance_of(check: Check, q: NDArray[np.float64], alpha: float) -> Distance | None:
    """Return how far from `q` (k,) the changed physics of `check` is; None where it did not run or all ended in nulls."""
    counts = np.rint(np.array(list(check.shares.values())) * check.n).astype(np.int64)
    return bounded(counts, q, alpha) if counts.sum() else None


def supports(certificate: Certificate, q: NDArray[np.float64]) -> tuple[Support, ...]:
    """Return what each check says of the certificate's verdict about the reference `q` (k,)."""
    return tuple(support(name, check, certificate, q) for name, check in evidence_of(certificate).items())


def support(name: str, check: Check, one: Judged, q: NDArray[np.float64]) -> Support:
    """Return what one check says of the verdict of `one` about the reference `q` (k,), in the order of the check's shares."""
    title = name.replace("_", " ")
    if check.n == 0 and name == "step_halving" and one.engine.steps_per_second is None:
        return Support(name, "agrees", f"{title}: nothing to halve, {one.engine.name} goes from event to event")
    if check.n == 0:
        return Support(name, "missing", f"{title}: {'not run' if check.said == NOT_YET else check.said}")
    found = distance_of(check, q, one.alpha)
    if name == "knock_out":
        moved = check.lower is not None and check.lower > 0.0
        far = "" if found is None else f", {_told(found)}"
        idle = not moved and check.upper is not None and check.upper < one.epsilon
        what = "moves the outcomes" if moved else "leaves the outcomes alone" if idle else "may or may not move the outcomes"
        status: Status = "agrees" if moved else "contradicts" if idle else "open"
        return Support(name, status, f"{title}: {what} (n = {check.n}){far}", found)
    if found is None:
        return Support(name, "contradicts", f"{title}: none of its {check.n} rollouts ends in an outcome")
    by_distance = one.reason == "distance"
    against = (
        found.lower > one.epsilon
        if one.verdict in ("holds", "consistent (assumption)")
        else found.upper < one.epsilon
        if one.verdict == "fails" and by_distance
        else False
    )
    word = "contradicts the verdict" if against else "agrees, as far as its n goes"
    return Support(name, "contradicts" if against else "agrees", f"{title}: {word}: {_told(found)}", found)


def _told(found: Distance) -> str:
    return f"{found.tvd:.4f} from q ({found.lower:.4f} to {found.upper:.4f}, n = {found.n})"
