"""Conditions: the seven guidance settings from their labels, and the paired tests against their own definitions."""

import csv
import itertools
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from scoring import CSV, answer, drawn

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
