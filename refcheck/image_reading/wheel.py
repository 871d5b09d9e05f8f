"""A wheel of coloured sectors in a picture: the sectors' shares of the turn, and where they stand to the pointer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import cv2
import numpy as np
from scipy.ndimage import map_coordinates

from refcheck.image_reading.marks import Array, Mark, Marks, Picture, Unreadable, Values
from refcheck.image_reading.shapes import line, mapped, to_unit_disc
from simulators.devices.spinner import COLORS, THICKNESS, Spinner
from simulators.world import Camera, Vec3

RINGS = np.linspace(0.35, 0.93, 24)  # of the radius: clear of the hub and of the rim
TURN = 2880  # places on a ring
BLEND = 5.0  # px: how wide the blend of two colours may be
SEEN = 0.4  # of the rings must show a sector's colour for a direction to count


class WheelKind:
    """Shares of the sectors, counterclockwise from the first edge, and where that edge stands, the pointer being up."""

    title = "wheel"
    units: Mapping[str, str] = {"shares": "turns", "phase": "deg"}

    def systematic(self, values: Values, marks: Marks) -> Mapping[str, float]:
        """Return nothing: a wheel seen askew is seen to be, by its rim and hub."""
        return {"shares": 0.0, "phase": 0.0}

    def marks(self, device: Spinner) -> Mapping[str, Mark]:
        """Return the points of a wheel."""
        k = len(device.colors)
        order = ", ".join(f"{device.colors[i - 1]} to {device.colors[i]}" for i in range(k))
        return {
            "rim": Mark("points on the outer edge of the wheel, all around", 5, 400),
            "hub": Mark("the middle, where the sectors meet"),
            "boundaries": Mark(f"where sectors meet at the rim, counterclockwise in this order: {order}", k, k),
            "pointer": Mark("the tip of the pointer"),
        }

    def expected(self, device: Spinner, camera: Camera) -> Marks:
        """Return the rim, the middle and the sectors' edges on the wheel's face."""
        hub = np.array([0.0, -THICKNESS / 2.0, device.radius + 0.10])

        def at(turns: Array, share: float) -> Array:
            angle = 2.0 * np.pi * turns
            flat = np.stack([np.cos(angle), np.zeros_like(angle), np.sin(angle)], -1)
            return camera.project(hub + share * device.radius * flat)

        edges = device.edges[:-1] + device.phase / (2.0 * math.pi)
        points = {
            "rim": at(np.arange(24) / 24.0, 1.0),
            "hub": camera.project(hub)[None],
            "boundaries": at(edges, 1.0),
            "pointer": at(np.array([0.25]), 0.88),
        }
        return Marks(points, dict.fromkeys(points, 0.5))

    def find(self, picture: Picture, device: Spinner) -> Marks:
        """Find the disc of the sectors' colours, see it square-on, and look where one colour follows another."""
        label = labels(picture, {name: COLORS[name] for name in device.colors})
        rim = rim_of(label >= 0)
        (cx, cy), _, _ = cv2.fitEllipseDirect(rim.astype(np.float32)[:, None])
        centre, edges = np.array([cx, cy]), np.empty((0, 2))
        for _ in range(3):  # the hub from the edges, and the edges seen from that hub
            back = np.linalg.inv(to_unit_disc(rim, centre))
            lines, edges = _edges(picture, label, back, device)
            centre, sigma = _middle(lines, *_hub(label, rim))
        off_line = max(abs((centre - at) @ np.array([-way[1], way[0]])) for at, way in lines)
        if off_line > 0.03 * np.ptp(rim[:, 0]):
            raise Unreadable("the edges of its sectors do not meet in the middle of it")
        pointer, off = _pointer(picture, label, back)
        return Marks(
            {"rim": rim[:: max(1, len(rim) // 200)], "hub": centre[None], "boundaries": edges, "pointer": pointer[None]},
            {"rim": 0.5, "hub": sigma, "boundaries": 0.4, "pointer": off},
        )

    def values(self, marks: Marks, device: Spinner) -> Values:
        """Return shares and phase, the wheel seen square-on."""
        flat = to_unit_disc(marks.points["rim"], marks.points["hub"][0])

        def turns(points: Array) -> Array:
            x, y = mapped(flat, points).T
            return np.arctan2(-y, x) / (2.0 * np.pi)

        edge, pointer = turns(marks.points["boundaries"]), turns(marks.points["pointer"])[0]
        shares = np.mod(np.diff(np.append(edge, edge[0])), 1.0)
        if abs(shares.sum() - 1.0) > 1e-6:
            raise Unreadable("the boundaries do not follow each other counterclockwise in the order of the colours")
        return {"shares": shares, "phase": 360.0 * float(np.mod(edge[0] - pointer + 0.25, 1.0))}

    def of_device(self, device: Spinner) -> Values:
        """Return shares and phase as configured."""
        return {"shares": np.diff(device.edges), "phase": float(np.mod(math.degrees(device.phase), 360.0))}

    def put(self, device: Spinner, values: Values) -> Spinner:
        """Return a wheel with such sectors, turned so."""
        if "shares" in values:
            device = replace(device, weights=tuple(float(share) for share in values["shares"]))
        return replace(device, phase=math.radians(values["phase"])) if "phase" in values else device


def labels(picture: Picture, colors: Mapping[str, Vec3]) -> Array:
    """Return the position (H, W) of each pixel's colour among `colors`, by hue or, for greys, by lightness; -1 for none."""
    lab = cv2.cvtColor(picture.astype(np.float32) / 255.0, cv2.COLOR_RGB2LAB)
    wanted = cv2.cvtColor(np.array([list(colors.values())], np.float32), cv2.COLOR_RGB2LAB)[0]
    chroma, hue = np.hypot(lab[..., 1], lab[..., 2]), np.arctan2(lab[..., 2], lab[..., 1])
    label, nearest = np.full(picture.shape[:2], -1.0), np.full(picture.shape[:2], np.inf)
    for index, (lightness, a, b) in enumerate(wanted):
        strong = float(np.hypot(a, b))
        if strong > 15.0:
            off = np.abs(np.angle(np.exp(1j * (hue - np.arctan2(b, a)))))
            fits = (off < 0.45) & (chroma > 0.55 * strong)
        else:
            off = np.abs(lab[..., 0] - lightness) / 40.0
            fits = (off < 0.3) & (chroma < 12.0)
        better = fits & (off < nearest)
        label[better], nearest[better] = index, off[better]
    return label


def rim_of(mask: Array) -> Array:
    """Return points (n, 2) on the outer edge of the largest patch: those on one ellipse, whatever covers the rest."""
    closed = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    count, parts, stats, _ = cv2.connectedComponentsWithStats(closed)
    if count < 2:
        raise Unreadable("no pixel has a colour of the wheel's sectors")
    largest = 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))
    # Sectors may be parted by a white line or by the hand: all that is near the largest one belongs to it.
    x, y, w, h = stats[largest, :4]
    reach = max(w, h)
    keep = [
        i
        for i in range(1, count)
        if stats[i, cv2.CC_STAT_AREA] > 0.02 * stats[largest, cv2.CC_STAT_AREA]
        and abs(stats[i, 0] + stats[i, 2] / 2 - x - w / 2) < reach
        and abs(stats[i, 1] + stats[i, 3] / 2 - y - h / 2) < reach
    ]
    contours, _ = cv2.findContours(np.isin(parts, keep).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    hull = cv2.convexHull(np.concatenate(contours))
    points = np.concatenate([c[:, 0] for c in contours]).astype(float) + 0.5  # pixel centres lie at .5
    points = points[np.abs([cv2.pointPolygonTest(hull, tuple(map(float, p - 0.5)), True) for p in points]) < 2.5]
    generator, best = np.random.default_rng(0), np.zeros(len(points), bool)
    if len(points) < 40:
        raise Unreadable("the sectors' colours make no disc")
    for _ in range(200):
        off = _off_ellipse(points, points[generator.choice(len(points), 8, replace=False)])
        if (off < 1.2).sum() > best.sum():
            best = off < 1.2
    for _ in range(3):
        if best.sum() >= 40:
            best = _off_ellipse(points, points[best]) < 1.2
    kept = points[best]
    if len(kept) < 40:
        raise Unreadable("the sectors' colours make no disc")
    angle = np.sort(np.arctan2(*(kept - kept.mean(0)).T))
    if np.diff(np.append(angle, angle[0] + 2 * np.pi)).max() > 2.2:
        raise Unreadable("a third of the rim or more cannot be seen")
    return kept


def _off_ellipse(points: Array, through: Array) -> Array:
    """Return how far (n,) [px, along the radius] `points` are from the ellipse through other points."""
    (cx, cy), (a, b), angle = cv2.fitEllipseDirect(through.astype(np.float32)[:, None])
    if not (np.isfinite([cx, cy, a, b]).all() and min(a, b) > 20.0 and max(a, b) < 1e4):
        return np.full(len(points), np.inf)
    t = np.radians(angle)
    x, y = (points - [cx, cy]).T
    u, v = (x * np.cos(t) + y * np.sin(t)) / (a / 2), (-x * np.sin(t) + y * np.cos(t)) / (b / 2)
    r = np.hypot(u, v)
    return np.abs(r - 1.0) * np.hypot(x, y) / np.maximum(r, 1e-9)


def _edges(picture: Picture, label: Array, back: Array, device: Spinner) -> tuple[list[tuple[Array, Array]], Array]:
    """Return a line and a point on the rim for each boundary between sectors, in the device's order."""
    angle = 2.0 * np.pi * (np.arange(TURN) + 0.5) / TURN
    spoke = np.stack([np.cos(angle), -np.sin(angle)], -1)
    grid = mapped(back, (RINGS[:, None, None] * spoke).reshape(-1, 2)).reshape(len(RINGS), TURN, 2)
    inside = np.clip(grid.astype(int), 0, np.array(picture.shape[1::-1]) - 1)
    seen = label[inside[..., 1], inside[..., 0]].astype(int)  # (rings, TURN)
    names = list(dict.fromkeys(device.colors))
    votes = np.stack([(seen == i).sum(0) for i in range(len(names))])
    winner = np.where(votes.max(0) >= SEEN * len(RINGS), votes.argmax(0), -1)
    runs = _runs(winner)
    k = len(device.colors)
    order = [names.index(color) for color in device.colors]
    starts = [s for s in range(k) if [runs[(s + i) % len(runs)][0] for i in range(k)] == order] if len(runs) == k else []
    if not starts:
        said = ", ".join(names[c] for c, _ in runs) or "none"
        raise Unreadable(f"its sectors are {', '.join(device.colors)}, and the picture shows {said}")
    if len(starts) > 1:  # alike sectors: the one that stands nearest to where the device has its first edge
        want = device.phase / (2.0 * np.pi)
        starts.sort(key=lambda s: abs((runs[s][1] / TURN - want + 0.5) % 1.0 - 0.5))
    lines, rim = [], []
    for i in range(k):
        at = runs[(starts[0] + i) % k][1]
        before, after = order[i - 1], order[i]
        window = (np.arange(at - TURN // 40, at + TURN // 40)) % TURN
        points, rings = [], []
        for ring in range(len(RINGS)):
            here = seen[ring, window]
            if not ((here[:8] == before).mean() > 0.7 and (here[-8:] == after).mean() > 0.7):
                continue
            where = grid[ring, window]
            if (here < 0).mean() * np.hypot(*(where[-1] - where[0])) > BLEND:
                continue  # something lies over the edge
            place = _step(picture, where)
            if place is not None:
                points.append(place)
                rings.append(RINGS[ring])
        if len(points) < 6:
            raise Unreadable(f"the edge between {names[before]} and {names[after]} is covered")
        fitted = _robust_line(np.array(points))
        lines.append(fitted)
        rim.append(_at_rim(fitted, mapped(np.linalg.inv(back), np.array(points)), back))
    return lines, np.array(rim)


def _runs(winner: Array) -> list[tuple[int, int]]:
    """Return (colour, first place) of each stretch of one colour around the turn; gaps are left to the neighbours."""
    known = np.flatnonzero(winner >= 0)
    if len(known) == 0:
        return []
    colours = winner[known]
    changes = np.flatnonzero(colours != np.roll(colours, 1))
    runs = []
    for c in changes:
        low, high = known[c - 1], known[c]
        gap = (high - low) % TURN
        runs.append((int(colours[c]), int((low + (gap + 1) // 2) % TURN)))
    runs = [
        run
        for run, after in zip(runs, runs[1:] + runs[:1], strict=True)
        if (after[1] - run[1]) % TURN > TURN // 180 or len(runs) == 1
    ]
    return [run for i, run in enumerate(runs) if run[0] != runs[i - 1][0]]


def _step(picture: Picture, where: Array) -> Array | None:
    """Return the point at which the colour along `where` (n, 2) steps from its first to its last, to parts of a pixel."""
    colour = np.stack(
        [map_coordinates(picture[..., c].astype(float), [where[:, 1] - 0.5, where[:, 0] - 0.5], order=1) for c in range(3)], -1
    )
    first, last = colour[:10].mean(0), colour[-10:].mean(0)
    way = last - first
    if way @ way < 400.0:
        return None
    share = np.clip((colour - first) @ way / (way @ way), 0.0, 1.0)
    return np.asarray(where[0] + (where[-1] - where[0]) * float(np.mean(1.0 - share)))  # the place of an even step


def _robust_line(points: Array) -> tuple[Array, Array]:
    kept = points
    for _ in range(3):
        at, way = line(kept)
        off = np.abs((points - at) @ np.array([-way[1], way[0]]))
        kept = points[off <= max(3.0 * 1.4826 * float(np.median(off)), 0.5)]
    return line(kept)


def _at_rim(fitted: tuple[Array, Array], flat: Array, back: Array) -> Array:
    """Return where the line leaves the disc on the side on which its points lie (`flat`, seen square-on)."""
    at, way = mapped(np.linalg.inv(back), np.array([fitted[0], fitted[0] + fitted[1]]))
    way = (way - at) / np.linalg.norm(way - at)
    if way @ flat.mean(0) < 0.0:
        way = -way
    along = at @ way
    return mapped(back, (at + way * (-along + math.sqrt(max(along**2 - at @ at + 1.0, 0.0))))[None])[0]


def _hub(label: Array, rim: Array) -> tuple[Array, float]:
    """Return the middle of what covers the middle of the disc, and its sd [px]; without it the middle of the rim's picture."""
    radius = float(np.mean(np.linalg.norm(rim - rim.mean(0), axis=1)))
    (cx, cy), _, _ = cv2.fitEllipseDirect(rim.astype(np.float32)[:, None])
    ys, xs = np.mgrid[: label.shape[0], : label.shape[1]]
    within = np.hypot(xs + 0.5 - cx, ys + 0.5 - cy) < 0.45 * radius
    free = ((label < 0) & within).astype(np.uint8)
    free = cv2.morphologyEx(free, cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))  # the blend of two colours is no hub
    count, _, stats, middles = cv2.connectedComponentsWithStats(free)
    sized = [i for i in range(1, count) if stats[i, cv2.CC_STAT_AREA] > 0.0005 * np.pi * radius**2]
    near = [middles[i] + 0.5 for i in sized if np.hypot(*(middles[i] + 0.5 - [cx, cy])) < 0.12 * radius]
    if not near:
        return np.array([cx, cy]), 0.03 * radius
    return np.asarray(min(near, key=lambda m: float(np.hypot(m[0] - cx, m[1] - cy)))), 0.01 * radius


def _middle(lines: list[tuple[Array, Array]], hub: Array, sd: float, edge: float = 0.4) -> tuple[Array, float]:
    """Return where the sectors meet and its sd [px]: the edges' crossing (sd `edge` across each) and the hub, by weight.

    Two nearly opposite edges are nearly one line, and only the hub tells where on it.
    """
    weight, pull = np.eye(2) / sd**2, hub / sd**2
    for at, way in lines:
        normal = np.array([-way[1], way[0]])
        weight += np.outer(normal, normal) / edge**2
        pull = pull + normal * (normal @ at) / edge**2
    spread = np.linalg.inv(weight)
    return spread @ pull, float(np.sqrt(np.trace(spread) / 2.0))


def _pointer(picture: Picture, label: Array, back: Array) -> tuple[Array, float]:
    """Return the pointer's tip and its sd [px]: the middle of what is dark at the top of the disc, from its edge inwards."""
    angle = 2.0 * np.pi * np.linspace(0.15, 0.35, 400)
    rings = np.linspace(0.86, 0.99, 14)
    spoke = np.stack([np.cos(angle), -np.sin(angle)], -1)
    grid = mapped(back, (rings[:, None, None] * spoke).reshape(-1, 2)).reshape(len(rings), len(angle), 2)
    inside = np.clip(grid.astype(int), 0, np.array(picture.shape[1::-1]) - 1)
    value = picture.max(axis=2)[inside[..., 1], inside[..., 0]]
    covered = (label[inside[..., 1], inside[..., 0]] < 0) & (value < 110)
    middles = [float(np.flatnonzero(row).mean()) for row in covered if 2 <= row.sum() < 60]
    if len(middles) < 2:
        top = mapped(back, np.array([[0.0, -0.95]]))[0]
        return top, 0.02 * float(np.linalg.norm(top - mapped(back, np.array([[0.0, 0.0]]))[0]))
    return mapped(
        back, np.array([[0.95 * math.cos(a), -0.95 * math.sin(a)] for a in [np.interp(np.median(middles), range(400), angle)]])
    )[0], 0.8
