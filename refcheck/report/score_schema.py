"""What the result of `score` must look like before a page shows it: types, bounds, and figures that follow from their counts.

It reads no file and draws nothing.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from refcheck.report.schema import Count, Ends, Exact, Labels, Name, Number, Share, Words, follows, tally_problems, tvd
from refcheck.untrusted import Strict


class Mntv(Strict):
    """A model's mnTV with its interval and what a model that is q would get."""

    value: Number
    ci95: Ends
    ci_method: Words
    if_q: Number
    if_q_band95: Ends
    scenes: Count
    partial: bool
    missing: list[Name]
    notes: list[Words]


class ScoreCell(Strict):
    """One model on one scene."""

    N: Count
    n_valid: Count
    rho: Share
    outcomes: Labels
    q: list[Exact]
    counts: list[Count]
    tv: Share | None
    e0: Share | None
    band: Ends | None
    excess: Number | None
    score: Number
    chi2: Number | None
    p: Share | None
    p_reached: Count | None = None
    p_benjamini_hochberg: Share | None
    rejected: bool | None

    def contradictions(self) -> list[str]:
        """Say which figures do not follow from the counts."""
        wrong = tally_problems(self, dict(zip(self.outcomes, self.q, strict=False)))
        if wrong or len(self.q) != len(self.outcomes):
            return wrong or [f"has {len(self.q)} probabilities for {len(self.outcomes)} outcomes"]
        if sum(self.counts) != self.n_valid or self.n_valid > self.N:
            wrong.append(f"n_valid is {self.n_valid} of {self.N}, the counts sum to {sum(self.counts)}")
        q = dict(zip(self.outcomes, self.q, strict=True))
        return wrong + follows("tv", self.tv, tvd(self.counts, q, self.outcomes))


class ScoredModel(Strict):
    """One model's figures by CaliBench's protocol."""

    mntv: Mntv
    cells: dict[Name, ScoreCell]


class Tests(Strict):
    """What the tests over all cells say together."""

    testable: Count
    rate: Share
    rejected_benjamini_hochberg: Count
    rejected_bonferroni: Count


class Metric(Strict):
    """A named figure."""

    name: Name
    value: Number


class MatchedNull(Strict):
    """A track average's null."""

    mean: Number
    q99: Number
    draws: Count
    p: Share


class PassRate(Strict):
    """Passing scenes of a track."""

    passing_scenes: Count | None
    scene_denominator: Count


class PawScene(Strict):
    """One model on one of PAWBench's scenes; figures in percent."""

    scene_id: Name
    valid_outcomes: Count
    null_observations: Count
    infrastructure_failures: Count
    status: Literal["pass", "fail", "blocked"]
    metric: Metric | None
    floor: Number | None = None
    band: Ends | None = None


class PawModel(Strict):
    """One model on one of PAWBench's tracks."""

    status: Literal["ok", "blocked"]
    scenes: list[PawScene]
    track_average: Metric | None
    matched_null: MatchedNull | None
    scene_pass_rate: PassRate


class PawTrack(Strict):
    """One of PAWBench's tracks."""

    models: dict[Name, PawModel]


class PawBench(Strict):
    """PAWBench's figures; `partial` when not the whole benchmark was there."""

    tracks: dict[Literal["calibration", "coverage"], PawTrack]
    partial: bool


class Score(Strict):
    """The result of `score`; the page tells of `comparisons` and `power` only that they are there."""

    models: dict[Name, ScoredModel]
    tests: Tests | None = None
    inputs: dict[Words, Name] = Field(default_factory=dict)
    draws: Count
    pawbench: PawBench | None = None
    comparisons: Any = None
    power: Any = None
