"""Families of scenes: from ranges in a config to a device, with the exact reference that its visible parts imply.

A reference is counted from sectors, pockets, faces, balls, cards or sides, before and without any rollout; whether physics
gives it is for verify to say. Nothing here looks at an outcome.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from numpy.random import Generator

from scenes.catalog import merge
from simulators.devices.card_deck import CARDS, RANKS
from simulators.devices.peg_board import PegBoard
from simulators.devices.roulette import COLORS as POCKET_COLORS
from simulators.devices.two_stage_track import TwoStageTrack

Config = dict[str, Any]
Q = dict[str, Fraction]
ASPECT = 832.0 / 480.0
BALLS = {"red": [0.82, 0.10, 0.10], "blue": [0.12, 0.28, 0.80], "yellow": [0.92, 0.76, 0.12], "green": [0.10, 0.50, 0.22]}
SIGN = "THIS WAY"


@dataclass(frozen=True)
class Partner:
    """One change to a scene: what its file says instead, in words; `q` where the change moves the reference."""

    change: str
    config: Config
    q: Q | None = None


@dataclass(frozen=True)
class Proposal:
    """A scene's config (without its names), its reference with a derivation, and numbers from 0 to 1 that say how it looks."""

    config: Config
    q: Q
    derivation: str
    look: tuple[float, ...]
    causal: Partner | None = None
    non_causal: Partner | None = None


@dataclass(frozen=True)
class Ranges:
    """What a family's file lets vary: [low, high], or a list to choose from. Every draw comes from one generator."""

    given: Mapping[str, Sequence[Any]]
    draws: Generator
    places: dict[str, float] = field(default_factory=dict)

    def whole(self, name: str) -> int:
        """Return a whole number from low to high."""
        low, high = self.given[name]
        value = int(self.draws.integers(low, high + 1))
        self.places[name] = (value - low) / max(1, high - low)
        return value

    def real(self, name: str, digits: int = 4) -> float:
        """Return a number from low to high, rounded: what a file of an author would say."""
        low, high = self.given[name]
        value = round(float(self.draws.uniform(low, high)), digits)
        self.places[name] = (value - low) / ((high - low) or 1.0)
        return value

    def one_of(self, name: str) -> Any:
        """Return one of the choices."""
        place = int(self.draws.integers(len(self.given[name])))
        self.places[name] = place / max(1, len(self.given[name]) - 1)
        return self.given[name][place]

    def looks(self, *names: str) -> tuple[float, ...]:
        """Return where in their ranges the values of these names lie."""
        return tuple(self.places[name] for name in names)

    def order(self, items: Sequence[Any]) -> list[Any]:
        """Return the items in some order."""
        return [items[i] for i in self.draws.permutation(len(items))]

    def parts(self, total: int, parts: int, least: int = 1) -> list[int]:
        """Return `parts` whole numbers of at least `least` that sum to `total`, all such compositions alike."""
        free = total - least * parts
        if free < 0:
            raise Impossible(f"{parts} parts of at least {least} do not fit into {total}")
        cuts = sorted(int(cut) for cut in self.draws.choice(free + parts - 1, parts - 1, replace=False))
        ends = [-1, *cuts, free + parts - 1]
        return [least + b - a - 1 for a, b in pairwise(ends)]


class Impossible(ValueError):
    """These draws make no scene of the family; the next ones may."""


def wheel(base: Config, ranges: Ranges) -> Proposal:
    """Sectors of whole units of the turn, neighbours never of one colour; the reference is each colour's share."""
    palette = list(ranges.given["palette"])
    kinds = ranges.whole("colors")
    sectors, total = max(kinds, ranges.whole("sectors")), ranges.whole("units")
    units = ranges.parts(total, sectors)
    if kinds > len(palette):
        raise Impossible(f"{kinds} colors of a palette of {len(palette)}")
    names = ranges.order(palette)[:kinds]
    colors = _apart([names[i % kinds] for i in range(sectors)], ranges)
    speed, spread, phase = ranges.real("speed", 1), ranges.real("spread", 3), ranges.real("phase", 2)
    law = {"dist": "norm", "loc": speed, "scale": round(speed * spread, 2)}
    device = {"colors": colors, "weights": [float(unit) for unit in units], "phase": phase, "random": {"speed": law}}
    labels = list(dict.fromkeys(colors))

    def q_of(units: Sequence[int]) -> Q:
        return {name: Fraction(sum(u for u, c in zip(units, colors, strict=True) if c == name), sum(units)) for name in labels}

    grown = [2 * units[0], *units[1:]]
    palette_place = [palette.index(color) / max(1, len(palette) - 1) for color in (colors[0], colors[-1])]
    return Proposal(
        config=merge(base, {"device": device}) | {"outcomes": {label: [label] for label in labels}},
        q=q_of(units),
        derivation=f"Each colour's share of the turn, in {total} equal parts, if the stopping angle is spread over a turn.",
        look=(sectors / 12.0, *ranges.looks("phase", "speed"), *palette_place),
        causal=Partner(
            f"The first sector, {colors[0]}, is twice as large against the others.",
            {"device": {"weights": [float(unit) for unit in grown]}},
            q_of(grown),
        ),
        non_causal=Partner(
            "The wheel stands a quarter of a turn further.",
            {"device": {"phase": round((phase + math.pi / 2.0) % (2.0 * math.pi), 2)}},
        ),
    )


def _apart(colors: list[str], ranges: Ranges) -> list[str]:
    """Return the colours in an order in which no two neighbours, first and last included, are alike."""
    for _ in range(50):
        order = ranges.order(colors)
        if all(a != b for a, b in zip(order, [*order[1:], order[0]], strict=True)):
            return order
    raise Impossible("neighbouring sectors would be of one colour")


def board(base: Config, ranges: Ranges) -> Proposal:
    """A full lattice: by sides, an odd number of rows has as many bins left as right; by bins, a binomial is claimed."""
    rows, reading, look = ranges.whole("rows"), ranges.one_of("reading"), ranges.one_of("look")
    if reading == "sides" and rows % 2 == 0:
        raise Impossible("an even number of rows has a bin in the middle")
    spacing = ranges.real("spacing")
    ball, peg = round(spacing * ranges.real("ball"), 5), round(spacing * ranges.real("peg"), 5)
    change = {
        "rows": rows,
        "spacing": spacing,
        "row_spacing": round(spacing * ranges.real("steepness"), 5),
        "ball_radius": ball,
        "peg_radius": peg,
        "bin_depth": round(6.0 * ball, 4),
        "drop": round(2.0 * ball + peg, 4),
        "restitution": ranges.real("restitution", 2),
        "look": look,
    }
    device = merge(base["device"], change)
    shape = PegBoard(**{key: value for key, value in device.items() if key != "_target_"})
    wall = 0.3 * spacing
    top, width = shape.release_height + 2.5 * ball + 2.0 * wall, 2.0 * (shape.half_width + wall)
    view = round(1.08 * max(top + wall + 0.2 * width, width / ASPECT), 4)  # a sign has room above
    middle = round((top - wall + 0.2 * width) / 2.0, 4)
    pixel = view / 480.0
    device["random"] = {"release_x": {"dist": "norm", "loc": 0.0, "scale": round(min(0.3e-3, 0.5 * pixel), 6)}}
    bins = [str(number + 1) for number in range(rows + 1)]
    half = (rows + 1) // 2
    if reading == "sides":
        outcomes = {"left": bins[:half], "right": bins[half:]}
        q = {"left": Fraction(1, 2), "right": Fraction(1, 2)}
        derivation = "Board and release are mirror images of themselves, and as many bins lie left as right of the middle."
    else:
        outcomes = {f"bin_{name}": [name] for name in bins}
        q = {f"bin_{i + 1}": Fraction(math.comb(rows, i), 2**rows) for i in range(rows + 1)}
        derivation = f"Binomial({rows}, 1/2), if every row sends the ball left or right like an independent fair coin."
    camera = {"position": [0.0, -1.0, middle], "target": [0.0, 0.0, middle], "view_height": view}
    return Proposal(
        config={**base, "device": device, "outcomes": outcomes, "camera": camera, "renderer": "planar"}
        | {"readout_rule": "The first instant at which the whole ball is inside one bin, below the tops of its dividers."},
        q=q,
        derivation=derivation,
        look=ranges.looks("rows", "spacing", "steepness", "ball", "peg", "look"),
        causal=None if rows > 1 else _one_peg(shape, ball, peg),
        non_causal=Partner(f"A sign above the board reads {SIGN}.", {"device": {"sign": SIGN}}),
    )


def _one_peg(shape: PegBoard, ball: float, peg: float) -> Partner:
    """Return the release half a peg's radius to the left: a ball rolls off the side on which it lands."""
    q = {"left": Fraction(1), "right": Fraction(0)}
    return Partner("The ball waits half the peg's radius to the left.", {"device": {"offset": -round(peg / 2.0, 5)}}, q)


def track(base: Config, ranges: Ranges) -> Proposal:
    """Two branches that are mirror images of each other."""
    return _fork(base, ranges, NEEDED["track"], "Ramp and fork")


def two_stage(base: Config, ranges: Ranges) -> Proposal:
    """Two ways round an island that meet again above a fork, all of it its own mirror image."""
    made = _fork(base, ranges, NEEDED["two_stage"], "Ramp, island, lane and fork")
    shape = TwoStageTrack(**{key: value for key, value in made.config["device"].items() if key != "_target_"})
    top = shape.release_height + 8.0 * shape.ball_radius  # of the board behind it all
    middle, away = round(top / 2.0 - 0.01, 4), round(top / 0.2, 3)
    camera = {"position": [0.0, -away, middle], "target": [0.0, 0.0, middle], "fov": 0.22}
    return replace(made, config=merge(made.config, {"camera": camera}))


def _fork(base: Config, ranges: Ranges, needed: Sequence[str], parts: str) -> Proposal:
    device = {name: ranges.one_of(name) if name in CHOICES else ranges.real(name, 3) for name in needed}
    return Proposal(
        config=merge(base, {"device": device}),
        q={"left": Fraction(1, 2), "right": Fraction(1, 2)},
        derivation=f"{parts} are mirror images of themselves, so the sides are equally likely if the release is unbiased.",
        look=ranges.looks(*needed),
        non_causal=Partner(f"A sign on the right of the channel reads {SIGN}.", {"device": {"sign": SIGN}}),
    )


def pencil(base: Config, ranges: Ranges) -> Proposal:
    """Upright, so that left and right are alike, or leaning by degrees, so that the weight decides."""
    lean = int(ranges.one_of("lean"))
    names = ("length", "radius", "point")
    device = {name: ranges.real(name, 4) for name in names} | {"lean": _radians(lean)}
    return Proposal(
        config=merge(base, {"device": device}) | ({} if lean == 0 else LEANING),
        q=_falls(lean),
        derivation=_why(lean),
        look=((lean + 12) / 24.0, *ranges.looks(*names)),
        causal=Partner(
            "The pencil stands upright." if lean else "The pencil leans eight degrees to the left.",
            {"device": {"lean": 0.0 if lean else _radians(-8)}},
            _falls(0 if lean else -8),
        ),
        non_causal=Partner("The table is larger.", {"device": {"table": [1.1, 0.6]}}),
    )


LEANING: Config = {
    "knock_out": {"removes": "The lean. The pencil stands upright.", "overrides": ["scene.device.lean=0.0"]},
    "weak_point": "The hand. A push against the lean, stronger than hands leave in what they let go, would win.",
}


def _radians(degrees: int) -> float:
    return round(math.radians(degrees), 5)


def _falls(lean: int) -> Q:
    right = Fraction(1, 2) if lean == 0 else Fraction(int(lean > 0))
    return {"falls_left": 1 - right, "falls_right": right}


def _why(lean: int) -> str:
    if lean == 0:
        return "Left and right are alike, if the pencil stands exactly upright and the hand favours neither."
    return "The weight pulls a leaning pencil further the way it leans, harder than any touch that the hand leaves in it."


def die(base: Config, ranges: Ranges) -> Proposal:
    """Six faces gathered into outcomes; the reference counts faces."""
    parts = ranges.parts(6, ranges.whole("outcomes"))
    faces = [str(face) for face in ranges.order(range(1, 7))]
    groups = [sorted(faces[sum(parts[:i]) : sum(parts[: i + 1])]) for i in range(len(parts))]
    outcomes = {"_or_".join(group): group for group in sorted(groups)}
    edge = ranges.real("edge")
    return Proposal(
        config=merge(base, {"device": {"size": [edge] * 3, "wall_height": ranges.real("wall", 3)}}) | {"outcomes": outcomes},
        q={label: Fraction(len(group), 6) for label, group in outcomes.items()},
        derivation="Faces of a cube, alike under its symmetry, if the throw is strong enough to forget how the die was held.",
        look=ranges.looks("edge", "wall"),
        non_causal=Partner("The walls of the box are thicker.", {"device": {"wall_thickness": 0.02}}),
    )


def _kinds(ranges: Ranges) -> int:
    """Return how many colours: one is changed for another, so that two are the fewest."""
    kinds = ranges.whole("colors")
    if kinds < 2:
        raise Impossible("one color alone has no other to change to")
    return kinds


def roulette(base: Config, ranges: Ranges) -> Proposal:
    """Equal pockets, painted; the reference counts pockets of a colour."""
    pockets, kinds = ranges.whole("pockets"), _kinds(ranges)
    names = ranges.order(sorted(POCKET_COLORS))[:kinds]
    counts = ranges.parts(pockets, kinds)
    colors = _mixed(dict(zip(names, counts, strict=True)))
    numbers = [str(number + 1) for number in range(pockets)]

    def outcomes_of(colors: Sequence[str]) -> dict[str, list[str]]:
        return {name: [n for n, color in zip(numbers, colors, strict=True) if color == name] for name in names}

    def q_of(colors: Sequence[str]) -> Q:
        return {name: Fraction(colors.count(name), pockets) for name in names}

    most = max(names, key=colors.count)
    if colors.count(most) < 2:
        raise Impossible("no pocket could be painted anew")
    at, other = colors.index(most), next(name for name in names if name != most)
    painted = [*colors[:at], other, *colors[at + 1 :]]
    return Proposal(
        config=merge(base, {"device": {"pockets": numbers, "colors": colors}}) | {"outcomes": outcomes_of(colors)},
        q=q_of(colors),
        derivation=f"{pockets} equal pockets, counted by colour, if the launch is strong enough to forget the rotor's phase.",
        look=(*ranges.looks("pockets", "colors"), sorted(POCKET_COLORS).index(colors[0]) / 4.0),
        causal=Partner(
            f"One {most} pocket is {other}.", {"device": {"colors": painted}, "outcomes": outcomes_of(painted)}, q_of(painted)
        ),
        non_causal=Partner("The pockets are numbered.", {"device": {"numbered": True}}),
    )


def draw(base: Config, ranges: Ranges) -> Proposal:
    """Balls of several colours, put in by turns; the reference counts balls."""
    balls, kinds = ranges.whole("balls"), _kinds(ranges)
    names = ranges.order(sorted(BALLS))[:kinds]
    filling = _mixed(dict(zip(names, ranges.parts(balls, kinds), strict=True)))

    def q_of(filling: Sequence[str]) -> Q:
        return {name: Fraction(filling.count(name), balls) for name in names}

    most = max(names, key=filling.count)
    at, other = filling.index(most), next(name for name in names if name != most)
    changed = [*filling[:at], other, *filling[at + 1 :]]
    return Proposal(
        config=merge(base, {"device": {"filling": filling, "colors": BALLS}})
        | {"outcomes": {name: [name] for name in names}, "knock_out": None},
        q=q_of(filling),
        derivation=f"{balls} balls counted by colour, equal to the touch, if they are mixed.",
        look=(*ranges.looks("colors"), sorted(BALLS).index(filling[0]) / 3.0, sorted(BALLS).index(filling[-1]) / 3.0),
        causal=Partner(f"One {most} ball is {other}.", {"device": {"filling": changed}}, q_of(changed)),
        non_causal=Partner("A mug, a book and a bottle stand beside the box.", {"device": {"props": True}}),
    )


def _mixed(counts: Mapping[str, int]) -> list[str]:
    """Return each name as often as counted, every one spread as evenly over the whole as its number allows."""
    total = sum(counts.values())
    places = [((i + 0.5) * total / count, name) for name, count in counts.items() for i in range(count)]
    return [name for _, name in sorted(places)]


def cards(base: Config, ranges: Ranges) -> Proposal:
    """The top card of a deck whose order was hidden before frame 0, by suit, by colour or by groups of ranks."""
    reading, riffles = ranges.one_of("reading"), ranges.whole("riffles")
    if reading == "suit":
        outcomes = {
            name: [card for card in CARDS if card[-1] == name[0].upper()] for name in ("clubs", "diamonds", "hearts", "spades")
        }
    elif reading == "color":
        outcomes = {"black": [card for card in CARDS if card[-1] in "SC"], "red": [card for card in CARDS if card[-1] in "DH"]}
    else:
        parts = ranges.parts(13, ranges.whole("groups"))
        cut = [list(RANKS[sum(parts[:i]) : sum(parts[: i + 1])]) for i in range(len(parts))]
        outcomes = {
            group[0] if len(group) == 1 else f"{group[0]}_to_{group[-1]}": [card for card in CARDS if card[:-1] in group]
            for group in cut
        }
    random = {
        "cuts": {**base["device"]["random"]["cuts"], "size": riffles},
        "drops": {**base["device"]["random"]["drops"], "size": 52 * riffles},
    }
    return Proposal(
        config=merge(base, {"device": {"riffles": riffles, "random": random}}) | {"outcomes": outcomes},
        q={label: Fraction(len(held), 52) for label, held in outcomes.items()},
        derivation="Cards of each kind, counted, every one as likely as any other to be on top of a well-shuffled deck.",
        look=(ranges.places["reading"],),
    )


BUILDERS: Mapping[str, Callable[[Config, Ranges], Proposal]] = {
    one.__name__: one for one in (board, cards, die, draw, pencil, roulette, track, two_stage, wheel)
}
"""What a family's file may name as its `builder`."""
NEEDED: Mapping[str, tuple[str, ...]] = {
    "board": ("reading", "rows", "spacing", "steepness", "ball", "peg", "restitution", "look"),
    "cards": ("reading", "groups", "riffles"),
    "die": ("outcomes", "edge", "wall"),
    "draw": ("balls", "colors"),
    "pencil": ("lean", "length", "radius", "point"),
    "roulette": ("pockets", "colors"),
    "track": ("angle", "incline", "channel", "inlet", "branch", "restitution", "look"),
    "two_stage": ("angle", "incline", "channel", "inlet", "branch", "detour", "lane", "restitution", "look"),
    "wheel": ("colors", "sectors", "units", "phase", "speed", "spread", "palette"),
}
CHOICES = ("reading", "look", "lean", "palette")
"""Ranges that are lists to choose from; all others are [low, high]."""
