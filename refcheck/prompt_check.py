"""What may be wrong with the words of a benchmark item: more than one action, an outcome given away, things out of sight.

It reads words and where things are in the picture, and refuses to know how often an outcome comes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from scenes.frame0 import WIDTH
from scenes.scene import Scene
from simulators.engines.loop import run

REPEATED = ("again", "twice", "thrice", "repeatedly", "times", "several", "until", "then", "afterwards")
"""Words that make two actions of one, or an action without an end."""
STILL = ("camera does not move", "camera is fixed", "fixed camera", "static camera", "camera stays")
MARGIN = 12.0 / WIDTH  # of the picture's width: the middle of what decides the outcome may not be nearer to its edge
ROLLOUTS = 48  # whose ends are looked at


def problems(scene: Scene) -> list[str]:
    """Return why the action, the prompt or the first frame of `scene` would not do."""
    return [*action_problems(scene.action), *naming_problems(scene.action, scene.prompt, scene.outcomes), *_view(scene)]


def action_problems(action: str) -> list[str]:
    """Return why `action` is not one atomic action: one sentence, done once, at most one `and` for what it lets go."""
    told = []
    sentences = [part for part in re.split(r"[.!?;]+(?:\s|$)", action) if part.strip()]
    if len(sentences) != 1:
        told.append(f"the action has {len(sentences)} sentences, and must be one")
    words = re.findall(r"[a-z']+", action.lower())
    told += [f"the action says {word!r}: it must be done once, and be over" for word in REPEATED if word in words]
    if words.count("and") > 1:
        told.append("the action joins more than two deeds by `and`")
    return told


def naming_problems(action: str, prompt: str, outcomes: Sequence[str]) -> list[str]:
    """Return the outcomes that action or prompt name while others go unnamed: what is named is suggested.

    All of them named alike, as in `a box of red and blue balls`, describes the scene.
    """
    text = f" {' '.join(re.findall(r'[a-z0-9]+', f'{action} {prompt}'.lower()))} "
    named = [label for label in outcomes if f" {' '.join(re.findall(r'[a-z0-9]+', label.lower()))} " in text]
    if not named or len(named) == len(outcomes):
        return []
    return [f"the outcome {label!r} is named in action or prompt, and others are not" for label in named]


def _view(scene: Scene) -> list[str]:
    """Return what is out of sight: a camera that is free to move, or a body that decides the outcome outside of the picture."""
    told = []
    if not any(words in scene.prompt.lower() for words in STILL):
        told.append("the prompt does not say that the camera stays where it is, so the key objects may leave the picture")
    world, size = scene.device.world(), np.array([scene.camera.width, scene.camera.height])
    loose = list(world.loose)
    ended = run(scene.integrator, scene.device, 0, scene.stream, range(ROLLOUTS))
    places = {"at the release": world.poses(0.0)[0][None], "where it ends": ended.end.pos[ended.fact >= 0]}
    for when, pos in places.items():
        at = scene.camera.project(pos[:, loose])
        margin = MARGIN * scene.camera.width
        inside = np.all((at >= margin) & (at <= size - margin), axis=(0, 2))
        told += [
            f"the {world.moving[i].name} is not in the picture {when}" for i, ok in zip(loose, inside, strict=True) if not ok
        ]
    return told
