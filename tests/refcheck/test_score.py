"""The verb `score`: the published figures from the published labels, PAWBench's protocol by hand, and what it refuses."""

import csv
import json
from pathlib import Path

import pyarrow.parquet
import pytest
from scoring import CSV, answer, drawn, policy_of, rows_of, write

from refcheck import metrics
from refcheck.calibench import SCENES
from refcheck.command import UserError

EXPECTED = json.loads((Path(__file__).parent / "data" / "calibench_expected.json").read_text())


@pytest.fixture(scope="module")
def published():
    return answer(data=CSV, draws=50_000)


def test_published_means(published):
    models = published.result["models"]
    assert set(models) == {"wan", "seedance", "happyhorse"}
    assert {name: round(entry["mntv"]["value"], 4) for name, entry in models.items()} == {
        "wan": 0.5780,
        "seedance": 0.3907,
        "happyhorse": 0.5402,
    }
    for name, entry in models.items():
        assert entry["mntv"]["value"] == pytest.approx(EXPECTED["mntv"][name], abs=1e-12)
        assert entry["mntv"]["ci95"] == pytest.approx(EXPECTED["mntv_bootstrap_ci95"][name], abs=0.003)
        assert entry["mntv"]["partial"] is False


def test_published_cells(published):
    for scene, held in EXPECTED["cells"].items():
        for model, expected in held.items():
            cell = published.result["models"][model]["cells"][scene]
            for key in ("N", "n_valid", "counts"):
                assert cell[key] == expected[key]
            for key in ("rho", "tv", "e0", "excess", "score", "chi2"):
                assert cell[key] == (None if expected[key] is None else pytest.approx(expected[key], rel=1e-12, abs=1e-12))
            assert (cell["p"] is None) == (expected["p"] is None)
            assert (cell["band"] is None) == (expected["band"] is None)
            if expected["p"] is not None:
                # The published rule: 4 standard errors + 1; false alarm below 1e-4 a cell. Fixed seed.
                exact = expected["p_exact"]
                assert abs(cell["p_reached"] - 50_000 * exact) <= 4 * (50_000 * exact * (1 - exact)) ** 0.5 + 1
                assert cell["p_benjamini_hochberg"] >= cell["p"]


def test_rejections_are_the_step_up_rule_on_the_exact_p_values(published):
    # By the definition (Benjamini and Hochberg 1995): the largest i with p_(i) <= .05 i / t. The p-values next to either
    # threshold are six or more Monte-Carlo standard errors away from it.
    exact = sorted(cell["p_exact"] for held in EXPECTED["cells"].values() for cell in held.values() if cell["p"] is not None)
    step_up = max(i for i, p in enumerate(exact, 1) if p <= 0.05 * i / len(exact))
    assert published.result["tests"] == {
        "testable": len(exact),
        "rate": 0.05,
        "rejected_benjamini_hochberg": step_up,
        "rejected_bonferroni": sum(p * len(exact) < 0.05 for p in exact),
    }
    assert 10 <= published.result["tests"]["rejected_bonferroni"] < step_up < sum(p < 0.05 for p in exact)


def test_floor_and_band_stand_beside_every_distance(published):
    text = drawn(published.tables)
    assert "floor" in text and "band" in text
    for model, entry in published.result["models"].items():
        assert entry["mntv"]["if_q_band95"][0] < entry["mntv"]["if_q"] < entry["mntv"]["if_q_band95"][1]
        # Nulls alone lift every model, so "if q" is the share of nulls: a model that is q has excess 0 on average.
        nulls = sum(1 - cell["rho"] for cell in entry["cells"].values()) / 9
        assert entry["mntv"]["if_q"] == pytest.approx(nulls, abs=0.002)
        assert model in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100
    assert "galton_board_real" in text


def test_a_cell_does_not_depend_on_what_else_was_read(published, tmp_path):
    lines = CSV.read_text().splitlines()
    (tmp_path / "x.csv").write_text("\n".join([lines[0], *(line for line in lines if line.startswith("roulette,wan"))]))
    alone = answer(data=tmp_path / "x.csv", draws=50_000)
    cell, before = alone.result["models"]["wan"]["cells"]["roulette"], published.result["models"]["wan"]["cells"]["roulette"]
    assert (cell["p"], cell["band"]) == (before["p"], before["band"])
    mntv = alone.result["models"]["wan"]["mntv"]
    assert (mntv["partial"], mntv["scenes"], len(mntv["missing"])) == (True, 1, 8)
    assert mntv["value"] == cell["score"]
    assert "1 of 9, partial" in drawn(alone.tables)


def test_a_folder_of_bins_gives_what_the_csv_gives(tmp_path):
    rollouts = {}
    for line in CSV.read_text().splitlines()[1:]:
        scene, model, seed, position = line.split(",")
        rollouts.setdefault((scene, model), []).append({"seed": int(seed), "bin": int(position) if position else None})
    for (scene, model), held in rollouts.items():
        content = {"scene": scene, "model": model, "num_bins": len(SCENES[scene].q), "rollouts": held}
        (tmp_path / f"{scene}_{model}_bins.json").write_text(json.dumps(content))
    assert answer(data=tmp_path).result["models"] == answer(data=CSV).result["models"]


def test_seed_moves_monte_carlo_figures_alone():
    one, same, other = (answer(data=CSV, seed=seed).result["models"]["wan"] for seed in (0, 0, 1))
    assert one == same
    assert one["mntv"]["value"] == other["mntv"]["value"]
    assert one["mntv"]["ci95"] != other["mntv"]["ci95"]


def test_a_model_name_is_not_markup(tmp_path):
    (tmp_path / "x.csv").write_text("scene,model,seed,bin\nball,[red]x[/red],0,1\n")
    text = drawn(answer(data=tmp_path / "x.csv").tables)
    assert "[red]x[/red]" in text
    assert "ball has 1 rollouts, not 32" in " ".join(text.split())


# PAWBench.


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


def test_another_protocol_makes_a_partial_mntv(published, tmp_path):
    assert {entry["mntv"]["name"] for entry in published.result["models"].values()} == {"mnTV"}
    other = answer(data=CSV, extraction="one call").result["models"]["wan"]["mntv"]
    assert (other["name"], other["partial"], other["missing"]) == ("partial mnTV", True, [])
    assert other["value"] == published.result["models"]["wan"]["mntv"]["value"]
    lines = [line for line in CSV.read_text().splitlines() if ",wan,31," not in line]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    fewer = answer(data=tmp_path / "x.csv").result["models"]
    assert (fewer["wan"]["mntv"]["name"], fewer["seedance"]["mntv"]["name"]) == ("partial mnTV", "mnTV")
    assert "dice has 31 rollouts, not 32" in fewer["wan"]["mntv"]["notes"]


# CaliBench's other figures, and the files.


def test_best_and_worst_case_of_the_nulls(published):
    for scene, held in EXPECTED["mcar"].items():
        for model, expected in held.items():
            nulls = published.result["models"][model]["cells"][scene]["nulls"]
            assert nulls == pytest.approx({key: expected[key] for key in ("best", "worst", "reported")}, abs=1e-12)


def test_power_of_the_published_protocol(published):
    scenes = {"galton": "galton_board", "binary": "ball"}
    for n, held in EXPECTED["power"].items():
        for name, expected in held.items():
            found = published.result["power"][n][scenes.get(name, name)]
            assert found["epsilon"] == pytest.approx(expected["eps"], abs=0.01)
            assert found["tvd"] == pytest.approx(expected["tv"], abs=0.01)


def test_the_published_interval_sits_above_the_point_and_the_corrected_one_around_it(published):
    mntv = published.result["models"]["seedance"]["mntv"]
    assert mntv["value"] - mntv["ci95"][0] < 0.2 * (mntv["ci95"][1] - mntv["value"])
    below, above = mntv["value"] - mntv["ci95_corrected"][0], mntv["ci95_corrected"][1] - mntv["value"]
    assert 0.7 < below / above < 1.4
    text = " ".join(drawn(published.tables).split())
    assert "as published" in text and "detectable, 16" in text


def test_coverage_stands_beside_what_q_would_cover(published):
    cell = published.result["models"]["wan"]["cells"]["lottery"]
    assert (cell["n_valid"], cell["coverage"]) == (28, 0.35)
    assert cell["coverage_if_q"] == pytest.approx(1 - 0.95**28)
    assert cell["coverage_if_q_band95"][0] < cell["coverage_if_q"] < cell["coverage_if_q_band95"][1]
    pendulum = published.result["models"]["wan"]["cells"]["pendulum"]
    assert (pendulum["coverage"], pendulum["coverage_if_q"], pendulum["coverage_if_q_band95"]) == (None, None, None)


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


def test_cells_as_csv_and_parquet(tmp_path):
    scored = answer(data=CSV, out=tmp_path)
    table = pyarrow.parquet.read_table(tmp_path / "cells.parquet").to_pylist()
    with (tmp_path / "cells.csv").open() as stream:
        lines = list(csv.DictReader(stream))
    assert len(table) == len(lines) == 27
    cell = scored.result["models"]["wan"]["cells"]["dice"]
    (row,) = [row for row in table if (row["model"], row["scene"]) == ("wan", "dice")]
    assert (row["tvd"], row["tvd_floor"], row["tvd_band_low"]) == (cell["tv"], cell["e0"], cell["band"][0])
    assert (row["chi_square_p"], row["rollouts"], row["valid"]) == (cell["p"], 32, 32)
    (empty,) = [row for row in table if (row["model"], row["scene"]) == ("wan", "pendulum")]
    assert (empty["tvd"], empty["score"], empty["nulls"]) == (None, 1, 32)
    (line,) = [line for line in lines if (line["model"], line["scene"]) == ("wan", "dice")]
    assert float(line["tvd"]) == cell["tv"]


def test_cells_of_both_tracks_as_parquet(tmp_path):
    policy = policy_of()
    answer(out=tmp_path, **write(tmp_path, policy, rows_of(policy, outcome)))
    rows = {row["scene"]: row for row in pyarrow.parquet.read_table(tmp_path / "cells.parquet").to_pylist()}
    assert len(rows) == 50
    assert (rows["A-00"]["tvd"], rows["A-00"]["coverage"], rows["A-00"]["status"]) == (0.3, 1, "pass")
    assert (rows["A-01"]["tvd"], rows["A-01"]["nulls"], rows["A-01"]["status"]) == (None, 31, "fail")
    assert (rows["B-00"]["tvd"], rows["B-00"]["coverage"], rows["B-00"]["unseen_mass"]) == (None, 1, 0)


def test_bins_files_are_written_and_read_back(published, tmp_path):
    answer(data=CSV, out=tmp_path, bins=True)
    files = sorted(path.name for path in (tmp_path / "bins").iterdir())
    assert len(files) == 27 and "dice_wan_bins.json" in files
    first = json.loads((tmp_path / "bins" / "galton_board_real_wan_bins.json").read_text())
    assert (first["num_bins"], first["rollouts"][:2]) == (11, [{"seed": 0, "bin": 6}, {"seed": 1, "bin": None}])
    again = answer(data=tmp_path / "bins", draws=50_000).result["models"]
    assert again["wan"]["cells"]["dice"] == published.result["models"]["wan"]["cells"]["dice"]


def test_when_bins_files_cannot_be_written(tmp_path):
    with pytest.raises(UserError, match="give out=DIR"):
        answer(data=CSV, bins=True)
    (tmp_path / "x.csv").write_text("scene,model,seed,bin\nball,../m,0,1\n")
    with pytest.raises(UserError, match="cannot be part of a file's name"):
        answer(data=tmp_path / "x.csv", bins=True, out=tmp_path)
    policy = policy_of()
    with pytest.raises(UserError, match="there are none in data="):
        answer(bins=True, out=tmp_path, **write(tmp_path, policy, rows_of(policy, outcome)))
