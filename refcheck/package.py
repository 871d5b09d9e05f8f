"""A benchmark package as files: PAWBench's format with our evidence beside it. It packs what it is given and judges nothing.

Source of the format: Pu et al. 2026, arXiv 2608.27345.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import requires, version
from pathlib import Path
from typing import Any

import yaml

from refcheck.clips import write_png
from refcheck.command import UserError
from refcheck.judges.rubrics import VERSION as RUBRIC
from refcheck.judges.rubrics import Item, readout_prompt, trust_prompt
from refcheck.judges.state import fingerprint as sha256
from refcheck.output import RESULT, plain, to_json
from refcheck.untrusted import parse_json, shown
from scenes.scene import Scene
from simulators.render.canvas import Image

BENCHMARK, OURS, REFERENCE_SCHEMA = "pawbench.benchmark_inputs/v1", "quincunx.package/v1", "quincunx.references/v1"
MANIFEST, TABLE, REFERENCES = "manifest.json", "scenes.jsonl", "references.json"
SOURCES, PROMPTS, RUBRICS, CONFIGS, EVIDENCE = "source_images", "prompts", "rubrics", "configs", "evidence"
ENTRIES = (MANIFEST, TABLE, REFERENCES, SOURCES, PROMPTS, RUBRICS, CONFIGS, EVIDENCE)
UNLISTED = (MANIFEST, RESULT)
"""Files of a package that its manifest gives no digest of: itself, and what the command said that made it."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What a scene may be called: its clips lie in a folder of that name."""
PICTURES = "the source image, then frames of the clip in the order of time"


@dataclass(frozen=True, eq=False)
class Packed:
    """One scene to pack. `evidence` is what the gates were shown, whole, by gate; `gates` how each of them went.

    `reason` is the author's for a gate that was overruled; `notes` what was found and refuses nothing. The source image is
    the file `image`, byte for byte, where there is one, else `picture`.
    """

    scene: Scene
    config: Mapping[str, Any]
    digest: str
    picture: Image
    evidence: Mapping[str, Any]
    gates: Mapping[str, str]
    reason: str | None = None
    notes: Sequence[str] = ()
    image: Path | None = None

    @property
    def name(self) -> str:
        """Its id in the package: the scene's own, without its benchmark."""
        return self.scene.id.rpartition("/")[2]

    @property
    def source(self) -> str:
        """Where its source image lies in the package."""
        return f"{SOURCES}/{self.name}{'.png' if self.image is None else self.image.suffix.lower()}"


def dependencies() -> dict[str, str]:
    """Return the exact version of ours and of everything it asks for, as installed."""
    names = [re.split(r"[\[=<>~!; ]", line)[0] for line in requires("quincunx") or () if "extra ==" not in line]
    return {name: version(name) for name in ("quincunx", *sorted(names))}


def rubric(scene: Scene) -> dict[str, Any]:
    """Return what a judge is asked about a clip of `scene`; the reference is no part of it."""
    item = Item.of(scene)
    return {
        "version": RUBRIC,
        "readout_rule": scene.readout_rule,
        "readout": readout_prompt(item, item.outcomes, PICTURES),
        "trust": trust_prompt(item, PICTURES),
    }


def row(packed: Packed) -> dict[str, Any]:
    """Return a scene's line in the scene table: shares as numbers, for they are what readers of this format take."""
    scene = packed.scene
    line: dict[str, Any] = {
        "scene_id": packed.name,
        "split": scene.track,
        "group": scene.group,
        "action": scene.action,
        "prompt": scene.prompt,
        "source_image_path": packed.source,
        "outcome_labels": list(scene.outcomes),
    }
    if scene.track == "calibration" and scene.reference.q is not None:
        line["reference_distribution"] = {label: float(scene.reference.q[label]) for label in scene.outcomes}
    return line


def check_out(out: Path) -> None:
    """Raise `UserError` where `out` holds files that no package of ours put there: none is written over, or left in one."""
    there = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_symlink() or not path.is_dir())
    ours = {RESULT}
    try:
        held = parse_json((out / MANIFEST).read_text("utf-8"))["quincunx"]
        if held["schema"] == OURS:
            ours |= {*held["files"], *UNLISTED}
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no package of ours, so nothing here is
    foreign = [name for name in there if name not in ours]
    if foreign:
        more = f" and {len(foreign) - 1} more" if foreign[1:] else ""
        raise UserError(f"out={out} holds {shown(foreign[0])}{more}, which no package of ours put there: give another folder")


def write(out: Path, packed: Sequence[Packed]) -> dict[str, Any]:
    """Write a package into `out`, in place of an earlier one there, and return its manifest.

    It is built beside its place and moved there whole, entry by entry, the manifest last: without one nothing is a package.
    """
    check_out(out)
    with tempfile.TemporaryDirectory(dir=out, prefix=".building-") as name:
        building = Path(name)
        for one in packed:
            _write_scene(building, one)
        references = {one.name: one.scene.reference for one in packed}
        _json(
            building / REFERENCES,
            {
                "schema": REFERENCE_SCHEMA,
                "scenes": {
                    id: {"q": held.q, "derivation": held.derivation, "source": held.source, "standing": held.standing}
                    for id, held in references.items()
                },
            },
        )
        (building / TABLE).write_text(
            "".join(json.dumps(row(one), ensure_ascii=False, allow_nan=False) + "\n" for one in packed), "utf-8"
        )
        files = sorted(path for path in building.rglob("*") if path.is_file())
        manifest = {
            "schema_version": BENCHMARK,
            "scene_table": TABLE,
            "quincunx": {
                "schema": OURS,
                "versions": dependencies(),
                "references": REFERENCES,
                "scenes": {one.name: _entry(one) for one in packed},
                "files": {path.relative_to(building).as_posix(): sha256(path) for path in files},
            },
        }
        _json(building / MANIFEST, manifest)
        (out / MANIFEST).unlink(missing_ok=True)
        for entry in reversed(ENTRIES):
            if (out / entry).is_dir():
                shutil.rmtree(out / entry)
            if (building / entry).exists():
                (building / entry).rename(out / entry)
    return manifest


def _write_scene(building: Path, one: Packed) -> None:
    for folder in (SOURCES, PROMPTS, RUBRICS, CONFIGS, f"{EVIDENCE}/{one.name}"):
        (building / folder).mkdir(parents=True, exist_ok=True)
    if one.image is None:
        write_png(building / one.source, one.picture)
    else:
        shutil.copyfile(one.image, building / one.source)
    (building / PROMPTS / f"{one.name}.txt").write_text(one.scene.prompt.strip() + "\n", "utf-8")
    _json(building / RUBRICS / f"{one.name}.json", rubric(one.scene))
    text = yaml.safe_dump(plain(one.config), sort_keys=False, allow_unicode=True, width=120)
    (building / CONFIGS / f"{one.name}.yaml").write_text(text, "utf-8")
    for gate, held in one.evidence.items():
        _json(building / EVIDENCE / one.name / f"{gate}.json", held)


def _entry(one: Packed) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": one.scene.id,
        "digest": one.digest,
        "basis": one.scene.basis,
        "standing": one.scene.reference.standing,
        "prompt": f"{PROMPTS}/{one.name}.txt",
        "rubric": f"{RUBRICS}/{one.name}.json",
        "config": f"{CONFIGS}/{one.name}.yaml",
        "evidence": {gate: f"{EVIDENCE}/{one.name}/{gate}.json" for gate in one.evidence},
        "gates": dict(one.gates),
        "notes": list(one.notes),
    }
    if one.reason is not None:
        entry["allowed"] = one.reason
    return entry


def _json(path: Path, value: Any) -> None:
    path.write_text(to_json(plain(value)), "utf-8")
