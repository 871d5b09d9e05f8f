"""Outcomes the reference excludes: at 0, 1 and 50 violations every figure stays defined, and the verdict is plain."""

import numpy as np
import pytest

from refcheck import inference, metrics

Q = np.array([0.5, 0.5, 0.0])


def tally(violations):
    valid = 50 - violations
    return np.array([valid - valid // 2, valid // 2, violations])


@pytest.mark.parametrize("violations", [0, 1, 50])
def test_every_figure_is_defined(violations):
    counts, rng = tally(violations), np.random.default_rng(0)
    cell = metrics.cell(counts, 0, Q)
    assert cell.tvd == pytest.approx(np.abs(counts / 50 - Q).sum() / 2)
    assert cell.e0 == pytest.approx(float(metrics.expected_tvd(50, [0.5, 0.5])))  # over the positive cells
    assert np.isfinite(cell.score)
    assert cell.chi_square == (np.inf if violations else 0)
    exact = inference.p_value(counts, Q, rng)
    null = inference.draw_null(50, Q, rng, 2_000)
    drawn = inference.monte_carlo_p_value(counts, Q, null)
    assert exact.value == (0 if violations else pytest.approx(1))
    assert drawn.value == (1 / 2_001 if violations else 1)
    assert np.isfinite(null.chi_square).all()


def test_tvd_is_untouched_by_an_excluded_outcome_nobody_shows():
    assert metrics.tvd([30, 20, 0], Q) == metrics.tvd([30, 20], [0.5, 0.5])
    assert metrics.chi_square([30, 20, 0], Q) == metrics.chi_square([30, 20], [0.5, 0.5])
