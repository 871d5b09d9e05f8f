"""The files that `quincunx generate` writes: scenes with picture, prompt and rubric, and none of them where a run is refused.

It refuses to know how a scene is proposed or chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from refcheck import package, prompt_check
from refcheck.clips import write_png
from refcheck.command import UserError
from refcheck.families import Config
from refcheck.output import RESULT, atomic, plain, to_json
from refcheck.untrusted import read_json
from scenes.catalog import SceneError
from scenes.load import load_scene
from scenes.scene import Scene
from simulators.render.canvas import Image

BENCHMARK = "quincunx"


class Written:
    """The scene files that one run writes into `out`; those that were not there before go again where it is refused."""

    def __init__(self, out: Path, made: str, overwrite: bool) -> None:
        self.out, self.made, self.overwrite = out, made, overwrite
        self.paths, self.new = set[Path](), set[Path]()

    def __enter__(self) -> None:
        """Nothing is written yet."""

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Leave nothing behind of what makes no scenes: `Nothing was done` is then true."""
        if kind is not None and issubclass(kind, (UserError, SceneError)):
            for path in self.new:
                path.unlink(missing_ok=True)

    def put(self, config: Config) -> Scene:
        """Write a scene's file and return the scene. Raises `SceneError` for one that cannot be built, its file gone again."""
        path = self.out / "scene" / f"{config['id']}.yaml"
        text = f"# {' '.join(str(config['title']).split())}: proposed by quincunx generate {self.made}.\n"
        text += yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True, width=120)
        there = path.exists()
        if there and path not in self.paths and path.read_text("utf-8") != text and not self.overwrite:
            raise UserError(f"{path} is there already, and says something else: give another folder, or add overwrite=true")
        with atomic(path) as temporary:
            temporary.write_text(text, "utf-8")
        self.paths.add(path)
        if not there:
            self.new.add(path)
        try:
            return load_scene(config["id"])
        except SceneError:
            path.unlink()
            raise

    def sound(self, config: Config) -> Scene:
        """Put a scene and hold its words and its view to `prompt_check`. Raises `SceneError`, its file gone again."""
        scene = self.put(config)
        if told := prompt_check.problems(scene):
            path = self.out / "scene" / f"{scene.id}.yaml"
            path.unlink()
            raise SceneError(*(f"{path}: {problem}" for problem in told))
        return scene

    def keep(self, ids: Sequence[str]) -> None:
        """Remove what was written of other scenes."""
        for path in self.paths - {self.out / "scene" / f"{id}.yaml" for id in ids}:
            path.unlink(missing_ok=True)


def _beside(out: Path, id: str) -> dict[str, Path]:
    """Return the files of a scene other than its own, by what they hold."""
    name = id.rpartition("/")[2]
    return {
        "picture": out / package.SOURCES / f"{name}.png",
        "prompt": out / package.PROMPTS / f"{name}.txt",
        "rubric": out / package.RUBRICS / f"{name}.json",
    }


def remove_earlier(out: Path, ids: Sequence[str]) -> None:
    """Remove the scenes that the result in `out`, which is about to be replaced, names and this run has not made again."""
    if not (out / RESULT).exists():
        return
    value = read_json(out / RESULT)
    rows = value.get("scenes") if isinstance(value, dict) and value.get("schema") == "quincunx.generate/v1" else None
    for row in rows if isinstance(rows, list) else ():
        benchmark, _, name = str(row.get("id") if isinstance(row, dict) else "").partition("/")
        if benchmark == BENCHMARK and package.NAME.fullmatch(name) and f"{benchmark}/{name}" not in ids:
            for path in (out / "scene" / benchmark / f"{name}.yaml", *_beside(out, name).values()):
                path.unlink(missing_ok=True)


def write_beside(out: Path, scene: Scene, picture: Image) -> None:
    """Write what a video model and a judge are given of a scene."""
    paths = _beside(out, scene.id)
    for path in paths.values():
        path.parent.mkdir(exist_ok=True)
    write_png(paths["picture"], picture)
    for path, text in (
        (paths["prompt"], scene.prompt.strip() + "\n"),
        (paths["rubric"], to_json(package.rubric(scene))),
    ):
        with atomic(path) as temporary:
            temporary.write_text(text, "utf-8")
