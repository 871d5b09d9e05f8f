"""Further checks of a certificate, on physics whose distance is known in closed form."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from refcheck import app, evidence
from refcheck.certificate_tables import agreement
from refcheck.command import UserError
from refcheck.evidence import NOT_YET, Check, Evidence, Gatherer, log_chernoff, paired_distance
from scenes.catalog import raw_scene, scene_ids
from scenes.load import load_scene

KNOCK_OUT = """
knock_out:
  removes: the symmetry of the push
  overrides: [scene.device.random.release_x.loc=0.5e-3]
weak_point: the push
"""


@pytest.fixture
def with_knock_out(toy_conf):
    file = toy_conf / "wedge.yaml"
    file.write_text(file.read_text() + KNOCK_OUT)
    return load_scene("toy/wedge")


def test_a_knock_out_moves_the_outcomes_by_what_theory_says(with_knock_out):
    check = Gatherer(1600, seed=2).gather(with_knock_out).knock_out
    exact = norm.cdf(1.0) - 0.5  # P(x > 0) with a mean of one sd
    assert check.lower <= exact <= check.upper and check.lower > 0.2
    assert check.tvd == pytest.approx(exact, abs=0.062)  # four standard errors of the two shares
    assert "without the symmetry of the push" in check.said and check.n == 1600
    assert sum(check.shares.values()) == pytest.approx(1.0)


def test_by_its_aim_a_scene_has_as_many_rollouts_as_can_meet_it(toy_conf, tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "AIM", evidence.Aim(0.03, 1200))
    scene = load_scene("toy/wedge")
    assert Gatherer(None).gather(scene).step_halving.n == 1200
    monkeypatch.setattr(evidence, "CHAOTIC", ("closed",))
    monkeypatch.setattr(evidence, "CHAOTIC_AIM", evidence.Aim(0.10, 700))
    assert Gatherer(None).gather(scene).step_halving.n == 700
    words = ["verify", "scene=toy/wedge", "epsilon=.3", "evidence=aim", "workers=1", f"out={tmp_path / 'out'}"]
    assert app.main(words) == 0
    held = json.loads((tmp_path / "out" / "result.json").read_text())["certificates"][0]
    assert held["evidence"]["step_halving"]["n"] == 700


@pytest.mark.parametrize("word", ["many", "-1", "1e4", "200000000"])
def test_evidence_is_a_number_or_aim(toy_conf, word, capsys):
    assert app.main(["verify", "scene=toy/wedge", f"evidence={word}"]) == 2
    told = capsys.readouterr().err
    assert f"evidence='{word}'" in told and "'aim'" in told


def test_half_the_step_of_an_exact_engine_changes_nothing(with_knock_out):
    check = Gatherer(500).gather(with_knock_out).step_halving
    assert (check.tvd, check.lower, check.alike) == (0.0, 0.0, 1.0) and check.upper < 0.011
    assert "480 steps/s instead of 240" in check.said


def test_what_cannot_be_run_says_why(toy_conf):
    gathered = Gatherer(64).gather(load_scene("toy/wedge"))
    assert "only closed integrates" in gathered.second_integrator.said
    assert "none is declared" in gathered.knock_out.said
    assert gathered.knock_out.n == 0 and gathered.knock_out.tvd is None


def coupled(draws, n: int, p, q, how: str):
    """Pairs with laws `p` and `q`: independent, `maximal` (equal with the largest probability), or `countermonotone`."""
    p, q = np.asarray(p), np.asarray(q)
    if how == "independent":
        return draws.choice(len(p), n, p=p), draws.choice(len(q), n, p=q)
    if how == "countermonotone":
        u = draws.random(n)
        return np.searchsorted(np.cumsum(p)[:-1], u), np.searchsorted(np.cumsum(q)[:-1], 1.0 - u)
    both = np.minimum(p, q)
    same = draws.random(n) < both.sum()
    common, distance = draws.choice(len(p), n, p=both / both.sum()), 1.0 - both.sum()
    a, b = (draws.choice(len(p), n, p=(x - both) / distance if distance > 1e-12 else x) for x in (p, q))
    return np.where(same, common, a), np.where(same, common, b)


@pytest.mark.parametrize("further", [0, 1200])
@pytest.mark.parametrize("how", ["independent", "maximal", "countermonotone"])
@pytest.mark.parametrize("q", [(0.5, 0.3, 0.2), (0.4, 0.3, 0.3)])
def test_the_bounds_of_a_distance_hold_as_often_as_they_say(how, q, further):
    """400 samples of pairs, alpha .05, however the two of a pair hang together; `further` launches of the first alone.

    More than 38 misses of an end would have probability below 1e-4 (binomial) if each has error .05.
    """
    draws = np.random.default_rng(7)
    p, exact = (0.5, 0.3, 0.2), 0.5 * np.abs(np.subtract((0.5, 0.3, 0.2), q)).sum()
    low = high = 0
    for _ in range(400):
        a, b = coupled(draws, 300, p, q, how)
        distance, lower, upper = paired_distance(np.append(a, draws.choice(3, further, p=p)), b, 3, 0.05)
        assert lower <= distance <= upper
        low, high = low + (lower > exact + 1e-12), high + (upper < exact)
    assert low <= 38 and high <= 38


def test_samples_that_are_alike_are_near_as_the_coupling_inequality_says():
    """None of 2,000 pairs differs: P(a != b), and so the distance, is at most 1 - (alpha/2)^(1/n), about -ln(alpha/2)/n."""
    a = np.random.default_rng(1).integers(0, 5, 2000)
    distance, lower, upper = paired_distance(a, a, 7, 0.01)
    assert (distance, lower) == (0.0, 0.0)
    assert upper == pytest.approx(1.0 - 0.005 ** (1.0 / 2000)) == pytest.approx(-np.log(0.005) / 2000, rel=0.01)


def test_few_unequal_pairs_bound_a_distance_more_closely_than_independent_samples_could():
    """20 of 2,000 coins differ, 11 one way: the Clopper-Pearson limit of .01 at .995 is .0176; independent ones end at .05."""
    a = np.random.default_rng(2).integers(0, 2, 2000)
    b = a.copy()
    b[np.flatnonzero(a == 0)[:11]] = 1
    b[np.flatnonzero(a == 1)[:9]] = 0
    distance, lower, upper = paired_distance(a, b, 2, 0.01)
    assert distance == pytest.approx(0.001) and lower == 0.0 and upper < 0.0176
    apart = paired_distance(a, np.random.default_rng(3).permutation(a), 2, 0.01)
    assert apart[2] > 0.04


def test_further_launches_of_the_faster_integrator_narrow_the_upper_end():
    """300 independent pairs, then 30,000 more of one: close to sqrt(log(200) (1/300 + 1e-4) / 2) = .095 above the distance."""
    draws = np.random.default_rng(4)
    a, b = draws.integers(0, 4, 30_300), draws.integers(0, 4, 300)
    pairs, all_of_it = paired_distance(a[:300], b, 4, 0.01), paired_distance(a, b, 4, 0.01)
    assert all_of_it[2] == pytest.approx(all_of_it[0] + 0.0954, abs=1e-3) and all_of_it[2] < pairs[2] - 0.03


@pytest.mark.parametrize(
    ("z", "t", "d"), [(0.0, 0.1, 0.3), (0.05, 0.2, 0.2), (-0.2, 0.1, 1.0), (0.3, 0.6, 0.9), (0.0, 0.2, 0.2)]
)
def test_the_chernoff_bound_is_the_least_that_any_weight_gives(z, t, d):
    weights = np.linspace(0.0, 30.0, 300_001)
    up, down = (d + t) / 2.0, (d - t) / 2.0
    grid = z * weights + np.log(1.0 - d + up * np.exp(-weights) + down * np.exp(weights))
    assert log_chernoff(z, t, d) == pytest.approx(grid.min(), abs=1e-7)


def test_the_lower_end_sees_a_difference_that_is_there():
    """Laws .2 apart, 2,000 independent pairs: an end below .1 is over 4 standard errors low, after what A costs to be found."""
    a, b = coupled(np.random.default_rng(5), 2000, (0.5, 0.3, 0.2), (0.3, 0.4, 0.3), "independent")
    assert 0.1 < paired_distance(a, b, 3, 0.01)[1] <= 0.2


def test_gathering_goes_on_where_it_stopped(with_knock_out, tmp_path, monkeypatch):
    whole = Gatherer(400, seed=3).gather(with_knock_out)
    folder = tmp_path / "evidence"
    Gatherer(250, seed=3, folder=folder).gather(with_knock_out)
    ran = []
    real = evidence.run_range
    monkeypatch.setattr(evidence, "run_range", lambda *given: ran.append(given[4:6]) or real(*given))
    assert Gatherer(400, seed=3, folder=folder).gather(with_knock_out) == whole
    assert ran and all(first == 250 for first, _ in ran)
    ran.clear()
    shorter = Gatherer(100, seed=3, folder=folder).gather(with_knock_out)
    assert shorter == Gatherer(100, seed=3).gather(with_knock_out) and shorter.knock_out.n == 100
    other = Gatherer(100, seed=4, folder=folder).gather(with_knock_out).knock_out
    assert other == Gatherer(100, seed=4).gather(with_knock_out).knock_out != shorter.knock_out


def test_a_file_that_is_no_record_is_refused_by_name(with_knock_out, tmp_path):
    Gatherer(64, folder=tmp_path).gather(with_knock_out)
    file = sorted(tmp_path.glob("*.npy"))[0]
    for held in (np.array([1.5, 2.0]), np.array([99], np.int16)):
        np.save(file, held)
        with pytest.raises(UserError, match="no record of rollouts"):
            Gatherer(128, folder=tmp_path).gather(with_knock_out)
    file.write_bytes(b"nonsense")
    with pytest.raises(UserError, match="remove it"):
        Gatherer(128, folder=tmp_path).gather(with_knock_out)


def test_a_knock_out_whose_vectors_have_another_size_runs_on_launches_of_its_own():
    check = Gatherer(256).gather(load_scene("calibench/cards")).knock_out
    assert "on launches of its own" in check.said and check.lower > 0.0


def test_what_a_knock_out_removes_reads_as_part_of_a_sentence():
    """It stands after "without" and before a colon."""
    for id in scene_ids():
        removes = (raw_scene(id).get("knock_out") or {"removes": "it"})["removes"]
        assert removes[0].islower() and not removes.endswith("."), id


def test_verify_gathers_it_and_writes_the_page_of_references(with_knock_out, tmp_path, capsys):
    words = ["verify", "scenes=toy/*", "epsilon=0.1", "workers=1", "evidence=300", f"out={tmp_path}"]
    assert app.main(words) == 0
    assert "Not gathered" not in capsys.readouterr().out
    one = json.loads((tmp_path / "result.json").read_text())["certificates"][0]
    assert one["evidence"]["knock_out"]["n"] == 300 and one["evidence"]["knock_out"]["said"] != NOT_YET
    page = (tmp_path / "references.md").read_text()
    for told in ("## toy/wedge", "| left | 1/2 |", "**Weak point.** the push.", "without the symmetry"):
        assert told in page, told
    assert f"{one['tally']['counts'][0]:,}" in page


def test_the_table_of_two_integrators_says_what_is_within_its_aim():
    """Chaotic motion in space is held to .10, all else to .03; a lower end above the aim is a difference, not a small n."""

    def row(name: str, lower: float, upper: float) -> str:
        check = Check("", 2000, 0.02, lower, upper, {}, 0.9)
        one = SimpleNamespace(
            scene="toy/one", engine=SimpleNamespace(name=name), evidence=Evidence(second_integrator=check), alpha=0.01
        )
        scene = SimpleNamespace(integrators=(None, SimpleNamespace(name="other")))
        return agreement([one], [scene])[-1]

    assert row("piles", 0.0, 0.09).endswith("| 0.10 | yes |") and row("coin_kernel", 0.0, 0.09).endswith("| open at this n |")
    assert row("coin_kernel", 0.0, 0.03).endswith("| 0.03 | yes |") and row("coin_kernel", 0.04, 0.09).endswith("| no |")
    alone = SimpleNamespace(evidence=Evidence())
    assert agreement([alone], [SimpleNamespace()]) == []
