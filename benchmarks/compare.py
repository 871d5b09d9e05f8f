"""What a speed comparison is: a scene run by its kernel beside the shortest loop that a competent user would write for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Ends = list[tuple[int, float]]
"""What each of a plain loop's rollouts showed at its end (-1: nothing within the time limit), and when that was [s]."""


@dataclass(frozen=True)
class Comparison:
    """`run_peer(n, rate)` runs n rollouts of `scene`'s apparatus in a plain engine loop that `peer` describes, on one core.

    `rate` is its steps a second when it is timed: the coarsest that half the step bears out, as `peer_steps` finds.
    `peer_rollouts` is an n that takes it about two seconds; `target` is the ratio of rates that the kernel is meant to reach.
    """

    scene: str
    peer: str
    run_peer: Callable[[int, int], Ends]
    rate: int
    peer_rollouts: int
    target: float
