"""`quincunx report`: every result under a folder on one self-contained page. It measures nothing and runs nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from refcheck.command import Answer, Option, Request, UserError

SUMMARY = "one page of every result under a folder: certificates, pictures, controls, scores"
OPTIONS = (Option("data", "path", ..., "folder with results, itself or below; the page goes there unless out= is given"),)
USES_SCENES = False

PAGE = "report.html"
MARK = '<meta name="generator" content="quincunx'
"""By which a page of ours is known, so that no other file of the name is written over."""


def run(request: Request) -> Answer:
    """Write the page. Raises `UserError` for results that may not be shown, all problems at once."""
    from refcheck.output import atomic
    from refcheck.report.collect import collect
    from refcheck.report.numbers import several
    from refcheck.report.page import page
    from refcheck.report.schema import Certificates, Controls, Rendered
    from refcheck.report.score_schema import Score

    data = Path(request.values["data"])
    where = (request.out or data) / PAGE
    material = collect(data)
    if where.exists() and MARK not in where.read_bytes()[:4096].decode("utf-8", "replace"):
        raise UserError(f"{where} is no page of ours: move it away, or give another folder with out=")
    text = page(material, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    with atomic(where) as temporary:
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))  # a file's name may be bytes that are no text
    counts: dict[str, Any] = {
        "certificates": sum(len(result.body.certificates) for result in material.of(Certificates)),
        "controls": len(material.of(Controls)),
        "scores": len(material.of(Score)),
        "scenes_in_pictures": len({one.scene for result in material.of(Rendered) for one in result.body.scenes}),
        "not_shown": [result.name for result in material.results if result.body is None],
        "not_ours": list(material.others),
    }
    told = (
        f"{several(counts['certificates'], 'certificate')}, {several(counts['controls'], 'control')} and "
        f"{several(counts['scores'], 'score')} on {where}; {several(counts['scenes_in_pictures'], 'scene')} in pictures"
    )
    lines = [told]
    if not_drawn := [f"{result.name} ({result.header.verb})" for result in material.results if result.body is None]:
        lines.append(f"Found but not drawn on the page, which has no form for them: {', '.join(not_drawn)}")
    if material.others:
        lines.append(f"Passed over, no results of quincunx: {', '.join(material.others)}")
    return Answer({"page": where.name, **counts}, ("\n".join(lines),))
