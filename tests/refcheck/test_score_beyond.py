"""The verb `score` beyond both protocols: other references, stopping early, packaged labels, what an interrupted run leaves."""

import csv
import json

import numpy as np
import pytest
import scipy.stats
from scoring import CSV, answer, drawn, policy_of, rows_of, write

from refcheck import score_files
from refcheck.anytime import distance_interval
from refcheck.command import UserError
from refcheck.score_tables import p_text

WOLF = CSV.parent / "reference_wolf_white.json"
SIXTHS = {face: "1/6" for face in "123456"}


def die(name):
    with (CSV.parent / "dice_wolf.csv").open(newline="") as lines:
        return [int(row["count"]) for row in csv.DictReader(lines) if row["die"] == name]


def labels(tmp_path, counts, scene="dice", nulls=0):
    bins = [1 + i for i, count in enumerate(counts) for _ in range(count)] + [""] * nulls
    path = tmp_path / "labels.csv"
    path.write_text("scene,model,seed,bin\n" + "".join(f"{scene},m,{seed},{bin}\n" for seed, bin in enumerate(bins)))
    return path


def reference(tmp_path, **scenes):
    path = tmp_path / "reference.json"
    path.write_text(json.dumps({"scenes": scenes}))
    return path


def test_wolfs_white_die_as_the_reference_of_the_published_dice():
    plain, held = answer(data=CSV), answer(data=CSV, reference=WOLF)
    white = np.array(die("white"))
    for model, entry in held.result["models"].items():
        cell = dict(entry["cells"]["dice"])
        found = cell.pop("reference")
        assert cell == plain.result["models"][model]["cells"]["dice"]  # the frozen q's figures stay
        shares = np.array(cell["counts"]) / cell["n_valid"]
        assert list(found["counts"].values()) == white.tolist()
        assert found["tvd"] == pytest.approx(0.5 * np.abs(shares - white / 20_000).sum())
        # A generator, like a perfect one, that throws 31 or 32 times: the floor of a fair die is .16.
        assert found["floor"] == pytest.approx(cell["e0"], abs=0.01)
        assert found["ci95"][0] < found["tvd"] < found["ci95"][1]
        assert found["p"] == pytest.approx(1 / 1001)
        assert not any("reference" in other for scene, other in entry["cells"].items() if scene != "dice")
    assert "Against the reference given" in drawn(held.tables) and "< 1e-3" in drawn(held.tables)


def test_two_real_dice_agree_with_scipy(tmp_path):
    # Red, thinned to 1,000 throws, against white: p by permutation against the chi-square law, which is close at this size.
    # 5 standard errors of 10,000 draws and .002 for that law: false alarm below 1e-6. Fixed seed.
    red = [round(count / 20) for count in die("red")]
    found = answer(data=labels(tmp_path, red), reference=WOLF, draws=10_000).result["models"]["m"]["cells"]["dice"]["reference"]
    expected = scipy.stats.chi2_contingency([red, die("white")])
    assert 0.05 < expected.pvalue < 0.95
    assert found["p"] == pytest.approx(
        expected.pvalue, abs=5 * (expected.pvalue * (1 - expected.pvalue) / 10_000) ** 0.5 + 0.002
    )


def test_an_exact_reference_equal_to_q_gives_the_figures_of_q(tmp_path):
    path = reference(tmp_path, dice={"q": SIXTHS}, pendulum={"q": {"left": 0.5, "right": 0.5}})
    models = answer(data=CSV, reference=path).result["models"]
    cell = models["wan"]["cells"]["dice"]
    assert cell["reference"]["tvd"] == pytest.approx(cell["tv"])
    assert cell["reference"]["floor"] == pytest.approx(cell["e0"])
    nothing = models["wan"]["cells"]["pendulum"]["reference"]  # 32 nulls
    assert [nothing[key] for key in ("tvd", "floor", "band", "p", "ci95")] == [None] * 5


def test_a_set_gives_the_frozen_distance_and_both_ends(tmp_path):
    path = reference(tmp_path, ball={"low": {"left": 0.4, "right": 0.3}, "high": {"left": 0.7, "right": "3/5"}})
    held = answer(data=labels(tmp_path, [24, 8], "ball"), reference=path)
    found = held.result["models"]["m"]["cells"]["ball"]["reference"]
    # Shares (.75, .25); left may be .4 to .7.
    assert [found[key] for key in ("frozen", "smallest", "largest")] == pytest.approx([0.25, 0.05, 0.35])
    assert "frozen q" in drawn(held.tables)


def test_rows_of_pawbench_take_both(tmp_path):
    policy = policy_of()
    label = lambda scene, repeat: RuntimeError("x") if (scene, repeat) == ("A-01", 3) else "ab"[repeat % 5 == 0]  # noqa: E731
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"scenes": {"A-00": {"q": {"a": "4/5", "b": "1/5"}}, "A-01": {"counts": {"a": 1, "b": 1}}}}))
    held = answer(**write(tmp_path, policy, rows_of(policy, label)), reference=other, stop_width=0.6)
    scenes = {s["scene_id"]: s for s in held.result["pawbench"]["tracks"]["calibration"]["models"]["m"]["scenes"]}
    assert scenes["A-00"]["reference"]["tvd"] == pytest.approx(0, abs=1e-12)  # 40 a, 10 b
    assert scenes["A-00"]["early"]["reached"] and "reference" not in scenes["A-02"]
    assert not {"reference", "early"} & set(scenes["A-01"])  # blocked: a failure is no outcome


@pytest.mark.parametrize(
    ("scenes", "message"),
    [
        ({"dise": {"q": SIXTHS}}, "did you mean 'dice'?"),
        ({"dice": {}}, "must give q, or counts, or low and high; got none of them"),
        ({"dice": {"q": SIXTHS, "counts": dict.fromkeys("123456", 1)}}, "got counts, q"),
        ({"dice": {"low": SIXTHS}}, "got low"),
        ({"dice": {"q": {"1": 1}}}, "must name exactly the outcomes 1, 2, 3, 4, 5, 6"),
        ({"dice": {"q": SIXTHS | {"6": "1/7"}}}, "sum to 1"),
        ({"dice": {"q": SIXTHS | {"6": "1e999999999"}}}, "q.6: must be a number or a fraction"),
        ({"dice": {"q": SIXTHS | {"6": "1/0"}}}, "q.6: must be a number or a fraction"),
        ({"dice": {"counts": dict.fromkeys("123456", 0)}}, "must be at least 0 and sum to 1 to 500000000"),
        ({"dice": {"counts": dict.fromkeys("12345", 9) | {"6": -1}}}, "must be at least 0"),
        ({"dice": {"counts": dict.fromkeys("123456", 1.5)}}, "valid integer"),
        ({"dice": {"low": dict.fromkeys("123456", 0), "high": dict.fromkeys("123456", 0.1)}}, "no distribution lies between"),
        ({"ball": {"low": {"left": 0.6, "right": 0}, "high": {"left": 1, "right": 1}}}, "the frozen q (0.5, 0.5) does not lie"),
        ({}, "at least 1 item"),
    ],
)
def test_references_that_may_not_stand(tmp_path, scenes, message):
    with pytest.raises(UserError) as error:
        answer(data=CSV, reference=reference(tmp_path, **scenes))
    assert message in str(error.value)


@pytest.mark.parametrize("content", ["", "{", '{"scenes": {"dice": {"q": NaN}}}', "[]"])
def test_reference_files_that_are_none(tmp_path, content):
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(UserError, match=r"bad\.json"):
        answer(data=CSV, reference=tmp_path / "bad.json")


def test_an_early_stop_is_the_first_look_that_knew_enough(tmp_path):
    held = answer(data=CSV, stop_width=0.5)
    rows = [row for row in csv.DictReader(CSV.open(newline="")) if (row["scene"], row["model"]) == ("roulette", "seedance")]
    slots = [int(row["bin"] or 0) - 1 for row in sorted(rows, key=lambda row: int(row["seed"]))]
    found = held.result["models"]["seedance"]["cells"]["roulette"]["early"]

    def interval(taken):
        seen = [slot for slot in slots[:taken] if slot >= 0]
        at = distance_interval(np.bincount(np.array(seen, int), minlength=3), [18 / 37, 18 / 37, 1 / 37], 0.05)
        return [at.low, at.high]

    assert found["reached"] and 0 < found["taken"] < 32
    assert found["interval"] == interval(found["taken"])
    assert found["interval"][1] - found["interval"][0] <= 0.5
    assert all(np.diff(interval(taken)) > 0.5 for taken in range(found["taken"]))
    assert (found["valid"], found["nulls"]) == tuple(
        sum((slot >= 0) is valid for slot in slots[: found["taken"]]) for valid in (True, False)
    )
    few = held.result["models"]["wan"]["cells"]["pendulum"]["early"]  # 32 nulls
    assert (few["reached"], few["taken"], few["interval"], few["tvd"]) == (False, 32, [0, 1], None)
    assert "too few: 32" in drawn(held.tables)


@pytest.mark.parametrize("sampling", ["quota", "coupled"])
@pytest.mark.parametrize("option", [{"stop_width": 0.1}, {"reference": WOLF}])
def test_rollouts_that_are_not_independent_are_refused(tmp_path, sampling, option):
    policy = policy_of()
    files = write(tmp_path, policy, rows_of(policy, lambda scene, repeat: "a"))
    with pytest.raises(UserError, match="independent rollouts alone"):
        answer(**files, sampling=sampling, **option)


def test_a_sweep_has_no_cells_of_one_setting():
    with pytest.raises(UserError, match="holds none: leave it out"):
        answer(data="guidance", stop_width=0.1)


def test_published_labels_by_a_word_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    by_path = answer(data=CSV).result
    assert answer(data="calibench").result == by_path
    assert list(by_path["models"]) == ["seedance", "happyhorse", "wan"]  # by mnTV
    swept = answer(data="guidance").result["conditions"]
    assert swept["by"] == "condition" and len(swept["sweeps"][0]["conditions"]) == 7
    (tmp_path / "calibench").mkdir()  # one's own folder of that name comes first
    with pytest.raises(UserError, match="holds no label file"):
        answer(data="calibench")


def test_an_interrupted_run_leaves_no_earlier_result(tmp_path, monkeypatch):
    (tmp_path / "result.json").write_text("{}")

    def interrupted(result, out):
        raise KeyboardInterrupt

    monkeypatch.setattr(score_files, "write_cells", interrupted)
    with pytest.raises(KeyboardInterrupt):
        answer(data=CSV, out=tmp_path)
    assert not (tmp_path / "result.json").exists()


def test_the_least_p_is_printed_as_a_bound():
    assert p_text(1 / 10_001, 10_000) == "< 1e-4"
    assert p_text(1 / 50_001, 50_000) == "< 2e-5"
    assert p_text(2 / 10_001, 10_000) == "2.0e-04"
    assert p_text(0.25, 10_000) == "0.250"
