"""The verb `score`: the published figures from the published labels, their files, and what it refuses."""

import csv
import itertools
import json
import math
from pathlib import Path

import pyarrow.parquet
import pytest
from scoring import CSV, answer, drawn, policy_of, rows_of, write

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
    tests = dict(published.result["tests"])
    # .0294494 exactly; 4 standard errors of 50,000 draws.
    assert tests.pop("largest_rejected_p") == pytest.approx(0.0294494, abs=4 * (0.0294 * 0.97 / 50_000) ** 0.5)
    assert tests == {
        "testable": len(exact),
        "rate": 0.05,
        "rejected_uncorrected": sum(p < 0.05 for p in exact),
        "rejected_benjamini_hochberg": step_up,
        "rejected_bonferroni": sum(p * len(exact) < 0.05 for p in exact),
    }
    assert list(tests.values()) == [24, 0.05, 18, 17, 10]


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
    rows = rows_of(policy, lambda scene, repeat: "a")
    with pytest.raises(UserError, match="there are none in data="):
        answer(bins=True, out=tmp_path, **write(tmp_path, policy, rows))


def test_exact_p_values_where_the_lattice_is_small(published):
    exact = set()
    for scene, held in EXPECTED["cells"].items():
        for model, expected in held.items():
            cell = published.result["models"][model]["cells"][scene]
            if cell.get("p_exact") is not None:
                assert cell["p_exact"] == pytest.approx(expected["p_exact"], rel=1e-9, abs=1e-12)
                exact.add(scene)
    assert exact == {"ball", "walking", "cards", "roulette"}


def test_e_values_and_distances_in_bins(published):
    cells = published.result["models"]["happyhorse"]["cells"]
    # 15 to 15 against 1/2 by the formula with a uniform prior: G(2)/G(32) * G(16)^2 * 2^30.
    assert cells["ball"]["log_e"] == pytest.approx(-math.lgamma(32) + 2 * math.lgamma(16) + 30 * math.log(2))
    assert "wasserstein" not in cells["ball"] and "log_e" not in cells["pendulum"]
    # 27 in bin 6 and 2 in bin 8, of 29: the mean distance between the distribution functions, summed over bins.
    q = [math.comb(10, i) / 1024 for i in range(11)]
    counts = published.result["models"]["happyhorse"]["cells"]["galton_board"]["counts"]
    ends = list(zip(itertools.accumulate(counts), itertools.accumulate(q), strict=True))
    expected = sum(abs(x / 29 - p) for x, p in ends)
    assert cells["galton_board"]["wasserstein"]["value"] == pytest.approx(expected)
    assert cells["galton_board"]["wasserstein"]["p"] < 0.05
    squared = 2 * sum((x / 29 - p) ** 2 for x, p in ends)
    assert cells["galton_board"]["energy"]["value"] == pytest.approx(math.sqrt(squared))
    assert "outcomes in a row" in drawn(published.tables)
