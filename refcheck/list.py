"""`quincunx list`: the scenes there are, read as they are written. Imports no physics, so that it answers at once."""

from __future__ import annotations

from typing import Any

from refcheck.command import USER_MISTAKE, Answer, Option, Request
from scenes.catalog import SceneError, raw_scene

SUMMARY = "the scenes: outcomes, reference and its standing, basis, engine"
OPTIONS: tuple[Option, ...] = ()
USES_SCENES = "optional"


def run(request: Request) -> Answer:
    """Return one row a scene, then what cannot be read, with status 2; `verify` checks what the files say.

    Raises `SceneError` where no file can be read.
    """
    rows, problems = [], list[str]()
    for id in request.scenes:
        try:
            rows.append(row(id, raw_scene(id)))
        except SceneError as error:
            problems += error.problems
    if not problems:
        return Answer({"scenes": rows}, (_table(rows),))
    if not rows:
        raise SceneError(*problems)
    return Answer({"scenes": rows, "problems": problems}, (_table(rows), *problems), USER_MISTAKE)


def row(id: str, raw: dict[str, Any]) -> dict[str, Any]:
    """Return what is listed of a scene; a key that its file lacks is None."""
    reference, outcomes = (part if isinstance(part := raw.get(key), dict) else {} for key in ("reference", "outcomes"))
    return {
        "id": id,
        "title": raw.get("title"),
        "benchmark": raw.get("benchmark"),
        "track": raw.get("track"),
        "group": raw.get("group"),
        "outcomes": [str(label) for label in outcomes],
        "q": reference.get("q"),
        "standing": reference.get("standing"),
        "basis": raw.get("basis"),
        "device": _class(raw.get("device")),
        "engine": _class(raw.get("kernel") or raw.get("engine")),
        "variant": raw.get("variant"),
        "stream": raw.get("stream"),
    }


def _class(part: Any) -> str | None:
    return str(part.get("_target_", "")).rsplit(".", 1)[-1].lower() or None if isinstance(part, dict) else None


def _claim(q: Any) -> str:
    """Return a reference in a few characters; `json=true` has it whole."""
    shares = [str(share) for share in q.values()] if isinstance(q, dict) else []
    if len(shares) > 1 and len(set(shares)) == 1:
        return f"{shares[0]} each"
    return ", ".join(shares) if len(shares) <= 5 else f"{shares[0]} ... {shares[len(shares) // 2]} ... {shares[-1]}"


def _table(rows: list[dict[str, Any]]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(title=f"{len(rows)} scenes", title_justify="left", box=box.SIMPLE)
    for name in ("scene", "title", "outcomes", "claim", "standing", "basis", "engine"):
        table.add_column(name, no_wrap=name == "scene")
    for one in rows:
        outcomes = ", ".join(one["outcomes"])
        if len(outcomes) > 30:
            outcomes = f"{len(one['outcomes'])}: {one['outcomes'][0]} ... {one['outcomes'][-1]}"
        table.add_row(
            *(
                str(cell)
                for cell in (one["id"], one["title"], outcomes, _claim(one["q"]), one["standing"], one["basis"], one["engine"])
            )
        )
    return table
