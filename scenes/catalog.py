"""Which scenes there are, and their files as they stand: names, patterns, raw YAML.

Imports neither Hydra nor numpy, so that listing is instant; it refuses to know what a valid scene is (see `validate`).
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

MAXIMUM_BYTES = 1_000_000  # no scene comes near; a wrong file is refused before it is parsed
MAXIMUM_DEPTH = 40
"""Lists and mappings inside one another; a device's parameters have half a dozen."""
MAXIMUM_DIGITS = 40
_DIGITS = re.compile(r"[-+]?(0[xX][0-9a-fA-F_]+|[0-9][0-9oO_:.]*)")
FOLDERS = "QUINCUNX_SCENES"
"""Environment variable: folders of scenes beside our own, as in PATH; each holds `scene/<benchmark>/<name>.yaml`."""
_PAIR = re.compile(r"(?P<base>[^@\s]+)@_here_")


class SceneError(Exception):
    """All that is wrong with scenes or with what was asked of them, one clear sentence a problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def conf() -> Path:
    """Return the folder of the Hydra configs: inside the package when installed, beside it in a source tree."""
    here = Path(__file__).resolve().parent
    for folder in (here / "conf", here.parent / "conf"):
        if (folder / "config.yaml").is_file():
            return folder
    raise SceneError(f"the configs are missing: no conf/config.yaml in {here} or {here.parent}; install quincunx again")


def folders() -> tuple[Path, ...]:
    """Return every folder that holds scenes: our own configs first, then those of `FOLDERS`.

    It is an environment variable so that worker processes have it too. Raises `SceneError` for one that is not there.
    """
    others = [Path(word).expanduser().resolve() for word in os.environ.get(FOLDERS, "").split(os.pathsep) if word]
    problems = [
        f"{folder}: is no folder of scenes ({FOLDERS} or scene_dir=): it must hold scene/<benchmark>/<name>.yaml"
        for folder in others
        if not (folder / "scene").is_dir()
    ]
    if problems:
        raise SceneError(*problems)
    return (conf(), *dict.fromkeys(others))


@contextmanager
def beside(folder: Path | None) -> Iterator[None]:
    """Put `folder` before those of `FOLDERS` while this lasts, for workers too; None changes nothing."""
    before = os.environ.get(FOLDERS)
    if folder is not None:
        os.environ[FOLDERS] = os.pathsep.join([str(folder.expanduser().absolute()), *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(FOLDERS, None)
        else:
            os.environ[FOLDERS] = before


def scene_ids() -> tuple[str, ...]:
    """Return the ids of all scenes, sorted: `<benchmark>/<name>`, which is also the file's place.

    Raises `SceneError` for an id that two folders have: which of them is meant cannot be told.
    """
    found: dict[str, Path] = {}
    problems = []
    for folder in folders():
        root = folder / "scene"
        for path in root.glob("*/*.yaml"):
            id = path.relative_to(root).with_suffix("").as_posix()
            if found.setdefault(id, path) != path:
                problems.append(f"{path}: {id!r} is also {found[id]}: give the scene another name")
    if problems:
        raise SceneError(*sorted(problems))
    return tuple(sorted(found))


def scene_file(id: str) -> Path:
    """Return where the scene `id` is written."""
    places = [folder / "scene" / f"{id}.yaml" for folder in folders()]
    return next((place for place in places if place.exists() or place.is_symlink()), places[0])


def suggest(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` when something in `known` is near `word`, else nothing."""
    choices = list(known)
    near = difflib.get_close_matches(word.lower(), [c.lower() for c in choices], n=1, cutoff=0.6)
    found = [c for c in choices if near and c.lower() == near[0]]
    if not found:  # a scene's name without its benchmark
        found = [c for c in choices if len(word) > 1 and c.lower().endswith("/" + word.lower())]
    return f" (did you mean {found[0]!r}?)" if found else ""


def match(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the ids that any of `patterns` matches whole, in the order of the patterns; `*` crosses `/`.

    Raises `SceneError` naming every pattern that matches none.
    """
    ids, found, problems = scene_ids(), [], []
    for pattern in patterns:
        hits = [id for id in ids if fnmatchcase(id, pattern)]
        found += [id for id in hits if id not in found]
        if not hits:
            problems.append(
                f"no scene matches {pattern!r}{suggest(pattern, ids)}: there are {', '.join(ids) or 'none'}; "
                "see `quincunx list`, and quote patterns such as 'pawbench/*'"
            )
    if problems:
        raise SceneError(*problems)
    return tuple(found)


def raw_scene(id: str) -> dict[str, Any]:
    """Return the scene's file as plain data, a pair merged into its base: what Hydra would compose, without Hydra.

    Raises `SceneError` for a file that cannot be read or whose base is not there.
    """
    return _raw(id, ())


def own_scene(id: str) -> dict[str, Any]:
    """Return only what the scene's own file says, without its base."""
    return {key: value for key, value in read_yaml(scene_file(id)).items() if key != "defaults"}


def base_of(id: str) -> str | None:
    """Return the id of the scene whose config `id` inherits, if it does."""
    return _base(id, read_yaml(scene_file(id)).get("defaults"))


def merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `change` laid over it as Hydra does: mappings merge, everything else is replaced."""
    merged = dict(deepcopy(dict(base)))
    for key, value in change.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else deepcopy(value)
    return merged


def _raw(id: str, seen: tuple[str, ...]) -> dict[str, Any]:
    if id in seen:
        raise SceneError(f"{scene_file(id)}: scenes inherit each other in a circle: {' -> '.join((*seen, id))}")
    if id not in scene_ids():
        where = f"{scene_file(seen[-1])}: its base" if seen else "scene"
        raise SceneError(f"{where} {id!r} is not there{suggest(id, scene_ids())}; see `quincunx list`")
    data = read_yaml(scene_file(id))
    base = _base(id, data.pop("defaults", None))
    return data if base is None else merge(_raw(base, (*seen, id)), data)


def _base(id: str, defaults: object) -> str | None:
    if defaults is None:
        return None
    if isinstance(defaults, list) and len(defaults) == 2 and defaults[1] == "_self_":
        found = _PAIR.fullmatch(str(defaults[0]))
        if found:
            return found["base"]
    raise SceneError(
        f"{scene_file(id)}: `defaults` is {defaults!r}; a paired scene writes [<base id>@_here_, _self_], every other none"
    )


def read_yaml(path: Path, aliases: bool = False) -> dict[str, Any]:
    """Return the mapping in a YAML file, numbers as OmegaConf reads them (1e-3 is one). Raises `SceneError`.

    With `aliases` it may have some: for files of our own alone.
    """
    try:
        if not path.is_file():
            raise SceneError(f"{path}: {'is not a regular file' if path.exists() else 'there is no such file'}")
        with path.open("rb") as stream:
            data = stream.read(MAXIMUM_BYTES + 1)
        if len(data) > MAXIMUM_BYTES:
            raise SceneError(f"{path}: larger than {MAXIMUM_BYTES} bytes, which no scene is")
        return parse_yaml(data.decode("utf-8"), aliases)
    except UnicodeDecodeError as error:
        raise SceneError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise SceneError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SceneError(f"{path}: {error}") from error


def parse_yaml(text: str, aliases: bool = False) -> dict[str, Any]:
    """Return the mapping that YAML from anywhere says. Raises `ValueError` in words for what a config may not have.

    It says what it means itself: an alias can grow without end, and `${...}` would read other values, the environment's too.
    """
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            line = f"line {event.start_mark.line + 1}"
            if isinstance(event, yaml.AliasEvent) and not aliases:
                raise ValueError(f"{line}: *{event.anchor} refers to another place: write the value itself")
            if isinstance(event, yaml.ScalarEvent) and "${" in event.value:
                raise ValueError(f"{line}: refers to another value by ${{...}}: write the value itself")
            if getattr(event, "tag", None) is not None:
                raise ValueError(f"{line}: has the tag {event.tag!r}: write the value without one")
            if isinstance(event, yaml.ScalarEvent) and len(event.value) > MAXIMUM_DIGITS and _DIGITS.fullmatch(event.value):
                raise ValueError(f"{line}: a number of {len(event.value)} digits; {MAXIMUM_DIGITS} are more than enough")
            if depth > MAXIMUM_DEPTH:
                raise ValueError(f"{line}: over {MAXIMUM_DEPTH} lists and mappings inside one another, which no scene has")
        data = yaml.load(text, Loader=_Loader)  # a safe loader
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {' '.join(str(error).split())}") from error
    except TypeError as error:
        raise ValueError(f"a key is itself a list or a mapping, and must be a word: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"must hold `key: value` lines, holds {type(data).__name__}")
    return data


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The C loader with OmegaConf 2.3's rules: its floats, no dates, no key twice. A test holds it equal to Hydra."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping; raise for a key given twice, which YAML itself would let the last one win."""
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} is given twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_FLOAT = re.compile(
    r"""^(?:[-+]?[0-9]+(?:_[0-9]+)*\.[0-9_]*(?:[eE][-+]?[0-9]+)?
        |[-+]?[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+)
        |\.[0-9]+(?:_[0-9]+)*(?:[eE][-+][0-9]+)?
        |[-+]?[0-9]+(?:_[0-9]+)*(?::[0-5]?[0-9])+\.[0-9_]*
        |[-+]?\.(?:inf|Inf|INF)
        |\.(?:nan|NaN|NAN))$""",
    re.X,
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
_Loader.yaml_implicit_resolvers = {
    first: [(tag, rule) for tag, rule in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in _Loader.yaml_implicit_resolvers.items()
}
