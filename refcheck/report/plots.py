"""Figures as inline SVG: their words are text in the page's font, their colours the page's, so both themes read well.

It refuses to know files and verdicts; it draws the numbers it is given.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.stats import binom

INK, MUTED, LINE, SIMULATED, REFERENCE, BAND = "#010203", "#010204", "#010205", "#010206", "#010207", "#010208"
"""Stand-ins that the SVG's colours are replaced by: CSS variables of the page, so that light and dark both work."""
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    LINE: "--line",
    SIMULATED: "--simulated",
    REFERENCE: "--reference",
    BAND: "--band",
}
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "quincunx",
    "text.parse_math": False,  # a label is text, whatever it holds
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
}
WIDTH = 4.2  # inches at 100 units each: a phone's width, so that nothing shrinks much there
CROWDED = 14  # outcomes from which labels stand upright and small
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A value with its interval [low, high] and, for a model, the range that a model which is q would show."""

    name: str
    value: float
    low: float
    high: float
    expected: tuple[float, float] | None = None


def shares(outcomes: Sequence[str], counts: Sequence[int], q: np.ndarray, described: str, identity: str) -> str:
    """Return bars of the observed share of each outcome beside q and its null band.

    The band of an outcome is the central 95 % of Binomial(n, q_i)/n, exact: where a bar would end if q held.

    Args:
        outcomes: labels (k,).
        counts: observed counts (k,).
        q: reference probabilities (k,).
        described: what the picture shows, for those who cannot see it.
        identity: prefix of the ids in the SVG, unlike any other on the page.
    """
    n, k = sum(counts), len(outcomes)
    observed = np.array(counts) / max(n, 1)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.3), layout="constrained")
        axes = figure.add_subplot()
        place = np.arange(k)
        axes.bar(place, observed, width=0.5, color=SIMULATED, zorder=3)
        low, high = binom.ppf((1 - LEVEL) / 2, n, q) / max(n, 1), binom.ppf((1 + LEVEL) / 2, n, q) / max(n, 1)
        if n:
            axes.bar(place, high - low, bottom=low, width=0.86, color=BAND, alpha=0.5, zorder=2, linewidth=0)
        axes.hlines(q, place - 0.43, place + 0.43, color=REFERENCE, linewidth=1.8, zorder=4)
        _label_outcomes(axes, outcomes)
        top = max(float(observed.max(initial=0)), float(np.max(high, initial=0)), float(q.max()))
        axes.set_ylim(0, top * 1.08)
        axes.set_xlim(-0.6, k - 0.4)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        axes.grid(axis="y", color=LINE, linewidth=0.6, zorder=0)
        return _svg(figure, described, identity)


def _label_outcomes(axes: Axes, outcomes: Sequence[str]) -> None:
    crowded = len(outcomes) > CROWDED or sum(map(len, outcomes)) > 60
    axes.set_xticks(range(len(outcomes)), [label if len(label) <= 18 else label[:17] + "…" for label in outcomes])
    if crowded:
        axes.tick_params(axis="x", labelrotation=90, labelsize=7)


def distance(
    tvd: float, lower: float, upper: float, epsilon: float, band: tuple[float, float], described: str, identity: str
) -> str:
    """Return one line of TVD: the estimate with its interval, epsilon, and where TVD falls when q holds (the null band)."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.85), layout="constrained")
        axes = figure.add_subplot()
        right = max(upper, epsilon, band[1], 1e-6) * 1.12
        axes.axvspan(*band, ymin=0.12, ymax=0.88, color=BAND, alpha=0.5, linewidth=0, zorder=1)
        axes.axvline(epsilon, color=REFERENCE, linewidth=1.6, linestyle=(0, (3, 2)), zorder=2)
        axes.hlines(0, lower, upper, color=SIMULATED, linewidth=2.4, zorder=3)
        axes.plot([tvd], [0], "o", color=SIMULATED, markersize=6.5, zorder=4)
        axes.annotate("ε", (epsilon, 1), xytext=(0, 1), textcoords="offset points", ha="center", va="bottom", color=REFERENCE)
        axes.set_xlim(0, right)
        axes.set_ylim(-1, 1)
        axes.set_yticks([])
        axes.xaxis.set_major_locator(MaxNLocator(5, min_n_ticks=3))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
        axes.tick_params(axis="x", labelcolor=MUTED)
        return _svg(figure, described, identity)


def models(rows: Sequence[Interval], described: str, identity: str) -> str:
    """Return a line a model: value, interval, and the range of a model that is q with the same nulls."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.4 + 0.36 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        place = -np.arange(len(rows))
        for y, row in zip(place, rows, strict=True):
            if row.expected:
                axes.barh(
                    y, row.expected[1] - row.expected[0], left=row.expected[0], height=0.5, color=BAND, alpha=0.5, zorder=1
                )
            axes.hlines(y, row.low, row.high, color=SIMULATED, linewidth=2.4, zorder=2)
            axes.plot([row.value], [y], "o", color=SIMULATED, markersize=7, zorder=3)
        axes.set_yticks(place, [row.name if len(row.name) <= 16 else row.name[:15] + "…" for row in rows])
        axes.tick_params(axis="y", labelcolor=INK)
        axes.tick_params(axis="x", labelcolor=MUTED)
        ends = [end for row in rows for end in (row.high, row.value, row.expected[1] if row.expected else 0)]
        starts = [start for row in rows for start in (row.low, row.value)]
        axes.set_xlim(min(0.0, *starts), max(*ends, 1e-6) * 1.08)
        axes.set_ylim(-len(rows) + 0.4, 0.6)
        axes.grid(axis="x", color=LINE, linewidth=0.6, zorder=0)
        return _svg(figure, described, identity)


_COLORS = re.compile("|".join(VARIABLES))
_DROPPED = re.compile(r"<metadata>.*?</metadata>|<style\b.*?</style>|<!--.*?-->", re.S)


def _svg(figure: Figure, described: str, identity: str) -> str:
    """Return the figure as an SVG element for a page: no prologue, no metadata, ids of its own, colours by variable."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True)
    text = _DROPPED.sub("", buffer.getvalue())
    text = text[text.index("<svg") :]
    box = re.search(r'viewBox="[0-9. ]+"', text)
    if box is None:
        raise ValueError("matplotlib wrote an SVG without a viewBox")
    head = f'<svg role="img" aria-label="{escape(described)}" {box.group()}>'
    body = text[text.index(">") + 1 :].strip()

    def adapt(tag: re.Match[str]) -> str:
        # Within tags alone: a label may say anything, and is text.
        inside = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{identity}-", tag.group())
        inside = re.sub(r"\bxlink:href=", "href=", inside)
        inside = re.sub(r"font-family: [^;\"]*;? ?", "", inside)
        return _COLORS.sub(lambda color: f"var({VARIABLES[color.group()]})", inside)

    return head + re.sub(r"<[^>]*>", adapt, body)
