"""Source images and contact sheets by the physics they show, each put on the page once. It draws none."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from refcheck.report.about import about
from refcheck.report.collect import Material, Result, picture
from refcheck.report.schema import Controls, Rendered, RenderedScene


@dataclass(frozen=True)
class Pictures:
    """What there is to see of a scene: data URIs, empty where there is none, and what the sheet shows."""

    scene: str
    title: str
    digest: str
    source: Markup
    sheet: Markup
    shows: str
    missing: tuple[str, ...] = ()
    origin: str = ""


def all_pictures(material: Material) -> dict[tuple[str, str], Pictures]:
    """Return pictures by scene and digest: of `render` where it drew them, else the source image of the controls.

    Raises `UserError` for a picture that may not be shown.
    """
    found: dict[tuple[str, str], Pictures] = {}
    for result in material.of(Rendered):
        for one in result.body.scenes:
            found[one.scene, one.digest] = _rendered(result, one)
    for result in material.of(Controls):
        it: Controls = result.body
        if it.source and (it.scene, it.digest) not in found:
            source = Markup(picture(result, it.source))
            title = about(result, it.scene).title
            found[it.scene, it.digest] = Pictures(it.scene, title, it.digest, source, Markup(""), "", (), result.name)
    return found


def _rendered(result: Result, one: RenderedScene) -> Pictures:
    outcomes = len({clip.outcome for clip in one.clips if clip.outcome is not None})
    number = len(one.clips)
    if number == outcomes:
        shows = "One rendered rollout of each outcome that was found"
    else:
        shows = f"{number} rendered rollout{'s' if number != 1 else ''}"
    return Pictures(
        scene=one.scene,
        title=about(result, one.scene).title,
        digest=one.digest,
        source=Markup(picture(result, f"{one.folder}/{one.source}")),
        sheet=Markup(picture(result, f"{one.folder}/{one.sheet}")),
        shows=shows,
        missing=tuple(one.missing),
        origin=result.name,
    )
