"""Comparisons of models: three views by hand, orders that nulls could turn, p against exact counts; pairs of scenes."""

import json

import numpy as np
import pytest
import scipy.stats
from scoring import CSV, answer, drawn, policy_of, rows_of, write

from refcheck import compare, pairs
from refcheck.policy import Expected

SCENE = Expected("A", "calibration", None, ("a", "b"), (0.5, 0.5), frozenset(range(50)))
COVERED = Expected("B", "coverage", None, ("a", "b", "c", "d"), None, frozenset(range(50)))


def paw(tmp_path, outcome, models=("m", "n"), **values):
    policy = policy_of(models=models)
    rows = []
    for model in models:
        one = policy | {"model_or_lanes": [model]}
        rows += rows_of(one, lambda scene, repeat, model=model: outcome(model, scene, repeat))
    return answer(**write(tmp_path, policy, rows), **values)


def test_bounds_over_what_nulls_might_have_been():
    # 30 a, 10 b, 10 null: best 30 to 20, TVD 10 %; worst 40 to 10, TVD 30 %.
    assert compare.imputed([30, 10], 10, SCENE) == pytest.approx((10, 30))
    assert compare.imputed([25, 25], 0, SCENE) == pytest.approx((0, 0))
    assert compare.imputed([0, 0], 50, SCENE) == pytest.approx((0, 50))
    assert compare.imputed([5, 5, 0, 0], 1, COVERED) == (50, 75)
    assert compare.imputed([5, 5, 0, 0], 9, COVERED) == (50, 100)
    assert compare.imputed([0, 0, 0, 0], 2, COVERED) == (25, 50)
    with pytest.raises(ValueError, match="without a rollout"):
        compare.imputed([0, 0], 0, SCENE)


def test_three_views_by_hand(tmp_path):
    # m: scene 0 is 40 to 10 (TVD 30), the others 30 to 20 (10). n: fails scene 0 (31 nulls), the others 31 to 19 (12).
    def outcome(model, scene, repeat):
        if model == "n" and scene == "A-00":
            return "a" if repeat < 19 else None
        if scene.startswith("B"):
            return "abcd"[repeat % 4]
        return "a" if repeat < (40 if scene == "A-00" else 30 + (model == "n")) else "b"

    answered = paw(tmp_path, outcome)
    held = answered.result["pawbench"]["comparisons"]["calibration"]
    (pair,) = held["pairs"]
    assert held["models"]["m"]["passing"] == pytest.approx((30 + 24 * 10) / 25)
    assert held["models"]["n"]["passing"] == pytest.approx(12)
    assert (pair["first"], pair["second"], pair["intersection"]["size"], len(held["intersection"])) == ("m", "n", 24, 24)
    assert pair["passing"] == pytest.approx(10.8 - 12)
    assert pair["intersection"]["difference"] == pytest.approx(-2)
    assert "A-00" not in pair["intersection"]["scenes"]
    # n's bounds: scene 0 from 0 (25 to 25) to 50 (all a): (0 + 24 * 12)/25 to (50 + 24 * 12)/25.
    assert held["models"]["n"]["bounds"] == pytest.approx([11.52, 13.52])
    assert held["models"]["m"]["bounds"] == pytest.approx([10.8, 10.8])
    assert pair["lower"] == dict.fromkeys(("passing", "intersection", "best", "worst"), "first")
    assert (pair["order"], pair["whatever_the_nulls"]) == ("supported", True)
    text = drawn(answered.tables)
    assert "supported*: first" in text and "the 24 scenes that every model passes" in " ".join(text.split())


@pytest.mark.parametrize(
    ("rest", "orders"),
    [
        # m's average is (30 + 24 * 10)/25 = 10.8; n fails the first scene, which may be anything from 0 to 50.
        (9, ("second", "second", "second", "second")),  # n's bounds end at (50 + 24 * 9)/25 = 10.64
        (9.5, ("second", "second", "second", "first")),  # and here at 11.12
        (10.4, ("second", "first", "second", "first")),  # lower on its own scenes, higher on the shared ones
    ],
)
def test_an_order_that_changes_is_unsupported(rest, orders):
    def entry(values):
        scenes = []
        for index, value in enumerate(values):  # TVD in percent, None for a failed scene; 1000 rollouts
            counts = {"a": 0, "b": 0} if value is None else {"a": round(500 + 10 * value), "b": round(500 - 10 * value)}
            scenes.append(
                {"scene_id": f"A-{index:02}", "counts": counts, "null_observations": 1000 - sum(counts.values())}
                | {"status": "fail" if value is None else "pass", "metric": {"value": value}}
            )
        average = float(np.mean([value for value in values if value is not None]))
        return {"status": "ok", "scenes": scenes, "track_average": {"value": average}}

    scenes = tuple(Expected(f"A-{i:02}", "calibration", None, ("a", "b"), (0.5, 0.5), frozenset()) for i in range(25))
    scored = {"m": entry([30, *[10] * 24]), "n": entry([None, *[rest] * 24])}
    (pair,) = compare.pawbench_track(scored, scenes, lambda name: np.random.default_rng(3), 1000)["pairs"]
    assert tuple(pair["lower"].values()) == orders
    assert pair["order"] == ("supported" if len(set(orders)) == 1 else "unsupported")
    assert pair["whatever_the_nulls"] == (rest == 9)


def test_orders():
    assert [compare.order(d) for d in (-1, 1, 0, 1e-12, None)] == ["first", "second", "tie", "tie", "open"]
    assert compare.order_of_bounds((1, 2), (3, 4)) == "first"
    assert compare.order_of_bounds((3, 4), (1, 2)) == "second"
    assert compare.order_of_bounds((1, 3), (2, 4)) == "open"
    assert compare.order_of_bounds((1, 2), (2, 3)) == "open"


def test_no_shared_scene_leaves_the_order_open(tmp_path):
    def outcome(model, scene, repeat):
        fails = int(scene[2:]) % 2 == (model == "m")
        return None if fails and repeat >= 19 else "ab"[repeat % 2]

    (pair,) = paw(tmp_path, outcome).result["pawbench"]["comparisons"]["calibration"]["pairs"]
    empty = dict.fromkeys(("difference", "ci95", "p", "p_benjamini_hochberg", "of_floors"))
    assert pair["intersection"] == {"scenes": [], "size": 0, **empty}
    assert pair["order"] == "unsupported"


def test_a_blocked_model_is_not_compared(tmp_path):
    def outcome(model, scene, repeat):
        if (model, scene, repeat) == ("n", "A-03", 5):
            return TimeoutError("timeout")
        return "ab"[repeat % 2]

    compared = paw(tmp_path, outcome).result["pawbench"]["comparisons"]
    assert set(compared) == {"coverage"}


def test_equal_models_have_a_large_p_and_different_ones_a_small():
    def scored(a, b):
        scenes = [
            {
                "scene_id": "A",
                "status": "pass",
                "metric": {"value": 0.0},
                "counts": {"a": x, "b": 50 - x},
                "null_observations": 0,
            }
            for x in (a, b)
        ]
        return {
            name: {"status": "ok", "scenes": [s], "track_average": {"value": 0.0}} for name, s in zip("mn", scenes, strict=True)
        }

    equal, apart = (
        compare.pawbench_track(scored(25, b), (SCENE,), lambda name: np.random.default_rng(1), 4000)["pairs"][0]["intersection"]
        for b in (25, 45)
    )
    assert equal["p"] == 1
    # By hand: |TVD difference| of hypergeometric tables with 70 a among 100, 50 each; 5 standard errors, fixed seed.
    x = np.arange(20, 51)
    weight = scipy.stats.hypergeom.pmf(x, 100, 70, 50)
    difference = np.abs(np.abs(x / 50 - 0.5) - np.abs((70 - x) / 50 - 0.5))
    exact = float(weight[difference >= 0.4 - 1e-9].sum())
    assert apart["difference"] == pytest.approx(-40)
    assert apart["p"] == pytest.approx(exact, abs=5 * (exact * (1 - exact) / 4000) ** 0.5 + 1 / 4000)
    assert apart["ci95"][0] < -40 < apart["ci95"][1] < 0
    assert equal["of_floors"] == 0


def test_differences_of_the_published_models():
    compared = answer(data=CSV, draws=5000).result["comparisons"]
    by = {(pair["first"], pair["second"]): pair for pair in compared}
    assert set(by) == {("seedance", "happyhorse"), ("seedance", "wan"), ("happyhorse", "wan")}  # lowest mnTV first
    first = by["seedance", "wan"]
    assert (first["name"], len(first["scenes"])) == ("mnTV", 9)
    assert first["difference"] == pytest.approx(0.3907464859649134 - 0.5780382848555953, abs=1e-12)
    assert first["ci95"][1] < 0 and first["p"] < 0.001
    # The pendulum alone has 30 to 32 nulls for all three: 1/9 of mnTV that nobody saw.
    assert all(pair["nulls"] == "could turn it" for pair in compared)


def test_partial_models_are_compared_on_shared_scenes_and_called_partial(tmp_path):
    lines = CSV.read_text().splitlines()
    kept = [line for line in lines if not (line.startswith("dice") and ",wan," in line)]
    (tmp_path / "x.csv").write_text("\n".join(kept))
    answered = answer(data=tmp_path / "x.csv")
    pair = next(pair for pair in answered.result["comparisons"] if "wan" in (pair["first"], pair["second"]))
    assert (pair["name"], len(pair["scenes"])) == ("partial mnTV", 8)
    assert "A partial mnTV is not compared with the published ones" in " ".join(drawn(answered.tables).split())
    (tmp_path / "y.csv").write_text("\n".join([lines[0], "ball,a,0,1", "dice,b,0,1"]))
    assert answer(data=tmp_path / "y.csv").result["comparisons"] == []


# Pairs of scenes.


def test_shift_by_hand():
    found = pairs.shift({"l": 40, "r": 10}, {"r": 30, "l": 20}, np.random.default_rng(0), 20_000)
    assert found["shift"] == pytest.approx(0.4)
    # Cohen's w of a 2 x 2 table is phi; Fisher's exact two-sided p is this test's, since |shift| orders the tables alike.
    table = np.array([[40, 10], [20, 30]])
    assert found["effect"] == pytest.approx(np.sqrt(scipy.stats.chi2_contingency(table, correction=False).statistic / 100))
    exact = scipy.stats.fisher_exact(table).pvalue
    assert found["p"] == pytest.approx(exact, abs=5 * (exact / 20_000) ** 0.5 + 1 / 20_000)
    assert 0.05 < found["floor"] < 0.12
    assert found["ci95"][0] < 0.4 < found["ci95"][1]
    same = pairs.shift({"l": 25, "r": 25}, {"l": 25, "r": 25}, np.random.default_rng(0), 1000)
    assert (same["shift"], same["p"], same["effect"], same["ci95"][0]) == (0, 1, 0, 0)


def test_shift_of_an_outcome_nobody_had():
    found = pairs.shift({"a": 5, "b": 0, "c": 0}, {"a": 5, "b": 5, "c": 0}, np.random.default_rng(0), 1000)
    assert found["shift"] == 0.5
    assert found["effect"] == pytest.approx(np.sqrt(scipy.stats.chi2_contingency([[5, 0], [5, 5]], correction=False)[0] / 15))


@pytest.mark.parametrize(
    ("base", "variant", "message"),
    [({"a": 1}, {"b": 1}, "same outcomes"), ({"a": 0, "b": 0}, {"a": 1, "b": 0}, "need a valid rollout")],
)
def test_what_a_shift_refuses(base, variant, message):
    with pytest.raises(ValueError, match=message):
        pairs.shift(base, variant, np.random.default_rng(0))


def test_pairs_are_found_tested_and_corrected_in_two_families(tmp_path):
    policy = policy_of()
    names = [name for pair in (*pairs.PUBLISHED, *pairs.OURS) for name in pair]
    scenes = policy["tracks"]["calibration"]["scenes"]
    for scene, name in zip(scenes, [*names, *(f"X-{i}" for i in range(25 - len(names)))], strict=True):
        scene["scene_id"] = name
    shares = {"A25": 45, "A-11": 38, "A-04": 38, "A-14": 19}

    def outcome(scene, repeat):
        if scene == "A-14" and repeat >= 19:
            return None
        return "a" if repeat < shares.get(scene, 25) else "b"

    answered = answer(**write(tmp_path, policy, rows_of(policy, outcome)), draws=5000)
    found = answered.result["pawbench"]["pairs"]["m"]
    by = {(pair["base"], pair["variant"]): pair for pair in found}
    assert len(found) == 9
    assert [pair["family"] for pair in found] == ["published"] * 8 + ["ours"]
    assert by["A-09", "A25"]["shift"] == pytest.approx(0.4)
    assert by["A-13", "A-14"]["status"] == "A-14: fail" and "p" not in by["A-13", "A-14"]
    # Seven were tested: the smallest p is multiplied by 7, the next by 7/2; the ninth stands alone.
    small, next_ = by["A-09", "A25"], by["A-05", "A-11"]
    assert small["p_benjamini_hochberg"] == pytest.approx(7 * small["p"])
    assert next_["p_benjamini_hochberg"] == pytest.approx(3.5 * next_["p"])
    assert by["A-03", "A-04"]["p_benjamini_hochberg"] == pytest.approx(by["A-03", "A-04"]["p"])
    assert by["A-03", "A-04"]["expected"] == 0  # both references of this policy are even
    assert "A-14: fail" in drawn(answered.tables)
    json.dumps(answered.result, allow_nan=False)


def test_nulls_of_one_model_alone_may_turn_a_supported_order():
    # Both have 10 nulls in 50: TVD 20 with 28 to 12, or 0 with 20 to 20. Alike imputed, n stays lower; not if m's luck differs.
    def entry(a, b):
        scene = {
            "scene_id": "A",
            "status": "pass",
            "metric": {"value": 0.0},
            "counts": {"a": a, "b": b},
            "null_observations": 10,
        }
        average = {"value": 100 * abs(a / 40 - 0.5)}
        return {"status": "ok", "scenes": [scene | {"metric": average}], "track_average": average}

    scored = {"m": entry(28, 12), "n": entry(20, 20)}
    (pair,) = compare.pawbench_track(scored, (SCENE,), lambda name: np.random.default_rng(3), 1000)["pairs"]
    assert compare.imputed([28, 12], 10, SCENE) == pytest.approx((6, 26))
    assert compare.imputed([20, 20], 10, SCENE) == pytest.approx((0, 10))
    assert pair["bounds"] == pytest.approx([-4, 26])
    assert (pair["order"], pair["whatever_the_nulls"]) == ("supported", False)
