"""PAWBench's protocol through `score`: hand-made rows, its file, its nulls, and every refusal by its message."""

import json

import pyarrow.parquet
import pytest
from scoring import CSV, answer, drawn, policy_of, rows_of, write

from refcheck import metrics
from refcheck.command import UserError


def outcome(scene, repeat):
    """A-00: 40 to 10, TVD 30. A-01: 19 valid, fails the gate. A-02: 20 valid, all a. The others 25 to 25, TVD 0."""
    if scene == "A-00":
        return "a" if repeat < 40 else "b"
    if scene in ("A-01", "A-02"):
        return "a" if repeat < 19 + (scene == "A-02") else None
    if scene.startswith("B"):
        return "ab"[repeat % 2] if scene != "B-00" else "abcd"[repeat % 4]
    return "ab"[repeat % 2]


def test_pawbench_by_hand(tmp_path):
    policy = policy_of()
    scored = answer(**write(tmp_path, policy, rows_of(policy, outcome)))
    paw = scored.result["pawbench"]
    assert (paw["schema_version"], paw["status"], paw["blockers"], paw["partial"]) == ("pawbench.metrics/v1", "ok", [], False)
    entry = paw["tracks"]["calibration"]["models"]["m"]
    scenes = {scene["scene_id"]: scene for scene in entry["scenes"]}
    assert scenes["A-00"]["metric"] == {"name": "calibration_tvd_percent", "value": 30.0}
    assert (scenes["A-01"]["status"], scenes["A-01"]["metric"], scenes["A-01"]["null_observations"]) == ("fail", None, 31)
    assert (scenes["A-02"]["status"], scenes["A-02"]["valid_outcomes"]) == ("pass", 20)
    assert scenes["A-02"]["metric"]["value"] == 50.0
    assert scenes["A-00"]["floor"] == pytest.approx(100 * float(metrics.expected_tvd(50, [0.5, 0.5])))
    assert scenes["A-00"]["band"][0] == 0
    assert scenes["A-00"]["band"][1] == pytest.approx(14, abs=2)
    assert entry["track_average"] == {"name": "calibration_tvd_percent", "value": round(80 / 24, 12)}
    assert entry["groups"]["toss"]["metric"]["value"] == 10.0
    assert (entry["groups"]["toss"]["passing_scenes"], entry["groups"]["toss"]["scene_denominator"]) == (8, 9)
    assert entry["scene_pass_rate"] == {"passing_scenes": 24, "scene_denominator": 25, "value": 0.96}
    # 23 cells of n = 50 and one of n = 20, each with the mean floor: 4 standard errors of 1,000 draws, fixed seed.
    floor = sum(scene["floor"] for scene in scenes.values() if scene["metric"]) / 24
    assert entry["matched_null"]["mean"] == pytest.approx(floor, abs=0.12)
    assert entry["matched_null"]["p"] > 0.9
    covered = paw["tracks"]["coverage"]["models"]["m"]
    assert covered["track_average"] == {"name": "coverage_percent", "value": round((100 + 24 * 50) / 25, 12)}
    text = drawn(scored.tables)
    assert "24 of 25" in text and max(len(line.rstrip()) for line in text.splitlines()) <= 100


def test_one_failure_blocks_its_models_track_and_nothing_else(tmp_path):
    policy = policy_of(models=("m", "n"))
    rows = rows_of(policy, outcome)
    rows[7] |= {"observation": "infrastructure_failure", "outcome_label": None, "failure_code": "timeout"}
    paw = answer(**write(tmp_path, policy, rows)).result["pawbench"]
    assert paw["status"] == "blocked"
    assert paw["blockers"] == [
        {"model_or_lane": "m", "track": "calibration", "scene_id": "A-00", "repeat_index": 7, "failure_code": "timeout"}
    ]
    blocked, other = (paw["tracks"]["calibration"]["models"][name] for name in "mn")
    assert (blocked["status"], blocked["track_average"], blocked["matched_null"]) == ("blocked", None, None)
    assert blocked["scene_pass_rate"]["value"] is None
    assert all(group["metric"] is None for group in blocked["groups"].values())
    assert (blocked["scenes"][0]["status"], blocked["scenes"][0]["metric"]) == ("blocked", None)
    assert other["track_average"]["value"] == round(80 / 24, 12)
    assert paw["tracks"]["coverage"]["models"]["m"]["status"] == "ok"


def test_a_package_holds_the_references_too(tmp_path):
    policy = policy_of()
    files = write(tmp_path, policy, rows_of(policy, outcome))
    package = tmp_path / "package"
    package.mkdir()
    lines = []
    for track, held in policy["tracks"].items():
        for scene in held["scenes"]:
            labels = scene.get("support_labels") or list(scene["reference_distribution"])
            line = {"scene_id": scene["scene_id"], "split": track, "group": scene["group"], "outcome_labels": labels}
            lines.append(json.dumps(line | {k: v for k, v in scene.items() if k == "reference_distribution"}))
    (package / "scenes.jsonl").write_text("\n".join(lines))
    by_package = answer(data=files["data"], package=package).result["pawbench"]
    assert by_package == answer(**files).result["pawbench"]


def change(**entries):
    return lambda policy, rows: rows[3].update(entries)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda policy, rows: rows.pop(3), "1 of 50 repeats have no row: [3]"),
        (lambda policy, rows: rows.append(rows[3] | {"sample_id": "x", "source_sample_id": "y"}), "occurs twice, first in"),
        (
            lambda policy, rows: rows.append(rows[7] | {"sample_id": "x", "source_sample_id": "y", "repeat_index": "7"}),
            "'m', A-00, 7 occurs twice",
        ),
        (change(sample_id="m::A-00::r004::repeat"), "sample_id 'm::A-00::r004::repeat' is used twice"),
        (change(source_sample_id="m::A-00::r004"), "source_sample_id 'm::A-00::r004' is used twice"),
        (change(outcome_label="c"), "outcome_label 'c' of scene 'A-00' must be one of ('a', 'b')"),
        (change(scene_id="A-99"), "scene 'A-99' is not in the policy"),
        (change(model_or_lane="n"), "model 'n' is not in the policy"),
        (change(repeat_index=50), "repeat_index 50 of scene 'A-00' is not expected"),
        (change(track="coverage"), "track 'coverage' of scene 'A-00' must be 'calibration'"),
        (lambda policy, rows: policy["tracks"]["coverage"]["scenes"].pop(), "track coverage has 24 scenes, PAWBench has 25"),
        (
            lambda policy, rows: policy["tracks"]["coverage"]["scenes"][0].update(expected_repeat_indices=[0]),
            "expects 1 repeats, PAWBench has 0 to 49",
        ),
        (
            lambda policy, rows: policy["tracks"]["coverage"]["scenes"][0].update(expected_repeat_indices=[7, "7"]),
            "each once (7 and '7' are the same)",
        ),
        (
            lambda policy, rows: policy["tracks"]["coverage"]["scenes"][0].update(expected_repeat_indices=[True]),
            "expected_repeat_indices",
        ),
        (
            lambda policy, rows: policy["tracks"]["calibration"]["scenes"][0]["reference_distribution"].update(a=0.51),
            "must sum to 1 within 1e-09",
        ),
        (
            lambda policy, rows: policy["tracks"]["calibration"]["scenes"][0].pop("reference_distribution"),
            "needs its reference_distribution",
        ),
        (lambda policy, rows: policy["tracks"]["coverage"]["scenes"][0].update(scene_id="B-01"), "scene 'B-01' occurs 2 times"),
        (lambda policy, rows: policy["model_or_lanes"].append("m"), "'m' occurs 2 times"),
        (lambda policy, rows: policy.pop("tracks"), "tracks: Field required"),
    ],
)
def test_what_pawbench_refuses(tmp_path, edit, message):
    policy = policy_of()
    rows = rows_of(policy, outcome)
    edit(policy, rows)
    with pytest.raises(UserError) as error:
        answer(**write(tmp_path, policy, rows))
    assert any(message in problem for problem in error.value.problems), error.value.problems


def test_an_incomplete_benchmark_is_scored_only_when_asked(tmp_path):
    policy = policy_of(scenes=2, repeats=10)
    files = write(tmp_path, policy, rows_of(policy, lambda scene, repeat: "a" if scene != "A-01" else None))
    with pytest.raises(UserError, match="partial=true"):
        answer(**files)
    paw = answer(**files, partial=True).result["pawbench"]
    scenes = paw["tracks"]["calibration"]["models"]["m"]["scenes"]
    assert paw["partial"] is True
    assert [scene["status"] for scene in scenes] == ["pass", "fail"]  # ten nulls pass the gate, but leave nothing to score
    assert scenes[0]["metric"]["value"] == 50


def test_rows_need_a_reference_and_nothing_else_does(tmp_path):
    policy = policy_of()
    files = write(tmp_path, policy, rows_of(policy, outcome))
    with pytest.raises(UserError, match=r"policy=FILE or package=FOLDER$"):
        answer(data=files["data"])
    with pytest.raises(UserError, match="not both"):
        answer(**files, package=tmp_path)
    with pytest.raises(UserError, match="is for PAWBench rows"):
        answer(data=CSV, policy=files["policy"])
    with pytest.raises(UserError, match="no such file"):
        answer(data=files["data"], package=tmp_path / "gone")


# PAWBench at other K, its file, and its null over all models.


def test_the_gate_at_50_is_thirty_nulls(tmp_path):
    policy = policy_of()
    valid = {"A-00": 20, "A-01": 19}
    rows = rows_of(policy, lambda scene, repeat: "a" if repeat < valid.get(scene, 50) else None)
    paw = answer(**write(tmp_path, policy, rows)).result["pawbench"]
    scenes = paw["tracks"]["calibration"]["models"]["m"]["scenes"]
    assert [scene["status"] for scene in scenes[:3]] == ["pass", "fail", "pass"]
    assert paw["gate"].startswith("absolute count: a scene passes with at most 30 nulls")


@pytest.mark.parametrize(("gate", "status"), [("count", ["pass", "pass", "pass"]), ("share", ["pass", "fail", "fail"])])
def test_the_gate_at_another_k_is_the_rule_that_is_named(tmp_path, gate, status):
    # 10 rollouts: 30 of 50 is a share of 6 nulls; the count of 30 passes whatever has a valid rollout.
    policy = policy_of(repeats=10)
    valid = {"A-00": 4, "A-01": 3, "A-02": 1}
    rows = rows_of(policy, lambda scene, repeat: "a" if repeat < valid.get(scene, 10) else None)
    files = write(tmp_path, policy, rows)
    with pytest.raises(UserError, match="expects 10 repeats, PAWBench has 0 to 49"):
        answer(**files)
    with pytest.raises(UserError, match=r"expects 10 repeats, roster= and repeats= ask for 0 to 8"):
        answer(**files, repeats=9)
    paw = answer(**files, repeats=10, gate=gate).result["pawbench"]
    assert [scene["status"] for scene in paw["tracks"]["calibration"]["models"]["m"]["scenes"][:3]] == status
    assert ("count" in paw["gate"]) == (gate == "count")
    with pytest.raises(UserError, match="roster= and repeats= ask for 24"):
        answer(**files, repeats=10, roster=24)


def test_group_averages_do_not_make_the_track_average(tmp_path):
    # Rotation (4 scenes) all a: TVD 50 each. The track average is 4 * 50 / 25 = 8; the mean of groups would be 12.5.
    policy = policy_of()
    rows = rows_of(policy, lambda scene, repeat: "a" if scene in ("A-09", "A-10", "A-11", "A-12") else "ab"[repeat % 2])
    entry = answer(**write(tmp_path, policy, rows)).result["pawbench"]["tracks"]["calibration"]["models"]["m"]
    assert [group["metric"]["value"] for group in entry["groups"].values()] == [0, 50, 0, 0]
    assert entry["track_average"]["value"] == 8.0


def test_metrics_json_holds_the_protocols_keys_and_no_others(tmp_path):
    policy = policy_of()
    rows = rows_of(policy, lambda scene, repeat: "aab"[repeat % 3])
    answer(out=tmp_path, **write(tmp_path, policy, rows))
    written = json.loads((tmp_path / "metrics.json").read_text())
    assert set(written) == {"schema_version", "status", "blockers", "tracks"}
    assert set(written["tracks"]["calibration"]) == {"status", "blockers", "models"}
    entry = written["tracks"]["calibration"]["models"]["m"]
    assert set(entry) == {"status", "blockers", "scenes", "groups", "track_average", "scene_pass_rate"}
    assert entry["scenes"][0] == {
        **{"model_or_lane": "m", "track": "calibration", "scene_id": "A-00", "group": "toss", "expected_rollouts": 50},
        **{"valid_outcomes": 50, "null_observations": 0, "infrastructure_failures": 0, "status": "pass"},
        "metric": {"name": "calibration_tvd_percent", "value": 18.0},  # 34 of 50 against 1/2
    }
    assert entry["scene_pass_rate"] == {"passing_scenes": 25, "scene_denominator": 25, "value": 1.0}
    third = written["tracks"]["coverage"]["models"]["m"]["scenes"][0]["metric"]
    assert third == {"name": "coverage_percent", "value": 50.0}


def test_figures_have_twelve_decimals(tmp_path):
    policy = policy_of()
    for scene in policy["tracks"]["calibration"]["scenes"]:
        scene["reference_distribution"] = {"a": 1 / 3, "b": 2 / 3}
    paw = answer(**write(tmp_path, policy, rows_of(policy, lambda scene, repeat: "ab"[repeat % 2]))).result["pawbench"]
    assert paw["tracks"]["calibration"]["models"]["m"]["scenes"][0]["metric"]["value"] == 16.666666666667


def test_the_null_over_all_models_pools_cells_and_takes_a_threshold(tmp_path):
    policy = policy_of(models=("m", "n"))
    short = [f"A-{i:02}" for i in range(10)]
    rows = rows_of(policy, lambda scene, repeat: "ab"[repeat % 2] if scene not in short or repeat < 20 else None)
    calibration = answer(**write(tmp_path, policy, rows)).result["pawbench"]["tracks"]["calibration"]
    whole, long = calibration["pooled_null"]
    assert (whole["minimum_valid"], whole["cells"], long["minimum_valid"], long["cells"]) == (1, 50, 30, 30)
    assert whole["observed"] == long["observed"] == 0
    # Means of the exact floors; 5 standard errors of 1,000 draws of means of at least 30 cells, fixed seed.
    floor = {n: 100 * float(metrics.expected_tvd(n, [0.5, 0.5])) for n in (20, 50)}
    assert whole["mean"] == pytest.approx((20 * floor[20] + 30 * floor[50]) / 50, abs=0.15)
    assert long["mean"] == pytest.approx(floor[50], abs=0.15)
    assert long["p"] == whole["p"] == 1
    scene = calibration["models"]["m"]["scenes"][-1]
    assert (scene["metric"]["value"], scene["p"]) == (0, 1)


def test_unseen_mass_stands_beside_coverage(tmp_path):
    policy = policy_of()
    # B-00: a 48 times, b and c once each: Good-Turing 2/50.
    rows = rows_of(policy, lambda scene, repeat: "abc"[max(0, repeat - 47)] if scene == "B-00" else "ab"[repeat % 2])
    scored = answer(**write(tmp_path, policy, rows))
    scene, other, *_ = scored.result["pawbench"]["tracks"]["coverage"]["models"]["m"]["scenes"]
    assert (scene["metric"]["value"], scene["unseen_mass"]["good_turing"]) == (75, pytest.approx(0.04))
    assert other["unseen_mass"]["good_turing"] == 0
    calibrated = scored.result["pawbench"]["tracks"]["calibration"]["models"]["m"]["scenes"][0]
    assert (calibrated["coverage"], calibrated["coverage_if_q_band"]) == (100, [100, 100])


def test_cells_of_both_tracks_as_parquet(tmp_path):
    policy = policy_of()
    answer(out=tmp_path, **write(tmp_path, policy, rows_of(policy, outcome)))
    rows = {row["scene"]: row for row in pyarrow.parquet.read_table(tmp_path / "cells.parquet").to_pylist()}
    assert len(rows) == 50
    assert (rows["A-00"]["tvd"], rows["A-00"]["coverage"], rows["A-00"]["status"]) == (0.3, 1, "pass")
    assert (rows["A-01"]["tvd"], rows["A-01"]["nulls"], rows["A-01"]["status"]) == (None, 31, "fail")
    assert (rows["B-00"]["tvd"], rows["B-00"]["coverage"], rows["B-00"]["unseen_mass"]) == (None, 1, 0)


# Rollouts that are not independent.


def test_a_quota_set_has_its_rounding_and_no_floor(tmp_path):
    policy = policy_of()
    for scene in policy["tracks"]["calibration"]["scenes"]:
        scene["reference_distribution"] = {"a": 1 / 3, "b": 2 / 3}
    # The quota of 1/3 and 2/3 in 50 is 17 and 33: off by 1/3 of a rollout.
    rows = rows_of(policy, lambda scene, repeat: "a" if repeat < 17 else "b")
    scored = answer(**write(tmp_path, policy, rows), sampling="quota")
    paw = scored.result["pawbench"]
    scene = paw["tracks"]["calibration"]["models"]["m"]["scenes"][0]
    assert scene["metric"]["value"] == pytest.approx(100 / 150)
    assert scene["quota_residual"] == pytest.approx(100 / 150)
    assert not {"floor", "band", "p", "coverage_if_q"} & set(scene)
    assert paw["tracks"]["calibration"]["models"]["m"]["matched_null"] is None
    assert "pooled_null" not in paw["tracks"]["calibration"] and "pairs" not in paw and "comparisons" not in paw
    assert paw["sampling"] == "quota"
    drawn(scored.tables)


def test_coupled_rollouts_have_an_interval_of_whole_groups(tmp_path):
    policy = policy_of()
    # In A-00 every group of five agrees: 5 groups all a, 5 all b. In A-01 every group has 3 a and 2 b.
    rows = rows_of(
        policy,
        lambda scene, repeat: "ab"[repeat // 5 % 2] if scene == "A-00" else "aaabb"[repeat % 5] if scene == "A-01" else "a",
    )
    files = write(tmp_path, policy, rows)
    scored = answer(**files, sampling="coupled").result["pawbench"]
    whole, split, *_ = scored["tracks"]["calibration"]["models"]["m"]["scenes"]
    assert whole["interval_groups"][1] - whole["interval_groups"][0] > 20
    assert split["interval_groups"] == pytest.approx([10, 10])
    assert "floor" not in whole and scored["sampling"] == "coupled in groups of 5"
    with pytest.raises(UserError, match="at least two whole groups of group=7"):
        answer(**files, sampling="coupled", group=7)
    with pytest.raises(UserError, match="assume independent rollouts"):
        answer(data=CSV, sampling="coupled")
