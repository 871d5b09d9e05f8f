"""What a speed comparison is: a scene run by its kernel beside the shortest loop that a competent user would write for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """`run_peer(n)` runs n rollouts of `scene`'s apparatus in a plain engine loop that `peer` describes, on one core.

    `peer_rollouts` is an n that takes it about two seconds; `target` is the ratio of rates that the kernel is meant to reach.
    """

    scene: str
    peer: str
    run_peer: Callable[[int], None]
    peer_rollouts: int
    target: float
