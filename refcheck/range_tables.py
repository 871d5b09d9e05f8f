"""A reference over its range, as people read it: the table of what drives it, and the figure of all places.

It refuses to compute anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib.figure import Figure
from rich import box
from rich.table import Table

from refcheck.ranges import Point, Range
from refcheck.tolerance import epsilon_of
from scenes.scene import Scene


def tables(found: Range, scene: Scene) -> list[Any]:
    """Return what is printed of a range: one line of shares, the factors by influence, the worst place found."""
    shown = Table(
        title=f"{scene.id} over its range: {len(found.points)} places of {found.points[0].n} rollouts",
        title_justify="left",
        box=box.SIMPLE,
    )
    shown.add_column("parameter")
    for name in ("nominal", "range", "influence", "worst at"):
        shown.add_column(name, justify="right")
    by_path = {one.path: one for one in found.factors}
    for path in found.influence:
        one = by_path[path]
        shown.add_row(
            path.removeprefix("scene.device."),
            f"{one.nominal:g}",
            f"{one.low:.3g} to {one.high:.3g}",
            f"{found.influence[path]:+.2f}",
            f"{found.worst.values.get(path, one.nominal):.3g}",
        )
    lines = [
        f"Holds at {found.holds:.0%} of the places, fails at {found.fails:.0%}, undecided at {found.undecided:.0%}; "
        f"bounds hold at all of them at once. Worst found: TVD {_told(found.worst)}, run again on fresh launches.",
        "Influence: rank correlation of the parameter with TVD.",
    ]
    if found.spreads:
        lines.append(
            "With every spread of the launch times a factor: "
            + (
                "it holds at no factor that was tried up to 1."
                if found.smallest_spread is None
                else f"it holds from {found.smallest_spread:.3g} up to 1."
            )
            + ("" if found.closed_form is None else f" Theory: from {found.closed_form:.3g} on at the latest.")
        )
    named = {
        "twice the steps": found.half_step,
        "half the steps": found.double_step,
        "the other integrator": found.second_integrator,
    }
    lines += [f"With {name}: TVD {_told(point)}, n {point.n}." for name, point in named.items() if point is not None]
    return [shown, "\n".join(lines)]


def _told(point: Point) -> str:
    return f"{point.tvd:.4f} ({point.lower:.4f} to {point.upper:.4f})"


def plot(found: Range, scene: Scene, path: Path) -> None:
    """Draw TVD against each parameter (all places), and against the spread of the launch, into a PNG."""
    factors = [one for name in found.influence for one in found.factors if one.path == name][:7]
    count = len(factors) + bool(found.spreads)
    columns = min(4, max(count, 1))
    rows = -(-max(count, 1) // columns)
    figure = Figure(figsize=(3.4 * columns, 2.6 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    for axis, one in zip(axes, factors, strict=False):
        x = [point.values[one.path] for point in found.points]
        axis.vlines(x, [p.lower for p in found.points], [p.upper for p in found.points], color="#b8c4d6", linewidth=1.0)
        axis.plot(x, [p.tvd for p in found.points], ".", color="#23416b", markersize=4)
        axis.plot([found.worst.values.get(one.path, one.nominal)], [found.worst.tvd], "x", color="#b03030", markersize=7)
        axis.axvline(one.nominal, color="#888888", linewidth=0.8, linestyle=":")
        axis.set_xscale("log" if one.log else "linear")
        axis.set_xlabel(one.path.removeprefix("scene.device.").removeprefix("random."), fontsize=8)
    if found.spreads:
        axis = axes[len(factors)]
        factor, tvd, upper, lower = np.array(found.spreads).T
        axis.fill_between(factor, lower, upper, color="#dfe6f1")
        axis.plot(factor, tvd, ".-", color="#23416b", markersize=4)
        axis.set_xscale("log")
        axis.set_xlabel("factor on every spread of the launch", fontsize=8)
    for axis in axes[count:]:
        axis.axis("off")
    for axis in axes[:count]:
        axis.axhline(epsilon_of(scene), color="#2c7a4b", linewidth=0.8)
        axis.set_ylim(bottom=0.0)
        axis.tick_params(labelsize=7)
        axis.set_ylabel("TVD from q", fontsize=8)
    figure.suptitle(f"{scene.id}: the reference over its range (x: worst found, fresh launches; green: epsilon)", fontsize=9)
    figure.savefig(path, dpi=130, format="png")
