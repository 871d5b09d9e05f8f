"""What is said of a judge: against exact figures of its errors, known in advance."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from numpy.random import Generator, Philox

from refcheck import control_report, metrics
from refcheck.blind import Opened
from refcheck.blind_key import Sealed
from refcheck.control_report import interval, lower_bound, measure_stack, upper_bound, verdict

OUTCOMES = ("left", "right")


def one(truth, reading, kind="", null="", trust=None, failure=None):
    sealed = Sealed(
        scene="s", repeat=0, sha256="0" * 64, index=0, frames=1, truth=truth,
        null="unreadable" if truth is None else "", kind=kind, axis="object_continuity" if kind == "vanish" else "", batch=0,
    )  # fmt: skip
    return Opened(sealed, reading, null or ("" if reading else "unreadable"), trust=trust, failure=failure)


def test_bounds_are_those_of_clopper_and_pearson():
    """Against scipy's own interval, and the closed form .05 ** (1 / n) for n of n."""
    for hits, n in ((0, 7), (3, 7), (7, 7), (98, 100)):
        exact = scipy.stats.binomtest(hits, n).proportion_ci(0.95, "exact")
        assert interval(hits, n) == pytest.approx((exact.low, exact.high))
    assert lower_bound(299, 299) == pytest.approx(0.05 ** (1 / 299)) and lower_bound(299, 299) > 0.99 > lower_bound(298, 298)
    assert upper_bound(0, 10) == pytest.approx(1 - 0.05**0.1) and lower_bound(0, 5) == 0.0


def test_confusion_counts_clean_clips_that_were_read_and_no_others():
    opened = [
        *[one("left", "left")] * 5, *[one("left", "right")] * 2, one("right", None),
        one("right", "left", kind="vanish"), one(None, "left", kind="blur"), one("left", None, failure="machine"),
    ]  # fmt: skip
    table = control_report.confusion(OUTCOMES, opened)
    assert table.tolist() == [[5, 2, 0], [0, 0, 1]]
    assert control_report.check(OUTCOMES, opened, table) == []


def test_a_transposed_matrix_contradicts_its_counts():
    opened = [*[one("left", "left")] * 5, *[one("left", "right")] * 2, one("right", "right")]
    table = control_report.confusion(OUTCOMES, opened)
    wrong = np.column_stack([table[:, :-1].T, table[:, -1]])
    assert len(control_report.check(OUTCOMES, opened, wrong)) == 2


def test_nulls_by_cause_and_false_alarms_by_kind():
    good, bad = {"status": "TRUSTED", "object_continuity": "PASS"}, {"status": "UNTRUSTED", "object_continuity": "FAIL"}
    opened = [
        *[one("left", "left", trust=good)] * 9, one("left", "left", trust=bad),
        *[one("left", "left", kind="vanish", trust=bad)] * 3, one("left", None, kind="vanish", trust=good),
        one(None, None, kind="stuck", null="out_of_schema"), one(None, "right", kind="stuck"),
        *[one(None, None, kind="blur", null="unreadable")] * 2,
    ]  # fmt: skip
    kinds = control_report.by_kind(opened)
    assert kinds["vanish"]["audit"] | {"interval": None} == {
        "clips": 4, "distrusted": 3, "right_axis": 3, "axis": "object_continuity", "interval": None,
    }  # fmt: skip
    assert (kinds["vanish"]["answered"], kinds["vanish"]["right"]) == (3, 3)
    assert (kinds["stuck"]["answered"], kinds["stuck"]["nulls"]) == (1, {"out_of_schema": 1})
    assert kinds["blur"]["right_cause"] == 2
    alarms = control_report.false_alarms(opened)
    assert (alarms["clips"], alarms["alarms"], alarms["by_axis"]) == (10, 1, {"object_continuity": 1})


def table_of(errors, clips=1000, nulls=0):
    right = clips - errors - nulls
    return np.array([[right, errors, nulls], [errors, right, nulls]])


@pytest.mark.parametrize(
    ("table", "kinds", "part"),
    [
        (table_of(0), {}, None),
        (table_of(20), {}, "right in 1960 of 2000 answers, fewer than 99%"),
        (table_of(0, clips=20), {}, "40 answers are too few: the lower bound of their rightness is 0.928"),
        (table_of(0, nulls=60), {}, "no answer to 120 of 2000 clean clips"),
        (table_of(0), {"blur": {"clips": 10, "answered": 1}}, "an answer to 1 of 10 clips that show no outcome"),
        (table_of(0), {"vanish": {"clips": 10, "answered": 10}}, None),
        (np.zeros((2, 3), int), {}, "no clean clip"),
    ],
)
def test_usable_or_why_not(table, kinds, part):
    usable, against = verdict(table, kinds)
    assert usable == (part is None) == (not against)
    assert part is None or part in against[0]


def test_a_perfect_judge_leaves_floor_and_power_as_they_are():
    """Two outcomes, K = 50: all exact from binomials. Monte-Carlo error of 4,000 draws: 4 sd of the mean, .01 of the tilt."""
    stack = measure_stack(OUTCOMES, np.array([0.5, 0.5]), table_of(0), Generator(Philox(1)))
    assert stack.floor == pytest.approx(float(metrics.expected_tvd(50, [0.5, 0.5])))
    assert stack.tvd == pytest.approx(stack.floor, abs=4 * 0.043 / math.sqrt(4000))
    assert stack.tilt == pytest.approx(stack.tilt_perfect, abs=0.011)
    x = np.arange(51)  # rejected: |x - 25| >= 8, since P(|x - 25| >= 7) = .065 is above .05
    reject = np.abs(x - 25) >= 8
    assert scipy.stats.binom.pmf(x, 50, 0.5)[reject].sum() < 0.05 < scipy.stats.binom.pmf(x, 50, 0.5)[np.abs(x - 25) >= 7].sum()
    power = [scipy.stats.binom.pmf(x, 50, 0.5 + tilt)[reject].sum() for tilt in (stack.tilt - 0.015, stack.tilt + 0.01)]
    assert power[0] < 0.8 < power[1]


def test_a_judge_that_errs_hides_a_tilt():
    """Errors e both ways shrink a tilt to (1 - 2 e) of itself, so that one (1 - 2 e) times as large is needed; .02 allowed."""
    perfect = measure_stack(OUTCOMES, np.array([0.5, 0.5]), table_of(0), Generator(Philox(2)))
    stack = measure_stack(OUTCOMES, np.array([0.5, 0.5]), table_of(100), Generator(Philox(2)))
    assert stack.tilt == pytest.approx(perfect.tilt / 0.8, abs=0.02)


def test_a_judge_with_a_bias_rejects_a_perfect_model():
    """It calls 30 % of right left: 65 % of 50 clips are called left, against the exact binomial; 4 sd allowed."""
    table = np.array([[1000, 0, 0], [300, 700, 0]])
    stack = measure_stack(OUTCOMES, np.array([0.5, 0.5]), table, Generator(Philox(3)))
    x = np.arange(51)
    pmf = scipy.stats.binom.pmf(x, 50, 0.65)
    assert stack.tvd == pytest.approx((pmf * np.abs(x / 50 - 0.5)).sum(), abs=4 * 0.067 / math.sqrt(4000))
    assert stack.alarm == pytest.approx(pmf[np.abs(x - 25) >= 8].sum(), abs=4 * 0.5 / math.sqrt(4000))


def test_what_cannot_be_known_is_refused():
    with pytest.raises(ValueError, match="no control shows right"):
        measure_stack(OUTCOMES, np.array([0.5, 0.5]), np.array([[5, 0, 0], [0, 0, 0]]), Generator(Philox(0)))
    with pytest.raises(ValueError, match="one certain outcome"):
        measure_stack(OUTCOMES, np.array([1.0, 0.0]), np.array([[5, 0, 0], [0, 0, 0]]), Generator(Philox(0)))


def test_disagreement_counts_nulls_as_readings():
    first = [one("left", "left"), one("left", None), one("left", "left"), one("left", "left", failure="x")]
    second = [one("left", "right"), one("left", None), one("left", None), one("left", "left")]
    told = control_report.disagreement(first, second)
    assert (told["clips"], told["differ"]) == (3, 2)
