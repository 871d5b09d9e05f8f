"""Conditions: the seven guidance settings from their labels, and the paired tests against their own definitions."""

import csv
import itertools
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from scoring import CSV, answer, drawn, policy_of, rows_of, write

import refcheck
from refcheck import conditions, metrics
from refcheck.calibench import SCENES
from refcheck.command import UserError

GUIDANCE = Path(refcheck.__file__).parent / "data" / "calibench_dice_guidance.csv"
SETTINGS = ["1.0", "1.5", "3.0", "4.5", "6.0", "7.5", "9.0"]


@pytest.fixture(scope="module")
def guidance(tmp_path_factory):
    out = tmp_path_factory.mktemp("guidance")
    return answer(data=GUIDANCE, by="condition", out=out), out


def test_seven_guidance_settings(guidance):
    answered, out = guidance
    assert answered.result["models"] == {}
    (sweep,) = answered.result["conditions"]["sweeps"]
    assert (sweep["study"], sweep["model"], sweep["scene"]) == ("dice_cfg", "cosmos3_super", "dice")
    assert [entry["condition"] for entry in sweep["conditions"]] == SETTINGS
    # Counted here a second time, from the file itself.
    held = defaultdict(list)
    with GUIDANCE.open() as stream:
        for row in csv.DictReader(stream):
            held[row["condition"]].append(row["bin"])
    for entry in sweep["conditions"]:
        bins = [int(bin) for bin in held[entry["condition"]] if bin]
        shares = [bins.count(face) / len(bins) for face in range(1, 7)]
        assert (entry["N"], entry["n_valid"]) == (32, len(bins))
        assert entry["rho"] == len(bins) / 32
        assert entry["tv"] == pytest.approx(sum(abs(share - 1 / 6) for share in shares) / 2, abs=1e-12)
        assert entry["e0"] == pytest.approx(float(metrics.expected_tvd(len(bins), [1 / 6] * 6)))
    # By hand at 6.0: 8, 5, 3, 3, 12, 0 of 31; faces 1 and 5 are above their share.
    assert sweep["conditions"][4]["tv"] == pytest.approx(20 / 31 - 1 / 3, abs=1e-12)
    assert len(sweep["pairs"]) == 21
    assert all(pair["seeds"] == 32 for pair in sweep["pairs"])
    text = drawn(answered.tables)
    assert "0.3118" in text and max(len(line.rstrip()) for line in text.splitlines()) <= 100
    assert (out / "conditions.png").read_bytes().startswith(b"\x89PNG")


def exact(pairs, q):
    """|difference| of TV and of score over all exchanges within seeds, the observed one first."""
    k, found = len(q), []
    for swaps in itertools.product([False, True], repeat=len(pairs)):
        sides = [[p[s] for p, s in zip(pairs, swaps, strict=True)] for swaps in (swaps, [not s for s in swaps])]
        cells = [metrics.cell([side.count(i) for i in range(1, k + 1)], side.count(None), q) for side in sides]
        found.append((abs(cells[1].tvd - cells[0].tvd), abs(cells[1].score - cells[0].score)))
    return np.array(found)


def test_p_values_are_those_of_all_exchanges():
    q, first = [0.6, 0.2, 0.2], [1, 1, 1, 2, 1, None, 1, 3, 1]
    second = [2, 3, 1, 2, 2, 1, 2, 3, 3]
    table = conditions.joint_table(dict(enumerate(first)), dict(enumerate(second)), 3)
    compared = conditions.paired(table, np.array(q), np.random.default_rng(1), 40_000)
    every = exact(list(zip(first, second, strict=True)), q)
    p = (every >= every[0] - 1e-9).mean(0)
    assert 0.01 < p.min() and p.max() < 1
    # 5 standard errors of 40,000 draws; fixed seed.
    assert [compared.tv_p, compared.score_p] == pytest.approx(list(p), abs=5 * 0.5 / 200)
    assert compared.score_ci95[0] < compared.score < compared.score_ci95[1]
    assert (compared.seeds, compared.rho, compared.rho_p) == (9, 1 / 9, 1)


def test_rho_is_tested_as_mcnemar_did():
    # 7 seeds valid only in the second condition, 1 only in the first.
    first = {seed: None if seed < 7 else 1 for seed in range(20)}
    second = {seed: None if seed == 7 else 1 for seed in range(20)}
    table = conditions.joint_table(first, second, 2)
    compared = conditions.paired(table, np.array([0.5, 0.5]), np.random.default_rng(0), 1000)
    assert compared.rho == pytest.approx(6 / 20)
    assert compared.rho_p == pytest.approx(2 * scipy.stats.binom.cdf(1, 8, 0.5))


def test_equal_conditions_have_p_of_one_and_other_seeds_no_pair():
    same = {seed: 1 + seed % 2 for seed in range(10)}
    compared = conditions.paired(conditions.joint_table(same, same, 2), np.array([0.5, 0.5]), np.random.default_rng(0), 1000)
    assert (compared.tv, compared.tv_p, compared.score_p, compared.rho_p) == (0, 1, 1, 1)
    with pytest.raises(ValueError, match="share no seed"):
        conditions.paired(conditions.joint_table(same, {99: 1}, 2), np.array([0.5, 0.5]), np.random.default_rng(0))


@pytest.mark.slow
def test_paired_tests_keep_their_level():
    # Seeds that share their outcome with probability 1/2: 400 tests at level .05 fire at most 34 times (binomial, 99.8 %).
    generator, q, fired = np.random.default_rng(7), SCENES["dice"].array(), 0
    for _ in range(400):
        first, second = generator.integers(1, 8, (2, 32))
        second = np.where(generator.random(32) < 0.5, first, second)
        sides = [{seed: None if bin == 7 else int(bin) for seed, bin in enumerate(side)} for side in (first, second)]
        fired += conditions.paired(conditions.joint_table(*sides, 6), q, generator, 500).score_p <= 0.05
    assert fired <= 34


def test_conditions_are_ordered_by_number_where_all_have_one():
    assert conditions.in_order(["10", "9", "1.5"]) == ["1.5", "9", "10"]
    assert conditions.in_order(["low", "high", "1"]) == ["low", "high", "1"]


def test_by_needs_its_column():
    with pytest.raises(UserError, match="missing: guidance"):
        answer(data=CSV, by="guidance")


def test_conditions_without_an_outcome_or_a_shared_seed_are_still_listed(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("scene,model,seed,bin,size\nball,m,0,,small\nball,m,1,,small\nball,m,2,1,large\nball,m,3,1,large\n")
    answered = answer(data=path, by="size", out=tmp_path)
    small, large = answered.result["conditions"]["sweeps"][0]["conditions"]
    assert (small["tv"], small["score"], large["tv"]) == (None, 1, 0.5)
    assert [(pair["first"], pair["second"], pair["seeds"]) for pair in answered.result["conditions"]["sweeps"][0]["pairs"]] == [
        ("small", "large", 0)
    ]
    assert "small" in drawn(answered.tables)


def bins_file(folder, condition, model, bins):
    (folder / condition).mkdir(exist_ok=True)
    rollouts = [{"seed": seed, "bin": bin} for seed, bin in enumerate(bins)]
    content = {"scene": "ball", "model": model, "num_bins": 2, "rollouts": rollouts}
    (folder / condition / f"ball_{model}_bins.json").write_text(json.dumps(content))


def test_a_folder_of_bins_is_a_condition(tmp_path):
    bins_file(tmp_path, "10", "m", [1, 2, None, 1])
    bins_file(tmp_path, "9.5", "m", [2, 2, 2, 1])
    (sweep,) = answer(data=tmp_path, by="guidance").result["conditions"]["sweeps"]
    assert [(entry["guidance"], entry["counts"], entry["N"]) for entry in sweep["conditions"]] == [
        ("9.5", [1, 3], 4),
        ("10", [2, 1], 4),
    ]
    assert (sweep["pairs"][0]["seeds"], sweep["pairs"][0]["tv"]) == (4, pytest.approx(1 / 6 - 1 / 4))
    with pytest.raises(UserError, match=r"states no guidance: by=guidance needs a CSV .* or for each value a folder"):
        answer(data=tmp_path / "10" / "ball_m_bins.json", by="guidance")


def settings_of(policy, low, high):
    """PAWBench rows at two settings; `low` and `high` are the outcomes of (scene, repeat)."""
    rows = []
    for setting, outcome in (("low", low), ("high", high)):
        rows += [row | {"size": setting} for row in rows_of(policy, outcome)]
    return rows


def test_pawbench_rows_are_compared_by_a_key(tmp_path):
    policy = policy_of(scenes=2, repeats=20, models=("m", "n"))
    rows = settings_of(policy, lambda s, r: "ab"[r % 2], lambda s, r: "a" if r < 15 else None)
    answered = answer(**write(tmp_path, policy, rows), by="size", partial=True, out=tmp_path)
    found = answered.result["conditions"]
    assert [(s["protocol"], s["model"], s["scene"]) for s in found["sweeps"]] == [
        ("pawbench", model, scene) for model in ("m", "n") for scene in ("A-00", "A-01")
    ]
    low, high = found["sweeps"][0]["conditions"]
    assert (low["size"], low["counts"], low["rho"], low["tv"]) == ("low", [10, 10], 1, 0)
    assert (high["counts"], high["rho"], high["tv"]) == ([15, 0], 0.75, 0.5)
    pair = found["sweeps"][0]["pairs"][0]
    # Five repeats are valid in the first setting alone: McNemar's exact p is 2 / 2^5.
    assert (pair["seeds"], pair["rho"], pair["rho_p"]) == (20, -0.25, pytest.approx(1 / 16))
    assert found["left_out"] == ["B-00", "B-01"] and "Left out, having no reference: B-00, B-01." in drawn(answered.tables, 200)
    assert "pawbench" not in answered.result and not (tmp_path / "metrics.json").exists()
    lines = (tmp_path / "cells.csv").read_text().splitlines()
    assert len(lines) == 9 and lines[1].startswith("pawbench,m,,A-00,low")


def test_lanes_and_folders_are_conditions_too(tmp_path):
    policy = policy_of(scenes=1, repeats=8, models=("m", "n"))
    rows = rows_of(policy, lambda s, r: "ab"[r % 2])
    (sweep,) = answer(**write(tmp_path, policy, rows), by="model_or_lane", partial=True).result["conditions"]["sweeps"]
    assert (sweep["model"], [entry["model_or_lane"] for entry in sweep["conditions"]]) == ("", ["m", "n"])
    (tmp_path / "rows.jsonl").unlink()
    for setting, outcome in (("49", lambda s, r: "a"), ("97", lambda s, r: "b")):
        (tmp_path / "runs" / setting).mkdir(parents=True)
        held = "".join(json.dumps(row) + "\n" for row in rows_of(policy, outcome))
        (tmp_path / "runs" / setting / "rows.jsonl").write_text(held)
    sweeps = answer(data=tmp_path / "runs", policy=tmp_path / "policy.json", by="frames", partial=True).result["conditions"]
    assert [[entry["frames"] for entry in sweep["conditions"]] for sweep in sweeps["sweeps"]] == [["49", "97"]] * 2
    assert [entry["counts"] for entry in sweeps["sweeps"][0]["conditions"]] == [[8, 0], [0, 8]]


def test_rows_of_a_sweep_are_refused_as_others_are(tmp_path):
    policy = policy_of(scenes=1, repeats=4)
    rows = settings_of(policy, lambda s, r: "a", lambda s, r: RuntimeError("timeout") if r == 2 and s[0] == "A" else "a")
    with pytest.raises(
        UserError, match="by=size: judge again what ended in an infrastructure failure: high, m, A-00, repeat 2"
    ):
        answer(**write(tmp_path, policy, rows), by="size", partial=True)
    rows = settings_of(policy, lambda s, r: "a", lambda s, r: "a")
    with pytest.raises(UserError, match="1 of 4 repeats have no row"):
        answer(**write(tmp_path, policy, rows[1:]), by="size", partial=True)
    with pytest.raises(UserError, match="line 1: states no size"):
        answer(**write(tmp_path, policy, rows_of(policy, lambda s, r: "a")), by="size", partial=True)
    with pytest.raises(UserError, match=r"by=scene_id: names the swept setting, .*is another column or key"):
        answer(**write(tmp_path, policy, rows), by="scene_id", partial=True)
    with pytest.raises(UserError, match=r"sampling=coupled: .*those of conditions"):
        answer(**write(tmp_path, policy, rows), by="size", partial=True, sampling="coupled", group=2)
