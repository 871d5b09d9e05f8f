"""Bounds over the nulls against CaliBench's figures and brute force; votes."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refcheck import metrics, missing
from refcheck.calibench import SCENES

EXPECTED = json.loads((Path(__file__).parent / "data" / "calibench_expected.json").read_text())
CASES = [(scene, model) for scene, models in EXPECTED["mcar"].items() for model in models]


@pytest.mark.parametrize(("scene", "model"), CASES)
def test_published_bounds(scene, model):
    cell, expected = EXPECTED["cells"][scene][model], EXPECTED["mcar"][scene][model]
    bounds = missing.null_bounds(cell["counts"], cell["N"] - cell["n_valid"], SCENES[scene].array())
    for name in ("best", "worst", "reported"):
        assert getattr(bounds, name) == pytest.approx(expected[name], abs=1e-12)


@given(
    st.lists(st.integers(0, 6), min_size=3, max_size=3),
    st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any),
    st.integers(0, 7),
)
@settings(deadline=None)
def test_bounds_are_the_extremes_of_every_way_to_fill_in(counts, weights, nulls):
    q = np.array(weights) / sum(weights)
    if sum(counts) + nulls == 0:
        return
    ways = [way for way in product(range(nulls + 1), repeat=3) if sum(way) == nulls]
    values = metrics.tvd(np.array(counts) + np.array(ways), q)
    bounds = missing.null_bounds(counts, nulls, q)
    assert bounds.best == pytest.approx(values.min(), abs=1e-12)
    assert bounds.worst == pytest.approx(values.max(), abs=1e-12)


def test_bounds_of_many_cells_at_once_and_of_none():
    counts, nulls = np.array([[3, 1], [0, 0], [5, 5]]), np.array([2, 0, 0])
    bounds = missing.null_bounds(counts, nulls, [0.5, 0.5])
    assert np.isnan([bounds.best[1], bounds.worst[1], bounds.reported[1]]).all()
    assert bounds.best[[0, 2]].tolist() == [0, 0]
    assert bounds.worst[2] == 0
    with pytest.raises(ValueError, match="`nulls`"):
        missing.null_bounds([1, 2], 0.5, [0.5, 0.5])
    with pytest.raises(ValueError, match="equally many"):
        missing.null_bounds([1, 2, 3], 0, [0.5, 0.5])


def test_votes():
    votes = [[2, 2, 0], [0, 1, 2], [-1, -1, 3], [-1, 3, 3], [-1, 1, 2], [4, 4, 4]]
    assert missing.vote(votes).tolist() == [2, -1, -1, 3, -1, 4]
    assert missing.vote([0, 0, 1, 1, 2]) == -1
    assert missing.vote([7]) == 7
    with pytest.raises(ValueError, match="`votes`"):
        missing.vote([0.5, 1])
