"""One cell or ten thousand: lets a function of one cell take leading cell axes, and puts its answers back into arrays.

It knows no statistic. What the cells can share (one lattice, one law) their own function shares; here is a plain loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from refcheck.metrics import FloatArray

P = ParamSpec("P")
T = TypeVar("T")
Real = float | FloatArray
"""A figure: a number for one cell, an array (...) for many."""
Whole = int | NDArray[np.int64]
"""A whole number for one cell, an array (...) for many."""
SETTINGS = frozenset({"level", "alpha", "epsilon", "draws", "kind", "method", "assumption"})
"""Fields of a result that say how it was made: the same for every cell of a call, so they stay single."""


def over_cells(**axes: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function of one cell take leading cell axes in the array arguments named, `axes` of their own each.

    Leading axes are broadcast; the function is called once a cell, in C order, so that a generator among the arguments gives
    what as many calls one after another would. Fields of the results become arrays (...), those of `SETTINGS` stay single.
    A call without leading axes is the function's own. A `ValueError` of one cell is raised with that cell's index.
    """

    def decorate(one: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(one)

        @wraps(one)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            bound = signature.bind(*args, **kwargs)
            arrays = {name: np.asarray(bound.arguments[name]) for name in axes if name in bound.arguments}  # a `Tally`: ()
            leading = {name: max(0, array.ndim - axes[name]) for name, array in arrays.items()}
            shape = np.broadcast_shapes(*(array.shape[: leading[name]] for name, array in arrays.items()))
            if not shape:
                return one(*args, **kwargs)
            many = {
                name: np.broadcast_to(array, shape + array.shape[leading[name] :]).reshape(-1, *array.shape[leading[name] :])
                for name, array in arrays.items()
                if array.ndim
            }
            found = list[T]()
            for i in range(int(np.prod(shape))):
                bound.arguments.update({name: array[i] for name, array in many.items()})
                try:
                    found.append(one(*bound.args, **bound.kwargs))
                except ValueError as error:
                    where = tuple(int(place) for place in np.unravel_index(i, shape))
                    raise type(error)(f"cell {where[0] if len(where) == 1 else where}: {error}") from error
            return gather(found, shape)

        return call

    return decorate


def gather(found: Sequence[T], shape: tuple[int, ...]) -> T:
    """Return one result whose fields are arrays (*shape, ...) from results of one cell each, in C order, at least one."""
    if not found:
        raise ValueError("at least one cell is needed")
    first: Any = found[0]
    if is_dataclass(first) and not isinstance(first, type):
        changed = {
            field.name: gather([getattr(item, field.name) for item in found], shape)
            for field in fields(first)
            if field.name not in SETTINGS
        }
        return cast(T, replace(first, **changed))
    array = np.asarray(found)
    return cast(T, array.reshape(*shape, *array.shape[1:]))


def real(values: FloatArray) -> Real:
    """Return figures (...): a float for one cell, which JSON can hold, an array for many."""
    return float(values) if values.ndim == 0 else values


def whole(values: FloatArray | NDArray[np.integer[Any]]) -> Whole:
    """Return whole numbers (...): an int for one cell, which JSON can hold, an array for many."""
    return int(values) if values.ndim == 0 else values.astype(np.int64)


def alike(*columns: FloatArray) -> Iterator[tuple[FloatArray, NDArray[np.intp]]]:
    """Yield each distinct row of `columns` ((cells,) or (cells, c), side by side) with the cells (m,) that have it."""
    rows, where = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    order = np.argsort(where.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(where.ravel(), minlength=len(rows)))
    yield from zip(rows, np.split(order, ends[:-1]), strict=True) if len(rows) else ()
