"""A peg board in a picture: where the ball waits on the lattice of its pegs, and how far apart the rows are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import cv2
import numpy as np
from scipy.spatial import cKDTree

from refcheck.image_reading.circles import circles, find_ball, spots
from refcheck.image_reading.marks import Array, Mark, Marks, Picture, Unreadable, Values
from refcheck.image_reading.shapes import circle, mapped
from simulators.devices.peg_board import PegBoard
from simulators.world import Camera

SEEN = 0.85  # of the pegs must be found
FEW = 3
NEAR = 0.18  # of the spacing: how far from its place in the lattice a peg may lie


class BoardKind:
    """The ball's offset from the lattice's own axis, and the rows' distance, both measured in the lattice's spacing."""

    title = "peg board"
    units: Mapping[str, str] = {"offset": "spacings", "row_spacing": "spacings"}

    def systematic(self, values: Values, marks: Marks) -> Mapping[str, float]:
        """Return what the depth of the board does to a picture taken from a little to the side: assumed."""
        sd = {"offset": 0.003 if marks.camera is not None else 0.01, "row_spacing": 0.005 if marks.camera is not None else 0.01}
        return {name: sd[name] for name in values}

    def marks(self, device: PegBoard) -> Mapping[str, Mark]:
        """Return the points of a board."""
        count = len(device.pegs())
        return {
            "ball": Mark("points on the ball's outline, all around", 3, 400),
            "pegs": Mark("the middle of every peg, row by row from the top, left to right", count, count),
        }

    def expected(self, device: PegBoard, camera: Camera) -> Marks:
        """Return the pegs' middles and the ball's outline, as if all lay in the plane that the ball moves in."""
        turn = 2.0 * np.pi * np.arange(24) / 24.0
        x, z = device.offset + device.ball_radius * np.cos(turn), device.release_height + device.ball_radius * np.sin(turn)
        pegs = np.array([(x, 0.0, z) for x, z in device.pegs()])
        points = {"ball": camera.project(np.column_stack([x, 0.0 * x, z])), "pegs": camera.project(pegs)}
        return Marks(points, dict.fromkeys(points, 0.5))

    def find(self, picture: Picture, device: PegBoard) -> Marks:
        """Find the ball; then spots of a peg's size that make the lattice, wherever it lies below."""
        if not device.pegs():
            raise Unreadable("the device has no pegs")
        outline = find_ball(picture)
        centre, radius = circle(outline)
        spacing = radius * device.spacing / device.ball_radius
        peg = radius * device.peg_radius / device.ball_radius
        if len(device.pegs()) <= FEW:  # no lattice to tell pegs from spots: they must be round themselves
            seen = circles(picture, 0.6 * peg, 1.6 * peg, 0.7)
            at = np.array([one[1] for one in seen]).reshape(-1, 2)
            strength = np.array([one[3] for one in seen])
        else:
            at, strength = spots(picture, peg, 40 + 6 * len(device.pegs()))
        clear = (np.linalg.norm(at - centre, axis=1) > 1.2 * radius) & (at[:, 1] > centre[1])
        pegs = _lattice(device, at[clear], strength[clear], centre, spacing)
        return Marks({"ball": outline, "pegs": pegs}, {"ball": 0.4, "pegs": 0.6})

    def values(self, marks: Marks, device: PegBoard) -> Values:
        """Return offset and row spacing; for a single row or a single peg the picture is taken to be square-on."""
        centre, radius = circle(marks.points["ball"])
        model, pegs = _model(device), marks.points["pegs"]
        if len(pegs) == 1:
            offset = (centre[0] - pegs[0, 0]) / radius * device.ball_radius / device.spacing
            return {"offset": float(offset + model[0, 0])}
        if len(np.unique(model[:, 1])) == 1:
            way = pegs[-1] - pegs[0]
            share = (centre - pegs[0]) @ way / (way @ way)
            return {"offset": float(model[0, 0] + share * (model[-1, 0] - model[0, 0]))}
        home = _fit(model, pegs)
        if home is None:
            raise Unreadable("the pegs make no lattice")
        back = mapped(np.linalg.inv(home), centre[None])[0]
        middle = model.mean(0)
        right, down = (mapped(home, np.array([middle + step, middle - step])) for step in 0.5 * np.eye(2))
        return {
            "offset": float(back[0]),
            "row_spacing": float(np.linalg.norm(down[0] - down[1]) / np.linalg.norm(right[0] - right[1])),
        }

    def of_device(self, device: PegBoard) -> Values:
        """Return offset and row spacing as configured."""
        return {"offset": device.offset / device.spacing, "row_spacing": device.row_spacing / device.spacing}

    def put(self, device: PegBoard, values: Values) -> PegBoard:
        """Return a board with such rows whose ball waits there."""
        scaled = {name: float(value) * device.spacing for name, value in values.items()}
        return replace(device, **scaled)  # type: ignore[arg-type]


def _model(device: PegBoard) -> Array:
    """Return the pegs (n, 2) in spacings to the right of the axis and in rows from the top."""
    return np.array([(x / device.spacing, (device.row_height(0) - z) / device.row_spacing) for x, z in device.pegs()])


def _fit(model: Array, pegs: Array) -> Array | None:
    """Return the homography (3, 3) from the lattice to the picture, affine where there are too few pegs for more."""
    if len(model) >= 8:
        return cv2.findHomography(model, pegs, 0)[0]
    lifted = np.column_stack([model, np.ones(len(model))])
    solution, _, rank, _ = np.linalg.lstsq(lifted, pegs, rcond=None)
    return np.vstack([solution.T, [0.0, 0.0, 1.0]]) if rank == 3 else None


def _lattice(device: PegBoard, at: Array, strength: Array, ball: Array, spacing: float) -> Array:
    """Return the pegs' places (n, 2): the spots on the lattice that most of them lie on; gaps are filled in from it."""
    model, rows = _model(device), device.row_spacing / device.spacing
    if len(at) < SEEN * len(model):
        raise Unreadable(f"{len(at)} spots look like pegs, and there should be {len(model)}")
    # No spot counts for more than a peg does, however strong: a column beside the lattice is not bought by a dark wall.
    usual = float(np.sort(strength)[::-1][: len(model)].min()) if len(strength) >= len(model) else float(strength.min())
    tree, weight = cKDTree(at), np.sqrt(np.minimum(strength, usual))
    reach = 1.2 * spacing * np.array([abs(model[0, 0]) + 1.0, 2.5 * max(rows, 1.0) + 1.5])
    first = np.flatnonzero((np.abs(at - ball) < reach).all(axis=1))
    best, placed = 0.0, np.empty((0, 2))
    for wide in np.linspace(0.88, 1.12, 9):
        for tall in np.linspace(0.75, 1.25, 13) if len(np.unique(model[:, 1])) > 1 else (1.0,):
            shape = (model - model[0]) * [wide * spacing, tall * wide * rows * spacing]
            for start in at[first]:
                off, index = tree.query(shape + start, distance_upper_bound=NEAR * spacing)
                hit = np.isfinite(off)
                score = (
                    float(np.sum(weight[index[hit]] * (1.0 - off[hit] / (NEAR * spacing))))
                    if hit.sum() >= SEEN * len(model)
                    else 0.0
                )
                if score > best:
                    best, placed = score, shape + start
    if not len(placed):
        raise Unreadable("the spots that look like pegs make no such lattice")
    for _ in range(3):
        off, index = tree.query(placed, distance_upper_bound=NEAR * spacing)
        hit = np.isfinite(off)
        home = _fit(model[hit], at[index[hit]]) if hit.sum() >= 3 else None
        placed = placed if home is None else mapped(home, model)
    off, index = tree.query(placed, distance_upper_bound=NEAR * spacing)
    hit = np.isfinite(off)
    if hit.sum() < SEEN * len(model):
        raise Unreadable(f"{int(hit.sum())} of {len(model)} pegs lie where a lattice would have them")
    placed[hit] = at[index[hit]]
    return placed
