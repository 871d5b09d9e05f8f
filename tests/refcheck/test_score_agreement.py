"""Agreement and any-time intervals from the command line: they are the core's, in every cell of both benchmarks."""

import numpy as np
import pytest
import scipy.stats
from scoring import CSV, answer, drawn, policy_of, rows_of, write

from refcheck.anytime import distance_interval
from refcheck.command import UserError

HALF = [0.5, 0.5]


def balls(tmp_path, model="m", right=100, n=200):
    path = tmp_path / "x.csv"
    path.write_text("scene,model,seed,bin\n" + "".join(f"ball,{model},{i},{1 + (i < right)}\n" for i in range(n)))
    return path


def test_agreement_is_shown_by_enough_rollouts_alone(tmp_path):
    answered = answer(data=balls(tmp_path), epsilon=0.1)
    cell = answered.result["models"]["m"]["cells"]["ball"]["equivalence"]
    # The binomial tail by hand: 200 rollouts no further from 1/2 than 0, where p(A) is .6.
    assert cell["p"] == pytest.approx(scipy.stats.binom.cdf(100, 200, 0.6)) and cell["verdict"] == "within"
    few = answer(data=balls(tmp_path, right=10, n=20), epsilon=0.1).result["models"]["m"]["cells"]["ball"]["equivalence"]
    assert few["p"] == pytest.approx(scipy.stats.binom.cdf(10, 20, 0.6)) and few["verdict"] == "not shown"
    far = answer(data=balls(tmp_path, right=170), epsilon=0.1).result["models"]["m"]["cells"]["ball"]["equivalence"]
    assert far["p"] > 0.99 and far["verdict"] == "not shown"
    assert "within" in drawn(answered.tables) and "not shown" not in drawn(answered.tables)


def test_verdicts_stand_by_benjamini_hochberg_over_all_cells():
    cells = answer(data=CSV, epsilon=0.3).result["models"]
    held = [cell["equivalence"] for entry in cells.values() for cell in entry["cells"].values() if cell["n_valid"]]
    adjusted = scipy.stats.false_discovery_control([entry["p"] for entry in held])
    assert [entry["p_benjamini_hochberg"] for entry in held] == pytest.approx(list(adjusted))
    assert [entry["verdict"] for entry in held] == ["within" if p < 0.05 else "not shown" for p in adjusted]
    assert any(entry["p"] < 0.05 and entry["verdict"] == "not shown" for entry in held)
    assert all("equivalence" not in c for entry in cells.values() for c in entry["cells"].values() if not c["n_valid"])


def test_anytime_intervals_are_the_confidence_sequence(tmp_path):
    answered = answer(data=CSV, anytime=True)
    cell = answered.result["models"]["wan"]["cells"]["dice"]
    found = distance_interval(cell["counts"], np.full(6, 1 / 6), 0.05)
    assert cell["anytime"]["interval"] == [found.low, found.high] and cell["anytime"]["rejects"] is True
    assert cell["anytime"]["log_e"] == pytest.approx(cell["log_e"])
    assert cell["anytime"]["interval"][0] <= cell["tv"] <= cell["anytime"]["interval"][1]
    assert "95 %, anytime" in drawn(answered.tables)


def test_both_for_pawbench_too(tmp_path):
    policy = policy_of(scenes=2, repeats=60)
    rows = rows_of(policy, lambda scene, repeat: "a" if repeat % 2 else "b" if scene[0] == "A" else "c")
    held = answer(**write(tmp_path, policy, rows), partial=True, epsilon=0.2, anytime=True)
    for scene in held.result["pawbench"]["tracks"]["calibration"]["models"]["m"]["scenes"]:
        assert scene["equivalence"]["p"] == pytest.approx(scipy.stats.binom.cdf(30, 60, 0.7))
        found = distance_interval([30, 30], HALF, 0.05)
        assert scene["anytime"]["interval"] == [found.low, found.high] and scene["anytime"]["rejects"] is False
    assert "equivalence" not in held.result["pawbench"]["tracks"]["coverage"]["models"]["m"]["scenes"][0]


@pytest.mark.parametrize("key", [{"epsilon": 0.1}, {"anytime": True}, {"plan": 0.1}])
def test_they_are_refused_where_they_say_nothing(tmp_path, key):
    name = next(iter(key))
    policy = policy_of(scenes=1, repeats=10)
    held = write(tmp_path, policy, rows_of(policy, lambda scene, repeat: "a"))
    with pytest.raises(UserError, match=f"{name}= is for independent rollouts alone, and sampling=quota"):
        answer(**held, partial=True, sampling="quota", **key)
    with pytest.raises(UserError, match=f"{name}= is for cells of one setting"):
        answer(data="guidance", **key)
    with pytest.raises(UserError, match="budget= is for cells of one setting"):
        answer(data="guidance", budget="10")


def test_a_plan_looks_at_references_alone(tmp_path):
    answered = answer(data=balls(tmp_path), plan=0.1)
    plan, other = answered.result["plan"], answer(data=CSV, plan=0.1).result["plan"]
    assert plan == other and list(plan["scenes"])[:3] == ["galton_board_real", "galton_board", "ball"]
    # A coin by hand: (z_.975 + z_.8)^2 / (4 d^2) = 196.2 to see .6 for .5; (2 z / width)^2 / 4 = 384.1 for a width.
    assert (plan["scenes"]["ball"]["detect"], plan["width"]) == (197, 385)
    # What passes at n is a binomial tail: the least n at which the 80 % quantile of |heads/n - 1/2| has p <= .05; to 1 %,
    # and the quantile is of 2,000 draws.
    n = plan["scenes"]["ball"]["agreement"]
    passed = [x for x in range(n + 1) if scipy.stats.binom.cdf(n / 2 + abs(x - n / 2), n, 0.6) <= 0.05]
    assert scipy.stats.binom.pmf(passed, n, 0.5).sum() == pytest.approx(0.8, abs=0.05)
    assert "197" in drawn(answered.tables)


def test_the_exact_multinomial_test_stands_beside_the_exact_chi_square(tmp_path):
    cell = answer(data=balls(tmp_path, right=8, n=30)).result["models"]["m"]["cells"]["ball"]
    assert cell["p_multinomial"] == pytest.approx(scipy.stats.binomtest(8, 30).pvalue)
