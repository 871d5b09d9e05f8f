"""Launches: the format of the streams, value by value, and what must not depend on what."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pytest

from simulators.sampling import ACT, BLOCK, Distribution, check_seed, generator, launch_block, nominal_launch

NORMAL = Distribution.of({"dist": "norm", "loc": 0.0, "scale": 1.0})


def test_a_value_is_what_the_format_says():
    """Written out once more from the format's own words, for both blocks, two variables and two seeds."""
    for seed in (0, 2**64 - 1):
        for name in ("speed", "spin"):
            word = int.from_bytes(blake2b(f"toss/{name}".encode(), digest_size=8).digest(), "little")
            for block in (0, 1):
                bits = np.random.Philox(key=np.array([seed, word], np.uint64), counter=np.array([0, 0, block, 0], np.uint64))
                wanted = np.random.Generator(bits).standard_normal(1024)
                drawn = launch_block({"speed": NORMAL, "spin": NORMAL}, seed, "toss", block)[name]
                assert drawn.tobytes() == wanted.tobytes()


def test_blocks_variables_streams_and_seeds_are_independent():
    """Correlation of 1,024 pairs: |r| over 4/32 has probability 6e-5 for each of the five."""
    base = launch_block({"a": NORMAL, "b": NORMAL}, 7, "s", 0)
    others = (
        base["b"],
        launch_block({"a": NORMAL}, 7, "s", 1)["a"],
        launch_block({"a": NORMAL}, 7, "t", 0)["a"],
        launch_block({"a": NORMAL}, 8, "s", 0)["a"],
        generator(7, "s", "a", 0, ACT).standard_normal(BLOCK),
    )
    for other in others:
        assert len(np.intersect1d(base["a"], other)) == 0
        assert abs(np.corrcoef(base["a"], other)[0, 1]) < 4 / 32


def test_another_variable_moves_no_other():
    alone = launch_block({"a": NORMAL}, 7, "s", 3)["a"]
    uniform = Distribution.of({"dist": "uniform", "loc": 0.0, "scale": 1.0})
    beside = launch_block({"b": uniform, "a": NORMAL}, 7, "s", 3)["a"]
    assert alone.tobytes() == beside.tobytes()


def test_a_vector_variable_has_a_row_a_launch():
    direction = Distribution.of({"dist": "uniform_direction", "dim": 3})
    drawn = launch_block({"axis": direction}, 1, "s", 0)["axis"]
    assert drawn.shape == (1024, 3)
    assert np.allclose(np.sum(drawn**2, axis=1), 1.0)


def test_the_nominal_launch_is_the_mean():
    laws = {"speed": Distribution.of({"dist": "norm", "loc": 2.0, "scale": 0.0}), "spin": NORMAL}
    nominal = nominal_launch(laws, 3)
    assert nominal["speed"].tolist() == [2.0] * 3 and nominal["spin"].tolist() == [0.0] * 3


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "0", None])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(ValueError, match=r"from 0 to 2\*\*64 - 1"):
        check_seed(seed)


@pytest.mark.parametrize(
    ("config", "part"),
    [
        ({"dist": "nrm"}, "'nrm'"),
        ({"dist": "rv_continuous"}, "'rv_continuous'"),
        ({"dist": "_norm"}, "'_norm'"),
        ({"dist": "norm", "lc": 0.0}, "lc"),
        ({"dist": "norm", "loc": 0.0, "scale": -1.0}, "refuses"),
        ({"dist": "norm", "loc": float("nan"), "scale": 1.0}, "finite"),
    ],
)
def test_what_is_no_law_of_numbers_is_refused(config, part):
    with pytest.raises(ValueError, match=part):
        Distribution.of(config)
