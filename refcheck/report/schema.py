"""What a result.json must look like before a page shows it: types, bounds, and figures that follow from their counts.

It reads no file and draws nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import isclose
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from refcheck import metrics
from refcheck.sequential import beta_binomial_interval, mixture_radius, mixture_rho
from refcheck.untrusted import Strict, shown
from scenes.schema import EXACT, MOST_OUTCOMES

ROUNDING = 1e-9
"""Figures that follow from counts may differ from ours by rounding alone."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Words = Annotated[str, StringConstraints(max_length=4000)]
Count = Annotated[int, Field(ge=0, le=10**12)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Level = Annotated[float, Field(ge=1e-12, lt=0.5, allow_inf_nan=False)]
Distance = Annotated[float, Field(ge=1e-6, le=1, allow_inf_nan=False)]
Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e12, le=1e12)]
Ends = Annotated[list[Number], Field(min_length=2, max_length=2)]
Band = Annotated[Ends | None, BeforeValidator(lambda ends: None if ends == [None, None] else ends)]
"""Of a TVD; null where there was nothing to compare."""
Exact = Annotated[str, StringConstraints(pattern=EXACT)]
Labels = Annotated[list[Name], Field(min_length=1, max_length=MOST_OUTCOMES)]
Verdict = Literal["holds", "fails", "undecided", "consistent (assumption)"]
Option = Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,40}$")]


class Config(Strict):
    """What was asked for."""

    options: dict[Option, str | float | int | bool | None] = Field(default_factory=dict)
    overrides: list[Words] = Field(default_factory=list)
    scenes: dict[Name, dict[str, Any]] = Field(default_factory=dict)


class Header(Strict):
    """What every result says of its origin; `form` (its `schema`) is the verb and the version of the result's form."""

    form: Annotated[str, StringConstraints(pattern=r"^quincunx\.[a-z]{1,20}/v[0-9]{1,3}$")] = Field(alias="schema")
    version: Name
    created: Name
    versions: dict[Name, Name | None] = Field(default_factory=dict)
    config: Config = Field(default_factory=Config)
    seed: Annotated[int, Field(ge=0, lt=2**64)] | None = None

    @property
    def verb(self) -> str:
        """The verb that wrote it."""
        return self.form.removeprefix("quincunx.").partition("/")[0]


class Tally(Strict):
    """Counts in the order of `outcomes`, and nulls by reason."""

    outcomes: Labels
    counts: list[Count]
    nulls: dict[Name, Count] = Field(default_factory=dict)
    sampling: Literal["iid", "quota", "coupled"]


class Rate(Strict):
    """A share with its interval and limit."""

    value: Share
    lower: Share
    upper: Share
    limit: Share


class PValue(Strict):
    """A p-value and how it was computed."""

    value: Share | None
    statistic: Number | None
    kind: Name
    method: Name
    draws: Count = 0
    reached: Count | None = None


class EvidenceCheck(Strict):
    """One further check of a certificate, in words and figures."""

    said: Words
    n: Count
    tvd: Share | None
    lower: Share | None
    upper: Share | None
    shares: dict[Name, Share]
    alike: Share | None = None


class EngineSettings(Strict):
    """What integrated the rollouts; a kernel that goes from event to event has no step."""

    name: Name
    version: Name
    steps_per_second: Count | None
    time_limit: Number


class SettleTime(Strict):
    """Simulated seconds to rest."""

    median: Number | None
    p95: Number | None


class Certificate(Strict):
    """One scene's certificate as `verify` writes it."""

    scene: Name
    digest: Name
    stream: Name
    seed: Annotated[int, Field(ge=0, lt=2**64)]
    verdict: Verdict
    reason: Name
    tally: Tally
    q: dict[Name, Exact]
    tvd: Share | None
    lower: Share
    upper: Share
    epsilon: Distance
    alpha: Level
    null_rate: Rate
    p_value: PValue
    basis: Literal["mechanism", "hidden_state", "assumption"]
    engine: EngineSettings
    n: Count
    looks: Count
    first_rest_disagree: Share | None
    settle_time: SettleTime
    seconds: Number
    rollouts_per_second: Number | None
    evidence: dict[Name, Words | EvidenceCheck]

    def contradictions(self) -> list[str]:
        """Say which figures do not follow from the tally, and which verdict does not follow from the figures."""
        wrong = tally_problems(self.tally, self.q)
        if wrong:
            return wrong
        valid, nulls = sum(self.tally.counts), sum(self.tally.nulls.values())
        wrong = [*follows("tvd", self.tvd, tvd(self.tally.counts, self.q, self.tally.outcomes))]
        if valid + nulls != self.n:
            wrong.append(f"n is {self.n}, its tally counts {valid + nulls}")
        radius = mixture_radius(valid, mixture_rho(self.epsilon, self.alpha), self.alpha)
        wrong += follows("upper", self.upper, min(1.0, (self.tvd or 0.0) + radius))
        ends = beta_binomial_interval(nulls, valid + nulls, self.alpha)
        wrong += follows("null_rate.lower", self.null_rate.lower, ends[0])
        wrong += follows("null_rate.upper", self.null_rate.upper, ends[1])
        if self.lower > self.upper:
            wrong.append(f"lower is {self.lower}, above its upper {self.upper}")
        limit, inside = self.null_rate.limit, self.upper < self.epsilon
        if self.verdict in ("holds", "consistent (assumption)") and not (inside and self.null_rate.upper < limit):
            wrong.append(f"says {self.verdict!r}, but its interval ends are {self.upper} and {self.null_rate.upper} (nulls)")
        if self.verdict == "fails" and not (self.lower > self.epsilon or self.null_rate.lower > limit):
            wrong.append(f"says 'fails', but its interval begins at {self.lower} and {self.null_rate.lower} (nulls)")
        if self.verdict == "holds" and self.basis == "assumption":
            wrong.append("says 'holds' on an assumption, which can only be consistent")
        for name, check in self.evidence.items():
            if isinstance(check, EvidenceCheck) and check.n and list(check.shares) != self.tally.outcomes:
                wrong.append(f"has shares of {shown(list(check.shares))} in its {name} for {shown(self.tally.outcomes)}")
        return wrong


class Certificates(Strict):
    """The result of `verify`."""

    certificates: Annotated[list[Certificate], Field(max_length=1000)]


class Biased(Strict):
    """What `bias` found of a picture, as far as a freeze asks."""

    scene: Name
    picture: Words
    verdict: Literal["faithful", "biased", "unclear"]
    lower: Share
    upper: Share
    epsilon: Share
    to_blame: list[Name]

    def contradictions(self) -> list[str]:
        """Say that the verdict does not follow from its bounds, where that is so."""
        follows = "biased" if self.lower > self.epsilon else "faithful" if self.upper <= self.epsilon else "unclear"
        if self.lower > self.upper:
            return [f"lower is {self.lower}, above its upper {self.upper}"]
        told = f"says {self.verdict!r}, but {self.lower} to {self.upper} is {follows!r} at epsilon {self.epsilon}"
        return [] if follows == self.verdict else [told]


class Pictured(Strict):
    """The result of `bias`; without one where it wrote a template."""

    bias: Biased | None = None
    image_sha256: Name | None = None
    digests: dict[Name, Name] = Field(default_factory=dict)


class Counted(Strict):
    """Counts in the order of the outcomes, and nulls by reason."""

    counts: list[Count]
    nulls: dict[Name, Count] = Field(default_factory=dict)


class Clip(Strict):
    """One control: the outcome its rollout truly ended in, and what the judge read."""

    truth: Name
    reading: Name | None
    null: Words | None = None


class Controls(Strict):
    """The result of `controls`: clips of known outcome, and a judge's readings of them."""

    scene: Name
    digest: Name
    k: Count
    judge: dict[Name, Any]
    outcomes: Labels
    q: list[Exact] | dict[Name, Exact]
    truth: Counted
    judged: Counted
    confusion: list[list[Count]]
    confusion_columns: Labels
    accuracy: Share | None
    abstained: Share | None
    tvd_truth: Share | None
    tvd_judged: Share | None
    floor: Share | None
    floor_judged: Share | None
    band: Band
    band_judged: Band
    score_truth: Number | None
    score_judged: Number | None
    infrastructure_failures: Count
    clips: list[Clip]
    sheet: Words | None = None
    source: Words | None = None
    seconds: dict[Name, Number] | Number | None = None

    @property
    def q_in_order(self) -> list[str]:
        """The reference in the order of the outcomes."""
        return [self.q[label] for label in self.outcomes] if isinstance(self.q, dict) else self.q

    @property
    def answered(self) -> int:
        """Clips that the judge gave an outcome."""
        return sum(self.judged.counts)

    @property
    def right(self) -> int:
        """Clips that the judge gave their true outcome."""
        return sum(row[self.confusion_columns.index(label)] for label, row in zip(self.outcomes, self.confusion, strict=True))

    def contradictions(self) -> list[str]:
        """Say which figures do not follow from the confusion matrix and the counts."""
        k = len(self.outcomes)
        widths = {len(row) for row in self.confusion} - {len(self.confusion_columns)}
        if len(self.confusion) != k or widths or len(self.truth.counts) != k or len(self.judged.counts) != k:
            return ["has a confusion matrix or counts whose shape is not that of its outcomes"]
        if missing := [label for label in self.outcomes if label not in self.confusion_columns]:
            return [f"has no confusion column for {shown(missing)}"]
        if (isinstance(self.q, list) and len(self.q) != k) or (isinstance(self.q, dict) and set(self.q) != set(self.outcomes)):
            return [f"has a q that is not over its outcomes {shown(self.outcomes)}"]
        q = dict(zip(self.outcomes, self.q_in_order, strict=True))
        if wrong := _q_problems(q):
            return wrong
        if sum(self.truth.counts) + self.infrastructure_failures != self.k:
            wrong.append(f"k is {self.k}, but its clips and failures sum to another number")
        columns = [sum(row[self.confusion_columns.index(label)] for row in self.confusion) for label in self.outcomes]
        if [sum(row) for row in self.confusion] != self.truth.counts or columns != self.judged.counts:
            wrong.append("has a confusion matrix whose sums are not its counts")
        wrong += follows("accuracy", self.accuracy, self.right / self.answered if self.answered else None)
        wrong += follows("tvd_truth", self.tvd_truth, tvd(self.truth.counts, q, self.outcomes))
        return wrong + follows("tvd_judged", self.tvd_judged, tvd(self.judged.counts, q, self.outcomes))


def contradictions(body: Any) -> list[str]:
    """Say which figures of a certificate, of controls or of what bias found do not follow from one another."""
    if isinstance(body, Certificates):
        return [f"certificate {shown(one.scene)} {problem}" for one in body.certificates for problem in one.contradictions()]
    if isinstance(body, Pictured):
        return [] if body.bias is None else body.bias.contradictions()
    return body.contradictions() if isinstance(body, Controls) else []


class RenderedClip(Strict):
    """One clip: the rollout it shows, and how that ended."""

    index: Count
    outcome: Name | None
    null: Words = ""


class Fact(Strict):
    """One fact of theory or measurement that a device was held to: what it says, from where, and how its cases went."""

    device: Name
    fact: Words
    told: Words
    source: Words
    passed: Count
    cases: Count
    seconds: Number


class Validity(Strict):
    """What the tests of validity found."""

    facts: Annotated[list[Fact], Field(max_length=10_000)]


class RenderedScene(Strict):
    """One scene's source image, clips and contact sheet, in `folder` below the result."""

    scene: Name
    digest: Name
    folder: Name = "."
    clips: Annotated[list[RenderedClip], Field(max_length=10_000)]
    source: Words
    sheet: Words
    missing: list[Name] = Field(default_factory=list)


class Rendered(Strict):
    """The result of `render`; that of a single scene's chosen clips, which has no list, is read as a list of one."""

    scenes: Annotated[list[RenderedScene], Field(min_length=1, max_length=1000)]

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return {"scenes": [value]} if isinstance(value, dict) and "scenes" not in value else value


def tvd(counts: Sequence[int], q: Mapping[str, str], outcomes: Sequence[str]) -> float | None:
    """Return the TVD of counts (k,) from `q`, None without a count."""
    return float(metrics.tvd(counts, probabilities(q, outcomes))) if sum(counts) else None


def probabilities(q: Mapping[str, str], outcomes: Sequence[str]) -> np.ndarray:
    """Return `q` as (k,) floats in the order of `outcomes`."""
    return np.array([float(Fraction(q[label])) for label in outcomes])


def tally_problems(tally: Any, q: Mapping[str, str]) -> list[str]:
    """Say what is wrong with the outcomes and counts of `tally`, and with `q` over them."""
    if len(tally.counts) != len(tally.outcomes) or len(set(tally.outcomes)) != len(tally.outcomes):
        return [f"has {len(tally.counts)} counts for the outcomes {shown(tally.outcomes)}"]
    if set(q) != set(tally.outcomes):
        return [f"has q over {shown(list(q))} for the outcomes {shown(tally.outcomes)}"]
    return _q_problems(q)


def _q_problems(q: Mapping[str, str]) -> list[str]:
    if any(part.partition("/")[2].strip("0") == "" and "/" in part for part in q.values()):
        return ["has a q with denominator 0"]
    total = sum(Fraction(part) for part in q.values())
    return [] if isclose(total, 1, abs_tol=ROUNDING) else [f"has a q that sums to {float(total)}"]


def follows(name: str, said: float | None, ours: float | None) -> list[str]:
    """Say that figure `name` is not what its counts give, where that is so."""
    same = (said is None and ours is None) or (said is not None and ours is not None and abs(said - ours) <= ROUNDING)
    return [] if same else [f"{name} is {said}, its counts give {ours}"]
