"""`quincunx generate`: new scenes from a family's ranges, unlike one another, each with picture, prompt and rubric.

It claims what the visible parts imply, as exact fractions, and refuses to know whether physics agrees: that is verify's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from rich import box
from rich.table import Table

from refcheck import metrics, verify
from refcheck.command import Answer, Option, Request, UserError
from refcheck.families import BUILDERS, Config, Impossible, Partner, Proposal, Ranges
from refcheck.family_files import Family, family_file, ground, read_family
from refcheck.filming import source_of
from refcheck.generate_files import BENCHMARK, Written, remove_earlier, write_beside
from refcheck.options import SCENE_DIR
from refcheck.running import RUNNING, pool_of, run_by
from scenes.catalog import SceneError, beside
from scenes.frame0 import HEIGHT, WIDTH
from scenes.scene import Scene
from simulators.engines.loop import physics_digest
from simulators.render.canvas import Image
from simulators.sampling import generator

SUMMARY = "propose new scenes from a family: diverse, with exact references, pictures, prompts and rubrics"
OPTIONS = (
    Option("family", "str", ..., "conf/family/<name>.yaml, or one in scene_dir=: what varies, from where to where"),
    Option("n", "int", 10, "scenes", low=1, high=1000),
    Option("seed", "int", 0, "seed of the proposals", low=0, high=2**64 - 1),
    Option(
        "candidates",
        "int",
        400,
        "proposals to choose from; of the same ones, a smaller n= takes the first",
        low=1,
        high=100_000,
    ),
    Option("partners", "bool", False, "a causal and a non-causal partner of each scene, where the family has one"),
    Option("verify", "bool", False, "a first certificate of each scene, without the evidence that a freeze asks for"),
    Option(
        "width", "int", None, "of their pictures, by default the base scene's; small ones are drawn sooner", low=256, high=8192
    ),
    Option("k", "int", 50, "rollouts that a benchmark takes of a scene, for its floor", low=1, high=100_000),
    SCENE_DIR,
    *RUNNING,
)
USES_SCENES = False
SAME, SAME_PICTURE = 0.05, 2.0
"""Nearer than this is a near-duplicate: in every measure of look (of its range), and mean grey levels of a small picture."""
SMALL = (52, 30)  # px of the pictures that are compared


@dataclass(frozen=True, eq=False)
class Candidate:
    """A proposal with its place among the others: the numbers that farthest-point choice compares."""

    number: int
    proposal: Proposal
    place: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen, with pictures, and why others were not."""

    chosen: list[tuple[Candidate, str, Image]] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)


def difficulty(q: Mapping[str, Fraction], k: int) -> dict[str, Any]:
    """Return how hard a reference is to meet: entropy [bits], the TVD that a perfect model has on average in `k` rollouts."""
    shares = np.array([float(share) for share in q.values()])
    some = shares[shares > 0.0]
    return {
        "outcomes": len(shares),
        "support": len(some),
        "entropy": float(-np.sum(some * np.log2(some))) + 0.0,
        "floor": float(metrics.expected_tvd(k, shares)),
        "smallest": str(min(share for share in q.values() if share > 0)),
    }


def candidates(family: Family, name: str, seed: int, count: int) -> tuple[list[Candidate], Counter[str]]:
    """Return the proposals, and why some draws make none. Whether one can be built shows when it is chosen."""
    held = ground(family)
    found, why = list[Candidate](), Counter[str]()
    for number in range(count):
        ranges = Ranges(family.ranges, generator(seed, f"family/{name}", "proposal", number, 0))
        try:
            proposal = BUILDERS[family.builder](held, ranges)
        except (Impossible, ValueError) as error:
            why[str(error).splitlines()[0]] += 1
            continue
        facts = difficulty(proposal.q, 50)
        place = (facts["entropy"] / np.log2(12.0), facts["support"] / 12.0, float(Fraction(facts["smallest"])))
        found.append(Candidate(number, proposal, np.array([*place, *proposal.look])))
    return found, why


def choose(pool: Sequence[Candidate], name: str, seed: int, n: int, draw: Any, advance: Any) -> Choice:
    """Return up to `n` candidates by farthest-point choice, from the one nearest to the middle of all on.

    Each next one is the farthest from what was chosen, in the largest of its differences. Rejected are near-duplicates, in
    device or in the picture that `draw(candidate, id)` gives, and what `draw` cannot build (`SceneError`).
    """
    choice, left = Choice(), list(pool)
    if not left:
        return choice
    middle = np.median([one.place for one in left], axis=0)
    distance = np.array([-np.abs(one.place - middle).max() for one in left])
    nearest = np.full(len(left), np.inf)
    small: list[NDArray[np.float64]] = []
    while len(choice.chosen) < n and left:
        at = int(np.argmax(nearest if choice.chosen else distance))
        one = left.pop(at)
        gap = float(nearest[at])
        nearest, distance = np.delete(nearest, at), np.delete(distance, at)
        if any(one.proposal.config == other.proposal.config for other, _, _ in choice.chosen):
            choice.rejected["the same scene as one chosen"] += 1
            continue
        if gap < SAME:
            choice.rejected["nearly one chosen, in all that varies"] += 1 + len(left)
            break
        id = f"{BENCHMARK}/{name}-s{seed}-{len(choice.chosen):02d}"
        try:
            picture = draw(one, id)
        except SceneError as error:
            choice.rejected[_first(error)] += 1
            continue
        thumbnail = np.asarray(Pillow.fromarray(picture).resize(SMALL, Pillow.Resampling.BOX), float)
        alike = [float(np.abs(thumbnail - other).mean()) for other in small]
        if any(
            near < SAME_PICTURE and sorted(one.proposal.q.values()) == sorted(other.proposal.q.values())
            for near, (other, _, _) in zip(alike, choice.chosen, strict=True)
        ):
            choice.rejected["nearly the picture and the reference of one chosen"] += 1
            continue
        small.append(thumbnail)
        choice.chosen.append((one, id, picture))
        nearest = np.minimum(nearest, [float(np.abs(other.place - one.place).max()) for other in left]) if left else nearest
        advance(1)
    return choice


def scene_config(one: Proposal, id: str, title: str, made: str, width: int | None = None) -> Config:
    """Return a scene's file as data, its pictures `width` [px] wide and of the base scene's shape."""
    head = {
        "id": id,
        "title": title,
        "benchmark": BENCHMARK,
        "track": "calibration",
        "group": one.config["group"],
        "stream": id,
    }
    reference = {
        "q": {label: str(share) for label, share in one.q.items()},
        "derivation": one.derivation,
        "source": f"Our own scene, proposed by `quincunx generate {made}`; no benchmark states it",
        "standing": "derived",
    }
    camera = dict(one.config["camera"])
    if width is not None:  # even, as clips are
        height = camera.get("height", HEIGHT) * width / camera.get("width", WIDTH)
        camera |= {"width": 2 * round(width / 2), "height": 2 * round(height / 2)}
    kept = {key: value for key, value in one.config.items() if value is not None and key not in (*head, "title", "reference")}
    return {**head, **kept, "camera": camera, "reference": reference}


def partner_config(base: Config, partner: Partner, kind: Literal["causal", "non_causal"]) -> Config:
    """Return the file of a scene that changes one thing of `base`."""
    id = f"{base['id']}-{kind.replace('_', '-')}"
    config = {
        "defaults": [f"{base['id']}@_here_", "_self_"],
        "id": id,
        "title": f"{base['title']}, {kind.replace('_', '-')} partner",
        "variant": {"base": base["id"], "kind": kind, "change": partner.change},
        **partner.config,
    }
    if partner.q is not None:
        config["reference"] = {"q": {label: str(share) for label, share in partner.q.items()}}
    return config


def _first(error: SceneError) -> str:
    """Return what is wrong, without where."""
    return error.problems[0].partition(": ")[2]


def run(request: Request) -> Answer:
    """Choose scenes, write all of each, and certify them if asked. Raises `UserError`, `InfrastructureError`."""
    values = request.values
    if request.out is None:
        raise UserError("out= is missing: generate writes scenes, so say where")
    name, seed, out = values["family"], values["seed"], request.out
    family = read_family(family_file(name))
    made = " ".join(f"{key}={values[key]}" for key in ("family", "seed", "candidates", "width") if values[key] is not None)
    title = str(family.scene.get("title", name))
    with request.progress(f"propose {name}", None) as advance:
        pool, impossible = candidates(family, name, seed, values["candidates"])
    (out / "scene" / BENCHMARK).mkdir(parents=True, exist_ok=True)
    written = Written(out, made, request.overwrite)

    def draw(one: Candidate, id: str) -> Image:
        return source_of(written.sound(scene_config(one.proposal, id, title, made, values["width"])))

    with beside(out), written:
        with request.progress(f"choose {values['n']} scenes", values["n"]) as advance:
            choice = choose(pool, name, seed, values["n"], draw, advance)
        if not choice.chosen:
            raise UserError(f"no proposal of {name} makes a scene: {_counted(impossible + choice.rejected)}")
        written.keep([id for _, id, _ in choice.chosen])  # the last may have been drawn, and rejected
        drawn = [
            (written.put(scene_config(one.proposal, id, title, made, values["width"])), picture)
            for one, id, picture in choice.chosen
        ]
        for one, id, _ in choice.chosen if values["partners"] else ():
            base = scene_config(one.proposal, id, title, made, values["width"])
            kinds: tuple[tuple[Literal["causal", "non_causal"], Partner | None], ...] = (
                ("causal", one.proposal.causal),
                ("non_causal", one.proposal.non_causal),
            )
            for kind, partner in kinds:
                if partner is not None:
                    try:
                        scene = written.sound(partner_config(base, partner, kind))
                    except SceneError as error:
                        choice.rejected[f"as a {kind.replace('_', '-')} partner, {_first(error)}"] += 1
                        continue
                    drawn.append((scene, source_of(scene)))
        for scene, picture in drawn:
            write_beside(out, scene, picture)
        if request.overwrite:
            remove_earlier(out, [scene.id for scene, _ in drawn])
        certificates = _certify(request, [scene for scene, _ in drawn]) if values["verify"] else []
    rows = [_row(scene, values["k"]) for scene, _ in drawn]
    result: dict[str, Any] = {
        "family": name,
        "scenes": rows,
        "candidates": {"proposed": len(pool), "impossible": dict(impossible), "rejected": dict(choice.rejected)},
    }
    if certificates:
        result["certificates"] = certificates
    notes = [f"Chosen from {len(pool)} proposals; rejected: {_counted(choice.rejected) or 'none'}."]
    if len(choice.chosen) < values["n"]:
        notes.append(
            f"{len(choice.chosen)} of {values['n']} were found unlike enough; more candidates= or wider ranges may give more."
        )
    notes.append(
        f"Use them with scene_dir={out}, as in `quincunx verify scene_dir={out} scenes='{BENCHMARK}/{name}-s{seed}-*'`."
    )
    return Answer(result, (_table(rows, certificates), "\n".join(notes)))


def _counted(reasons: Counter[str]) -> str:
    return "; ".join(f"{count} x {reason}" for reason, count in reasons.items())


def _certify(request: Request, scenes: Sequence[Scene]) -> list[verify.Certificate]:
    certificates = []
    with pool_of(request.values, request.out) as pool:
        for scene in scenes:
            with request.progress(f"verify {scene.id}") as advance:
                certificates.append(verify.certify(run_by(scene, request.values["engine"]), pool=pool, advance=advance))
    return certificates


def _row(scene: Scene, k: int) -> dict[str, Any]:
    q = dict(scene.reference.q or {})
    return {
        "id": scene.id,
        "q": q,
        "difficulty": difficulty(q, k),
        "variant": scene.variant,
        "digest": physics_digest(scene.device, scene.integrator),
    }


def _table(rows: Sequence[dict[str, Any]], certificates: Sequence[verify.Certificate]) -> Table:
    shown = Table(title=f"{len(rows)} scenes", title_justify="left", box=box.SIMPLE)
    verdicts = {one.scene: f"{one.verdict} (TVD {one.tvd:.4f})" for one in certificates}
    for name in ("scene", "reference", "entropy", "floor", "smallest", "partner of", *(["verify"] if verdicts else [])):
        shown.add_column(name, no_wrap=name == "scene")
    for row in rows:
        hard = row["difficulty"]
        q = ", ".join(f"{label} {share}" for label, share in row["q"].items())
        cells = [row["id"], q, f"{hard['entropy']:.2f}", f"{hard['floor']:.3f}", hard["smallest"]]
        cells.append("" if row["variant"] is None else f"{row['variant'].base.rpartition('-')[2]}, {row['variant'].kind}")
        shown.add_row(*cells, *([verdicts[row["id"]]] if verdicts else []))
    return shown
