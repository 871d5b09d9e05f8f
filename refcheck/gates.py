"""The gates before a freeze: does the evidence that verify, bias and controls wrote hold for a scene as it stands now?

It reads results and compares; it runs nothing, and a result for another digest, reference or picture is no evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refcheck import prompt_check
from refcheck.evidence import Check
from refcheck.image_reading.kinds import kind_of
from refcheck.output import plain
from refcheck.report.schema import Certificate, Certificates, Controls, EvidenceCheck, Pictured, probabilities
from refcheck.support import Support, support
from refcheck.tolerance import epsilon_of
from refcheck.untrusted import Strict
from scenes.scene import Scene

HOLDS, MISSING, FAILS = "holds", "missing", "fails"
NAMES = ("basis", "certificate", "bias", "controls")
FORMS: Mapping[str, type[Strict]] = {
    "quincunx.verify/v1": Certificates,
    "quincunx.bias/v1": Pictured,
    "quincunx.controls/v1": Controls,
}
"""What evidence must look like: who reads results for `examine` checks them against these first."""
ALPHA, NULLS = 0.05, 0.02  # the weakest error rate and null limit that a certificate may have been made with
LEAST_EVIDENCE = 500
"""Rollouts of each further check: at alpha .01 the bound on its distance from the reference is then .07 wide (McDiarmid), so a
second integrator that puts a tenth elsewhere is seen. It is what the tutorial asks for; fewer agree with nearly anything."""
PICTURED = ("device", "camera", "light", "renderer", "outcomes", "reference")
"""What of a scene's config its source image and its reference depend on."""


@dataclass(frozen=True)
class Limits:
    """What the controls are held to; see the options of `quincunx freeze`."""

    accuracy: float = 0.95
    abstained: float = 0.1
    controls: int = 20

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Limits:
        """Take them from a verb's options."""
        return cls(values["accuracy"], values["abstained"], values["controls"])


@dataclass(frozen=True)
class Result:
    """One result: its path below the folder of the evidence, and what it says."""

    path: str
    value: Mapping[str, Any]


@dataclass(frozen=True)
class Gate:
    """How a gate went: `state` is holds, missing or fails; `told` says why; `evidence` (from `source`) is what it was shown."""

    name: str
    state: str
    told: str
    source: str | None = None
    evidence: Mapping[str, Any] | None = None


def examine(
    scene: Scene,
    config: Mapping[str, Any],
    digest: str,
    results: Sequence[Result],
    limits: Limits,
    image: str | None = None,
) -> tuple[Gate, ...]:
    """Return how every gate of `NAMES` went for a scene of this config and digest, frozen with a picture of SHA-256 `image`.

    Without one it is frozen with its own source image.
    """
    return (
        _basis(scene),
        _certificate(scene, digest, results),
        _bias(scene, config, digest, results, image),
        _controls(scene, digest, results, limits),
    )


def notes(scene: Scene) -> tuple[str, ...]:
    """Return what is found of the scene's words and first frame, which refuses nothing."""
    return tuple(prompt_check.problems(scene))


def _basis(scene: Scene) -> Gate:
    if scene.basis == "assumption":
        return Gate("basis", FAILS, "the reference rests on an assumption, which physics can agree with and not certify")
    return Gate("basis", HOLDS, scene.basis)


def _certificate(scene: Scene, digest: str, results: Sequence[Result]) -> Gate:
    found = []
    for result in _of("quincunx.verify/v1", results):
        for one in _list(result.value.get("certificates")):
            # A non-causal pair has one digest and one stream: its physics is the same, and so is its certificate.
            if one.get("scene") == scene.id or (one.get("digest"), one.get("stream")) == (digest, scene.stream):
                found.append((result, {**_origin(result), "certificate": one}))

    def unfit(held: Mapping[str, Any]) -> str:
        one = held["certificate"]
        if one.get("digest") != digest:
            return f"it is for digest {one.get('digest')}, the scene has {digest} now"
        if one.get("q") != _exact(scene):
            return f"it is for the reference {one.get('q')}, the scene claims {_exact(scene)} now"
        limit = (one.get("null_rate") or {}).get("limit")
        weak = [
            f"{key}={value} (at most {most:g})"
            for key, value, most in (
                ("epsilon", one.get("epsilon"), epsilon_of(scene)),
                ("alpha", one.get("alpha"), ALPHA),
                ("null_limit", limit, NULLS),
            )
            if not isinstance(value, float) or value > most
        ]
        if weak:
            return f"it was made with {', '.join(weak)}"
        lacks = _lacks(scene, one) if one.get("verdict") == HOLDS else []  # what fails is refused without further ado
        return f"it lacks {', '.join(lacks)}, which evidence=2000 gathers" if lacks else ""

    def told(held: Mapping[str, Any]) -> tuple[str, str]:
        one = held["certificate"]
        verdict, reason = str(one.get("verdict")), one.get("reason")
        tvd, lower, upper, epsilon = (_number(one.get(key)) for key in ("tvd", "lower", "upper", "epsilon"))
        nulls = _number((one.get("null_rate") or {}).get("value"))
        said = f"verify says {verdict} ({reason}): TVD {tvd} in {lower} to {upper}, epsilon {epsilon}, nulls {nulls}, "
        said += f"n {one.get('n')}"
        against = [check.said for check in _supports(one) if check.status == "contradicts"]
        if verdict == HOLDS and against:
            return FAILS, f"{said}; but {'; '.join(against)}"
        return {HOLDS: HOLDS, FAILS: FAILS}.get(verdict, "undecided"), said

    if scene.reference.q is None:
        return Gate("certificate", MISSING, f"a {scene.track} scene without an exact reference has nothing to certify")
    return _judged("certificate", f"quincunx verify scene={scene.id}", found, unfit, told)


def _lacks(scene: Scene, one: Mapping[str, Any]) -> list[str]:
    """Return which checks that can be run for `scene` were not, or ran too few rollouts to say anything."""
    can = {
        "second_integrator": len(scene.integrators) > 1,
        "step_halving": scene.integrator.steps_per_second is not None,
        "knock_out": scene.knock_out is not None,
    }
    held = {name: check for name, check in (one.get("evidence") or {}).items() if isinstance(check, Mapping)}
    ran = {name: held.get(name, {}).get("n", 0) for name in can}
    lacks = [
        f"{name.replace('_', ' ')} (n = {ran[name]}, {LEAST_EVIDENCE} are the fewest)"
        for name, possible in can.items()
        if possible and ran[name] < LEAST_EVIDENCE
    ]
    return lacks or [f"a knock-out that decides ({check.said})" for check in _supports(one) if check.status == "open"]


def _supports(one: Mapping[str, Any]) -> list[Support]:
    """Return what the checks of a certificate say of its verdict: of their figures, whatever the file says they say."""
    certificate = Certificate.model_validate(one)
    q = probabilities(certificate.q, certificate.tally.outcomes)
    ran = {name: check for name, check in certificate.evidence.items() if isinstance(check, EvidenceCheck) and check.n}
    return [support(name, Check(**check.model_dump()), certificate, q) for name, check in ran.items()]


def _bias(scene: Scene, config: Mapping[str, Any], digest: str, results: Sequence[Result], image: str | None) -> Gate:
    if kind_of(scene.device) is None:
        return Gate("bias", MISSING, f"bias cannot measure pictures of a {type(scene.device).__name__}")
    found = [
        (
            result,
            {
                **_origin(result),
                "digest": (result.value.get("digests") or {}).get(scene.id),
                "image_sha256": result.value.get("image_sha256"),
                "bias": one,
            },
        )
        for result in _of("quincunx.bias/v1", results)
        if isinstance(one := result.value.get("bias"), dict) and one.get("scene") == scene.id
    ]
    now = {key: plain(config.get(key)) for key in PICTURED}

    def unfit(held: Mapping[str, Any]) -> str:
        was = (held["config"].get("scenes") or {}).get(scene.id) or {}
        changed = [key for key in PICTURED if was.get(key) != now[key]]
        if held["digest"] != digest or changed:
            return f"it is for another {', '.join(changed) or 'digest'} than the scene has now"
        epsilon, shown = held["bias"].get("epsilon"), (held["config"].get("options") or {}).get("image")
        if not isinstance(epsilon, float) or epsilon > epsilon_of(scene):
            return f"it was made with epsilon={epsilon} (at most {epsilon_of(scene):g})"
        if held["image_sha256"] != image and held["bias"].get("verdict") == "faithful":
            frozen = "the scene's own source image" if image is None else "the one of that name in images="
            return f"it measured {shown or 'the source image of the scene'}, and the picture that is frozen is {frozen}"
        return ""

    def told(held: Mapping[str, Any]) -> tuple[str, str]:
        one = held["bias"]
        blame = f"; to blame: {', '.join(map(str, one['to_blame']))}" if one.get("to_blame") else ""
        said = (
            f"bias says {one.get('verdict')} of {one.get('picture')}: the distance of what it shows from the reference is in "
        )
        said += f"{_number(one.get('lower'))} to {_number(one.get('upper'))}, epsilon {_number(one.get('epsilon'))}{blame}"
        return {"faithful": HOLDS, "biased": FAILS}.get(str(one.get("verdict")), "unclear"), said

    return _judged("bias", f"quincunx bias scene={scene.id}", found, unfit, told)


def _controls(scene: Scene, digest: str, results: Sequence[Result], limits: Limits) -> Gate:
    found = [
        (result, dict(result.value)) for result in _of("quincunx.controls/v1", results) if result.value.get("scene") == scene.id
    ]

    def unfit(held: Mapping[str, Any]) -> str:
        if held.get("digest") != digest:
            return f"they are for digest {held.get('digest')}, the scene has {digest} now"
        if held.get("q") != _exact(scene):
            return f"they are spread as {held.get('q')}, the scene claims {_exact(scene)} now"
        if (held.get("judge") or {}).get("name") == "state":
            return "their judge is the state itself, which reads no clip"
        kind = (held.get("set") or {}).get("kind", "iid")
        if kind != "iid":
            return f"they are of set={kind}, not spread as the reference says"
        return ""

    def told(held: Mapping[str, Any]) -> tuple[str, str]:
        k, failures, right, open_ = (held.get(key) for key in ("k", "infrastructure_failures", "accuracy", "abstained"))
        read, truth, band = held.get("tvd_judged"), held.get("tvd_truth"), held.get("band_judged") or [None]
        wrong = [
            f"{failures} of them could not be read" if failures != 0 else "",
            f"there are {k}, and {limits.controls} are the fewest" if not _at_least(k, limits.controls) else "",
            f"the judge is right in {_number(right)} of its answers, {limits.accuracy:g} is the least"
            if not _at_least(right, limits.accuracy)
            else "",
            f"it leaves {_number(open_)} unanswered, {limits.abstained:g} is the most"
            if not _at_least(limits.abstained, open_)
            else "",
            # The truth is itself a sample, and one in forty lies beyond the band.
            f"what is read is {_number(read)} from the reference, the truth {_number(truth)}, band to {_number(band[-1])}"
            if not (_at_least(band[-1], read) or _at_least(truth, read))
            else "",
        ]
        judge = (held.get("judge") or {}).get("name")
        said = f"{k} controls, judge {judge}: right in {_number(right)} of its answers, {_number(open_)} unanswered"
        report = held.get("report") or {}
        if report.get("usable") is False:  # asks for more controls than `Limits.controls`; said, and left to the author
            said += f" (not yet usable by its own report: {'; '.join(_texts(report.get('against')))})"
        told = [one for one in wrong if one]
        return (FAILS, f"{said}: {'; '.join(told)}") if told else (HOLDS, said)

    if scene.reference.q is None:
        return Gate("controls", MISSING, f"a {scene.track} scene without an exact reference has no calibrated controls")
    return _judged("controls", f"quincunx controls scene={scene.id}", found, unfit, told, any_holds=True)


Held = Mapping[str, Any]


def _judged(
    name: str,
    command: str,
    found: Sequence[tuple[Result, Held]],
    unfit: Callable[[Held], str],
    told: Callable[[Held], tuple[str, str]],
    any_holds: bool = False,
) -> Gate:
    """Return the gate that the evidence `found` makes. A failure beside a success is one: a verdict is not chosen among runs.

    With `any_holds` it is not: one judge that reads the clips is enough. Of equal results the latest speaks.
    """
    fit, useless = [], []
    for result, held in sorted(found, key=lambda pair: str(pair[0].value.get("created"))):
        reason = unfit(held)
        if reason:
            useless.append(f"{result.path}: {reason}")
        else:
            fit.append((*told(held), result, held))
    if not fit:
        why = f"none of the evidence counts: {'; '.join(useless)}" if useless else "there is no result of it"
        return Gate(name, MISSING, f"{why}; run `{command} out=...`")
    states = [state for state, *_ in fit]
    order = (HOLDS, FAILS) if any_holds else (FAILS, HOLDS)
    state = next((one for one in order if one in states), states[-1])
    _, said, result, held = [one for one in fit if one[0] == state][-1]
    if state == FAILS and HOLDS in states:
        said += "; another run of it holds, and a verdict is not chosen among runs"
    return Gate(name, state, f"{said} ({result.path})", result.path, held)


def _of(schema: str, results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.value.get("schema") == schema]


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _origin(result: Result) -> dict[str, Any]:
    """Return who said it, with what."""
    kept = ("schema", "verb", "version", "created", "versions", "seed")
    config = result.value.get("config")
    return {**{key: result.value.get(key) for key in kept}, "config": config if isinstance(config, dict) else {}}


def _exact(scene: Scene) -> dict[str, str]:
    return {label: str(share) for label, share in (scene.reference.q or {}).items()}


def _at_least(value: Any, least: Any) -> bool:
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (value, least))
    return numbers and value >= least


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else "unknown"
