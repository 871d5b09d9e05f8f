"""A range whose every distance is known in closed form: P(right) of the wedge is Phi(mean / sd) of the push."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from refcheck import app, ranges
from refcheck.ranges import closed_form_spread, factors_of, sweep
from scenes.load import SceneError, load_scene

DECLARED = """
ranges:
  scene.device.random.release_x.loc: {low: -0.4e-3, high: 0.4e-3, source: made up}
  scene.device.random.release_x.scale: {low: 0.25e-3, high: 1.0e-3, log: true, source: made up}
"""


def exact(point) -> float:
    mean = point.values.get("scene.device.random.release_x.loc", 0.0)
    return abs(norm.cdf(mean / point.values.get("scene.device.random.release_x.scale", 0.5e-3)) - 0.5)


@pytest.fixture
def declared(toy_conf, monkeypatch):
    monkeypatch.setattr(ranges, "EVALUATIONS", 12)  # the toy's engine is plain Python
    monkeypatch.setattr(ranges, "SPREADS", (0.25, 0.5, 0.75, 1.0))
    file = toy_conf / "wedge.yaml"
    file.write_text(file.read_text() + DECLARED)
    return load_scene("toy/wedge")


def test_every_bound_holds_what_drives_it_is_named_and_the_worst_found_is_worse_than_any_place(declared):
    found = sweep(declared, points=8, n=400, epsilon=0.2, seed=3)
    for point in (*found.points, found.worst):
        assert point.lower <= exact(point) <= point.upper, point
    assert len(found.points) == 8 and found.holds + found.fails + found.undecided == pytest.approx(1.0)
    assert found.fails > 0.0 and found.holds > 0.0
    assert set(found.influence) == {"scene.device.random.release_x.loc", "scene.device.random.release_x.scale"}
    corner = abs(norm.cdf(0.4 / 0.25) - 0.5)
    assert exact(found.worst) >= max(exact(point) for point in found.points) - 1e-9
    assert exact(found.worst) == pytest.approx(corner, abs=0.06)
    assert found.worst.n == 1600


def test_the_smallest_spread_at_which_it_holds(declared):
    """With a mean of .1 mm TVD is Phi(.1 / (.5 f)) - .5: .155 at f = .5, .105 at .75; bounds of 1,500 are some .06 wide."""
    words = ["scene.device.random.release_x.loc=0.1e-3"]
    found = sweep(load_scene("toy/wedge", words), words, points=2, n=1500, epsilon=0.18)
    assert found.smallest_spread == 0.75
    by_factor = {factor: tvd for factor, tvd, _, _ in found.spreads}
    assert by_factor[0.25] == pytest.approx(norm.cdf(0.1 / 0.125) - 0.5, abs=0.06)
    assert sweep(load_scene("toy/wedge", words), words, points=2, n=64, epsilon=0.01).smallest_spread is None


def test_defaults_go_where_frame_0_allows(toy_conf):
    scene = load_scene("toy/wedge")
    (only,) = factors_of(scene)
    assert only.path.endswith("scale") and (only.low, only.nominal) == (0.25e-3, 0.5e-3)
    assert only.source.startswith("assumption")
    assert only.at(0.0) == pytest.approx(only.low) and only.at(only.unit()) == pytest.approx(only.nominal)


def test_ranges_that_are_none_are_told(toy_conf):
    file = toy_conf / "wedge.yaml"
    file.write_text(file.read_text() + "\nranges:\n  scene.epsilon: {low: 2.0, high: 1.0, source: made up}\n")
    with pytest.raises(SceneError) as error:
        load_scene("toy/wedge")
    assert "below scene.device" in str(error.value) and "must be at most" in str(error.value)


def test_verify_writes_the_set_that_score_takes_as_a_reference(declared, tmp_path, capsys):
    words = ["verify", "scene=toy/wedge", "epsilon=0.1", "workers=1", "range=2", "range_n=64", f"out={tmp_path}"]
    assert app.main(words) == 0
    told = capsys.readouterr().out
    assert "Worst found" in told and "bounds hold at all of them at once" in told
    kept = json.loads((tmp_path / "toy-wedge-range.json").read_text())["scenes"]["toy/wedge"]
    assert np.all(np.array(list(kept["low"].values())) <= list(kept["high"].values()))
    assert (tmp_path / "toy-wedge-range.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((tmp_path / "result.json").read_text())["ranges"]["toy/wedge"]["points"]


def test_theory_of_a_wheel():
    scene = load_scene("pawbench/A-03")
    device = scene.device
    given = dict(device.random["speed"].parameters)

    def turns(speed: float) -> float:
        """Angle till it stops: dw/dt = -(a + c w), so dX/dw = w / (a + c w)."""
        return quad(lambda w: w / (device.friction + device.drag * w), 0.0, speed)[0] / (2.0 * np.pi)

    sd = given["scale"] * (turns(given["loc"] + 1e-3) - turns(given["loc"] - 1e-3)) / 2e-3
    for epsilon in (0.02, 0.1):
        factor = closed_form_spread(scene, epsilon)
        wrapped = sum(norm.pdf(np.linspace(0, 1, 4001) + k, 0.3, sd * factor) for k in range(-8, 9))
        assert np.trapezoid(np.abs(wrapped - 1.0), dx=1 / 4000) / 2.0 == pytest.approx(epsilon, rel=0.02)
    assert closed_form_spread(load_scene("quincunx/prize_wheel"), 0.02) is None  # its pegs take energy in clicks
    assert closed_form_spread(load_scene("calibench/ball"), 0.02) is None
