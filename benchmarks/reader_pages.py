"""Can someone who has eight frames, the labels and nothing else name how a clip ends? Pages for such a reader, and their marks.

    python -m benchmarks.reader_pages draw PAGES KEYS 3 [scene ...]   # three clips a picture; the truth goes to another folder
    python -m benchmarks.reader_pages mark KEYS ANSWERS docs/reader.csv docs/reader.md [EARLIER_KEYS EARLIER_ANSWERS]

A clip is a rollout found by how it ended and replayed; outcomes come in equal numbers as far as the scene reaches them. It
refuses to show a reference, and a page says nothing but the source image's scene, the question and the labels in random order.
"""

from __future__ import annotations

import csv
import io
import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator, default_rng
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from refcheck.clips import search
from refcheck.filming import FPS, canvas_of
from refcheck.output import atomic
from scenes.catalog import scene_ids
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.engines.loop import physics_digest, run
from simulators.render import Image
from simulators.video import evenly_spaced, rows_of_clip

CLIPS, FRAMES = 30, 8
LONGEST, QUALITY = 768, 85  # pixels and JPEG quality of PAWBench's frame evidence (arXiv 2608.27345)
RIGHT = 29  # of 30: what a picture must let a reader name
LIMIT = 6000  # rollouts looked through
CANNOT = "cannot tell"


def balanced(scene: Scene, seed: int, limit: int) -> list[tuple[int, str]]:
    """Return 30 (index, outcome) of `scene`, outcomes in numbers as equal as `limit` rollouts allow, in random order."""
    found = search(scene, seed, [CLIPS] * len(scene.outcomes), limit=limit)
    outcome = scene.outcome(found.fact)
    queues = [found.index[outcome == k].tolist() for k in range(len(scene.outcomes))]
    chosen: list[tuple[int, str]] = []
    while len(chosen) < CLIPS and any(queues):
        for k in default_rng(seed + len(chosen)).permutation(len(queues)):
            if queues[k] and len(chosen) < CLIPS:
                chosen.append((queues[k].pop(0), scene.outcomes[k]))
    return [chosen[i] for i in default_rng(seed).permutation(len(chosen))]


def eight(scene: Scene, seed: int, index: int) -> list[Image]:
    """Return the 8 evenly spaced frames (H, W, 3) of the clip of one rollout, each at most 768 pixels long, through JPEG."""
    again = run(scene.integrator, scene.device, seed, scene.stream, [index], fps=FPS)
    if again.trajectories is None:
        raise RuntimeError(f"rollout {index} of {scene.id} was not recorded")
    trajectory, canvas = again.trajectories[0], canvas_of(scene)
    drawn: dict[int, Image] = {}
    for row in evenly_spaced(rows_of_clip(len(trajectory)), FRAMES):
        if row not in drawn:
            drawn[row] = canvas.frame(trajectory, row)
    frames = []
    for row in evenly_spaced(rows_of_clip(len(trajectory)), FRAMES):
        picture, buffer = Pillow.fromarray(np.ascontiguousarray(drawn[row])), io.BytesIO()
        picture.thumbnail((LONGEST, LONGEST), Pillow.Resampling.LANCZOS)
        picture.save(buffer, "JPEG", quality=QUALITY)
        frames.append(np.asarray(Pillow.open(buffer).convert("RGB")))
    return frames


def page(rows: list[tuple[str, list[Image]]], heading: str) -> Pillow.Image:
    """Lay clips out: seven frames small in reading order, the last one whole."""
    high, wide = rows[0][1][-1].shape[:2]
    small, font = (wide // 3 - 2, high // 3 - 2), ImageFont.load_default(size=22)
    sheet = Pillow.new("RGB", (2 * wide + 12, 40 + len(rows) * (high + 34)), (250, 250, 250))
    pen = ImageDraw.Draw(sheet)
    pen.text((8, 6), heading, fill=(20, 20, 20), font=font)
    for number, (name, frames) in enumerate(rows):
        top = 40 + number * (high + 34)
        pen.text((8, top), f"clip {name}: frames 1 to 7, and at the right frame 8, the last", fill=(20, 20, 20), font=font)
        for k, frame in enumerate(frames[:-1]):
            at = (k % 3) * (small[0] + 3), top + 30 + (k // 3) * (small[1] + 3)
            sheet.paste(Pillow.fromarray(frame).resize(small, Pillow.Resampling.LANCZOS), at)
        sheet.paste(Pillow.fromarray(frames[-1]), (wide + 12, top + 30))
    return sheet


def draw(pages: Path, keys: Path, a_page: int, ids: list[str]) -> None:
    """Write pages `<scene>/p00.png ...` of `a_page` clips and `question.txt` below `pages`; truths, `<scene>.json`, to `keys`.

    Where a viewer shrinks large pictures, one clip a page shows its last frame as it is.
    """
    for id in ids or scene_ids():
        scene, seed = load_scene(id), secrets.randbits(32)
        folder, key = pages / id.replace("/", "_"), keys / f"{id.replace('/', '_')}.json"
        if key.exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        keys.mkdir(parents=True, exist_ok=True)
        limit = 300 if "pile" in scene.integrator.name else LIMIT
        chosen = balanced(scene, seed, limit)
        shown = [f"{number:02d}" for number in range(len(chosen))]
        for at in range(0, len(chosen), a_page):
            rows = [(shown[k], eight(scene, seed, chosen[k][0])) for k in range(at, min(at + a_page, len(chosen)))]
            page(rows, scene.title).save(folder / f"p{at // a_page:02d}.png")
        labels = [scene.outcomes[k] for k in Generator(np.random.PCG64(seed)).permutation(len(scene.outcomes))]
        question = [f"scene: {id} ({scene.title})", f"action: {scene.action}", f"question: {scene.readout_rule}"]
        question += [f"answers allowed: {', '.join(labels)}, or: {CANNOT}", f"clips: {shown[0]} to {shown[-1]}"]
        (folder / "question.txt").write_text("\n".join(question) + "\n", "utf-8")
        digest = physics_digest(scene.device, scene.integrator)
        truth = {
            "scene": id,
            "digest": digest,
            "seed": seed,
            "clips": [[n, i, o] for n, (i, o) in zip(shown, chosen, strict=True)],
        }
        key.write_text(json.dumps(truth) + "\n", "utf-8")
        print(id, len(chosen), flush=True)


@dataclass(frozen=True)
class Read:
    """One scene as it was read: `lines` (digest, seed, clip, rollout, truth, answer)."""

    scene: str
    lines: list[tuple[str, int, str, int, str, str]]

    @property
    def row(self) -> str:
        """A line of the table."""
        count, kinds = len(self.lines), len({line[4] for line in self.lines})
        right = sum(truth == answer for *_, truth, answer in self.lines)
        unsure = sum(line[5] == CANNOT for line in self.lines)
        enough = "yes" if right >= count - (CLIPS - RIGHT) else "**no**"
        return f"| {self.scene} | {count} | {kinds} | {right} | {unsure} | {enough} |"


def read(keys: Path, answers: Path) -> list[Read]:
    """Set the answers of `<scene>.csv` files (clip,answer) beside the truth.

    Raises `ValueError` for a clip without an answer, a stranger, or a label that was not offered.
    """
    done = []
    for path in sorted(keys.glob("*.json")):
        truth = json.loads(path.read_text("utf-8"))
        said = answers / f"{path.stem}.csv"
        if not said.exists():
            raise ValueError(f"{said} is missing: the reader of {truth['scene']} has not answered")
        with said.open(encoding="utf-8", newline="") as file:
            told = {row["clip"].strip(): row["answer"].strip() for row in csv.DictReader(file)}
        outcomes = {*load_scene(truth["scene"]).outcomes, CANNOT}
        if set(told) != {clip for clip, _, _ in truth["clips"]} or not set(told.values()) <= outcomes:
            raise ValueError(f"{said} must have one line for each clip and only labels offered, got {told}")
        lines = [(truth["digest"], truth["seed"], clip, rollout, end, told[clip]) for clip, rollout, end in truth["clips"]]
        done.append(Read(truth["scene"], lines))
    return done


def mark(keys: Path, answers: Path, table: Path, summary: Path, before: Sequence[Path] = ()) -> None:
    """Write every answer to `table`, a row a scene to `summary`; `before`: keys and answers before pictures were mended."""
    done, header = read(keys, answers), "| scene | clips | outcomes among them | right | cannot tell | enough |"
    with atomic(table) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["scene", "digest", "seed", "clip", "rollout", "truth", "answer"])
        writer.writerows([one.scene, *line] for one in done for line in one.lines)
    body = [
        "# What a reader sees in eight frames",
        "",
        f"Written by `python -m benchmarks.reader_pages mark`; every answer is in `{table.name}`. The reader, a model of",
        "vision and language that had nothing but the pages (title, action, question, the labels in random",
        "order, eight frames of each clip), named how clips end, outcomes in numbers as equal as the scene reaches them.",
        f"Index and digest in the table say which rollout of which physics a clip was. Wanted: {RIGHT} of {CLIPS}.",
        "",
        *(header, "|---|---|---|---|---|---|", *(one.row for one in done)),
    ]
    if before:
        body += [
            "",
            "Read before, with other pictures; camera, question, numbers or the pages' size were mended since:",
            "",
        ]
        body += [header, "|---|---|---|---|---|---|", *(one.row for one in read(*before))]
    with atomic(summary) as temporary:
        temporary.write_text("\n".join(body) + "\n", "utf-8")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["draw", pages, keys, a_page, *ids] if a_page.isdigit() and int(a_page):
            draw(Path(pages), Path(keys), int(a_page), ids)
        case ["mark", keys, answers, table, summary, *before] if len(before) in (0, 2):
            mark(Path(keys), Path(answers), Path(table), Path(summary), [Path(folder) for folder in before])
        case _:
            sys.exit(__doc__)
