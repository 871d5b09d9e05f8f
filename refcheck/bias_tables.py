"""What `bias` prints: measures, distributions, verdict. Computes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

if TYPE_CHECKING:
    from refcheck.bias import Bias, Measure


def _figure(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {number}" for name, number in value.items())
    return " ".join(f"{one:.4g}" for one in np.atleast_1d(value))


def line(one: Measure) -> str:
    """Return one measure in words."""
    sd = "" if one.sigma is None else f" (sd {_figure(one.sigma)})"
    return f"{one.name}: {_figure(one.value)} {one.unit}{sd}; the scene has {_figure(one.scene)}"


def verdict(bias: Bias) -> str:
    """Return the verdict in words, with what it rests on."""
    text = (
        f"{bias.verdict}: TVD from the reference {bias.tvd:.4f}, between {bias.lower:.4f} and {bias.upper:.4f}; it matters "
        f"from {bias.epsilon:g}"
    )
    how = "to blame" if bias.verdict == "biased" else "it hangs on"
    return text + (f"; {how}: {', '.join(bias.to_blame)}" if bias.to_blame else "")


def tables(bias: Bias) -> tuple[Any, ...]:
    """Return what is shown of a result."""
    measured = Table(title=f"{bias.scene}: measured in {bias.picture} (by {bias.read_by})", title_justify="left")
    for name in ("measure", "unit", "picture", "sd", "scene", "shift alone", "of chance"):
        measured.add_column(name)
    for one in bias.measures:
        shift = [f"{x:.4f}" if np.isfinite(x) else "-" for x in (one.shift, one.noise)]
        measured.add_row(one.name, one.unit, _figure(one.value), _figure(one.sigma), _figure(one.scene), *shift)
    outcomes = Table(title=f"what it implies ({bias.n} rollouts of {bias.draws} draws)", title_justify="left")
    for name in ("outcome", "reference", "scene's device", "picture", "from", "to"):
        outcomes.add_column(name)
    for row in zip(bias.outcomes, bias.q, bias.q_scene, bias.q_image, bias.q_image_low, bias.q_image_high, strict=True):
        outcomes.add_row(row[0], *(f"{x:.4f}" for x in row[1:]))
    closing = [verdict(bias)]
    if bias.throws is not None:
        for what, at in (("the reference", bias.throws.from_q), ("what the picture implies", bias.throws.from_image)):
            closing.append(f"{at.n} real throws: TVD {at.tvd:.4f} from {what}, the object itself {at.low:.4f} to {at.high:.4f}")
    return measured, outcomes, "\n".join(closing)
