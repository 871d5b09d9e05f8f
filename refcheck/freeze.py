"""`quincunx freeze`: scenes with their evidence into a package, or a package checked. The last of an author's gates.

It runs no rollouts and repeats no verdict: it reads what verify, bias and controls wrote, and refuses what they do not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich import box
from rich.table import Table

from refcheck import gates, package
from refcheck.command import COMPLETED, NOT_MET, Answer, Option, Request, UserError
from refcheck.filming import source_of
from refcheck.gates import HOLDS, Gate, Limits
from refcheck.judges.state import fingerprint
from refcheck.output import RESULT
from refcheck.package import Packed
from refcheck.package_check import Everything, check, picture
from refcheck.report.schema import Header, contradictions
from refcheck.untrusted import parse_json, parse_model, read_text, shown, suggestion
from scenes.catalog import SceneError
from scenes.load import compose_scene, load_scene
from scenes.scene import Scene
from simulators.engines.loop import physics_digest

SUMMARY = "freeze scenes with their evidence into a benchmark package, or check a package"
OPTIONS = (
    Option("evidence", "path", None, "folder with the results of verify, bias and controls, itself or below"),
    Option("check", "path", None, "a package, ours or anyone's: list all that is wrong with it, and do nothing else"),
    Option("allow", "str", None, "scenes to freeze though a gate refuses them: '{quincunx/x: why}'; the reason is recorded"),
    Option("images", "path", None, "folder with pictures of your own, <name>.png, .jpg or .webp, that bias was shown"),
    Option("accuracy", "float", 0.95, "least share of its answers that the judge of the controls has right", low=0.5, high=1.0),
    Option("abstained", "float", 0.1, "largest share of the controls that it may leave unanswered", low=0.0, high=0.6),
    Option("controls", "int", 20, "fewest controls that it has read", low=2, high=10_000),
)
USES_SCENES = "optional"
MAXIMUM_RESULTS = 5000
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")


@dataclass(frozen=True)
class Examined:
    """A scene before its gates: how each went, and the author's reason where there is one."""

    scene: Scene
    config: Mapping[str, Any]
    digest: str
    gates: tuple[Gate, ...]
    reason: str | None
    image: Path | None = None

    @property
    def refused(self) -> tuple[Gate, ...]:
        """The gates that do not hold."""
        return tuple(gate for gate in self.gates if gate.state != HOLDS)


def mistakes(values: Mapping[str, Any], scenes: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return keys that do not go together."""
    told = []
    if overrides:
        told.append(f"{overrides[0]!r}: a scene is frozen as its file has it; write the change into a file of its own")
    if values["check"] is not None:
        others = [f"{key}=" for key in ("evidence", "allow", "images") if values[key] is not None]
        return [*told, *(f"check= and {key} are both given: check= only reads a package" for key in others)]
    if values["evidence"] is None:
        told.append("evidence= is missing: the folder with the results of verify, bias and controls (or check= a package)")
    if values["out"] is None:
        told.append("out= is missing: the folder of the package")
    return told


def run(request: Request) -> Answer:
    """Freeze the scenes asked for, or check a package. Status 1 where a gate refuses one, or the package has problems."""
    values = request.values
    if values["check"] is not None:
        return _checked(values["check"])
    if request.out is None:
        raise UserError("out= is missing: the folder of the package")
    package.check_out(request.out)
    examined = examine(request.scenes, values["evidence"], values["allow"], Limits.of(values), values["images"])
    refused = [one for one in examined if one.refused and one.reason is None]
    result: dict[str, Any] = {"package": None, "scenes": {one.scene.id: _told(one) for one in examined}}
    if refused:
        result["refused"] = [one.scene.id for one in refused]
        lines = [f"{one.scene.id}, {gate.name}: {gate.told}" for one in refused for gate in one.refused]
        return Answer(result, (_table(examined), "\n".join(["Nothing was frozen.", *lines])), NOT_MET)
    packed = []
    with request.progress("draw source images", len(examined)) as advance:
        for one in examined:
            packed.append(_packed(one))
            advance(1)
    manifest = package.write(request.out, packed)
    found = check(request.out).problems
    if found:
        raise RuntimeError(f"a package just written has problems: {'; '.join(found)}")
    result["package"] = {
        "manifest": package.MANIFEST,
        "manifest_sha256": fingerprint(request.out / package.MANIFEST),
        "files": len(manifest["quincunx"]["files"]),
    }
    told = (
        f"{len(packed)} scenes, {result['package']['files']} files; the manifest's SHA-256 is "
        + result["package"]["manifest_sha256"]
    )
    return Answer(result, (_table(examined), told), COMPLETED)


def examine(
    ids: Sequence[str], evidence: Path, allow: str | None, limits: Limits, images: Path | None = None
) -> list[Examined]:
    """Return every scene with how its gates went. Raises `UserError` and `SceneError` with everything wrong."""
    problems = Everything()
    reasons = read_allow(allow, ids, problems)
    results = read_results(evidence, problems)
    scenes, wrong = list[Scene](), list[str]()
    for id in ids:
        try:
            scenes.append(load_scene(id))
        except SceneError as error:
            wrong += error.problems
    names = [id.rpartition("/")[2] for id in ids]
    for id, name in zip(ids, names, strict=True):
        if names.count(name) > 1:
            problems.add(id, f"another scene is called {name!r} too, and a package has one of a name")
        elif not package.NAME.fullmatch(name):
            problems.add(id, f"{name!r} cannot be a folder's name: letters, digits and . _ - alone")
    if wrong:
        raise SceneError(*problems.found, *wrong)
    own = read_images(images, names, problems)
    problems.check()
    examined = []
    for scene, name in zip(scenes, names, strict=True):
        digest, config = physics_digest(scene.device, scene.integrator), compose_scene(scene.id)
        image = own.get(name)
        held = gates.examine(scene, config, digest, results, limits, None if image is None else fingerprint(image))
        examined.append(Examined(scene, config, digest, held, reasons.get(scene.id), image))
    return examined


def read_allow(text: str | None, ids: Sequence[str], problems: Everything) -> dict[str, str]:
    """Return the author's reasons by scene, with what is wrong with them noted."""
    if text is None:
        return {}
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = None
    if not isinstance(value, dict) or not value:
        problems.add(
            f"allow={shown(text)}", "must name scenes and reasons, as in '{quincunx/x: why it is frozen all the same}'"
        )
        return {}
    for id, reason in value.items():
        if id not in ids:
            problems.add(f"allow= of {shown(id)}", f"is none of the scenes to freeze{suggestion(str(id), tuple(ids))}")
        if not isinstance(reason, str) or len(reason.split()) < 3:
            problems.add(f"allow= of {shown(id)}", f"must give a reason in words, got {shown(reason)}")
    return {str(id): str(reason) for id, reason in value.items()}


def read_images(folder: Path | None, names: Sequence[str], problems: Everything) -> dict[str, Path]:
    """Return the pictures of an author's own by the scene's name; what cannot be read, or is no scene's, is noted."""
    if folder is None:
        return {}
    if not folder.is_dir():
        problems.add(f"images={folder}", "is a file" if folder.exists() else "there is no such folder")
        return {}
    found: dict[str, Path] = {}
    for path in sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")):
        if path.stem not in names:
            problems.add(path, f"is the picture of no scene to freeze{suggestion(path.stem, tuple(names))}")
        elif found.setdefault(path.stem, path) != path:
            problems.add(path, f"is a second picture of {path.stem}, beside {found[path.stem].name}: keep one")
        elif path.is_symlink():
            problems.add(path, "is a symbolic link: give the file itself")
        else:
            picture(path, problems)
    return found


def read_results(folder: Path, problems: Everything) -> list[gates.Result]:
    """Return the results of verify, bias and controls in `folder` and below; what cannot be read is noted, others left out."""
    if not folder.is_dir():
        problems.add(f"evidence={folder}", "is a file" if folder.exists() else "there is no such folder")
        return []
    paths = sorted(path for path in folder.rglob(RESULT) if not path.is_symlink())
    if len(paths) > MAXIMUM_RESULTS:
        raise UserError(f"evidence={folder} holds over {MAXIMUM_RESULTS} results: give the folder of these scenes'")
    results = []
    for path in paths:
        text = read_text(path, problems)
        try:
            value = parse_json(text) if text is not None else None
        except ValueError as error:
            problems.add(path, str(error))
            continue
        form = gates.FORMS.get(str(value.get("schema"))) if isinstance(value, dict) else None
        if value is None or form is None:
            continue
        parse_model(Header, value, path, problems)
        for problem in contradictions(parse_model(form, value, path, problems)):
            problems.add(path, problem)
        results.append(gates.Result(path.relative_to(folder).as_posix(), value))
    return results


def _packed(one: Examined) -> Packed:
    evidence = {gate.name: gate.evidence for gate in one.gates if gate.evidence is not None}
    reason = one.reason if one.refused else None
    states = {gate.name: gate.state if gate.state == HOLDS else f"{gate.state}: {gate.told}" for gate in one.gates}
    notes = gates.notes(one.scene)
    return Packed(one.scene, one.config, one.digest, source_of(one.scene), evidence, states, reason, notes, one.image)


def _told(one: Examined) -> dict[str, Any]:
    return {
        "digest": one.digest,
        "gates": {gate.name: {"state": gate.state, "told": gate.told, "from": gate.source} for gate in one.gates},
        "allowed": one.reason,
    }


def _table(examined: Sequence[Examined]) -> Table:
    shown_ = Table(title="What stands before the freeze", title_justify="left", box=box.SIMPLE)
    for name in ("scene", *gates.NAMES, "allowed"):
        shown_.add_column(name, no_wrap=name == "scene")
    for one in examined:
        states = {gate.name: gate.state for gate in one.gates}
        shown_.add_row(one.scene.id, *(states[name] for name in gates.NAMES), one.reason or "")
    return shown_


def _checked(folder: Path) -> Answer:
    found = check(folder)
    result = {
        "valid": not found.problems,
        "ours": found.ours,
        "scenes": dict(found.scenes),
        "files": found.files,
        "problems": list(found.problems),
    }
    what = "a package of ours" if found.ours else "a package"
    counted = ", ".join(f"{number} {track}" for track, number in found.scenes.items())
    if not found.problems:
        return Answer(result, (f"{folder} is {what} in order: {counted} scenes, {found.files} files.",), COMPLETED)
    problems = "\n".join(f"- {problem}" for problem in found.problems)
    return Answer(result, (f"{folder}: {len(found.problems)} problems with {what} ({counted} scenes):\n{problems}",), NOT_MET)
