"""Checks of a device's parameters: every problem at once, each naming the parameter, its value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from simulators.sampling import Distribution


def laws(random: Mapping[str, Any]) -> dict[str, Distribution]:
    """Return `random` with every config turned into a `Distribution`. Raises one `ValueError` for all that cannot be."""
    built, problems = {}, []
    for name, law in random.items():
        try:
            built[str(name)] = law if isinstance(law, Distribution) else Distribution.of(law)
        except (ValueError, AttributeError, TypeError) as error:
            problems.append(f"`random.{name}`: {error}")
    if problems:
        raise ValueError("\n".join(problems))
    return built


def check_fields(
    device: Any,
    *,
    positive: Sequence[str] = (),
    share: Sequence[str] = (),
    at_least_zero: Sequence[str] = (),
    further: Iterable[tuple[bool, str, str]] = (),
) -> None:
    """Raise one `ValueError` that lists every parameter of `device` out of its range, and every random variable amiss.

    `further` holds (is it right, parameter, what it must be).
    """
    problems = []
    for names, is_right, rule in (
        (positive, lambda x: x > 0.0, "must be larger than 0"),
        (share, lambda x: 0.0 <= x <= 1.0, "must be from 0 to 1"),
        (at_least_zero, lambda x: x >= 0.0, "must be at least 0"),
    ):
        for name in names:
            value = getattr(device, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not math.isfinite(value)
                or not is_right(value)
            ):
                problems.append(f"`{name}` {rule}, got {value!r}")
    problems += [f"`{name}` {rule}, got {getattr(device, name)!r}" for is_right, name, rule in further if not is_right]
    missing, unknown = set(device.variables) - set(device.random), set(device.random) - set(device.variables)
    if missing or unknown:
        found = " and ".join(
            [f"{word} {', '.join(sorted(names))}" for word, names in (("lacks", missing), ("has unknown", unknown)) if names]
        )
        problems.append(f"`random` {found}; {type(device).__name__} takes {', '.join(device.variables)}")
    if problems:
        raise ValueError("\n".join(problems))
