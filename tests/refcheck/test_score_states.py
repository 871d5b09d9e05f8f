"""Terminal states from the command line: a sampler right in its bins and wrong within them, circles, laws, and bad files."""

import json

import numpy as np
import pytest
import scipy.stats
from scoring import CSV, answer, drawn

from refcheck.command import UserError
from refcheck.ordered import uniform_kuiper


def write(path, header, rows):
    path.write_text(header + "\n" + "".join(",".join(str(part) for part in row) + "\n" for row in rows))
    return path


@pytest.fixture
def samples(tmp_path):
    """Model `even` has the reference's law; `middle` the same halves, but the middle of each."""
    rng = np.random.default_rng(0)
    middle = rng.choice([-0.5, 0.5], 80) + 0.1 * rng.random(80)
    rows = [("board", "even", i, x) for i, x in enumerate(rng.uniform(-1, 1, 80))]
    rows += [("board", "middle", i, x) for i, x in enumerate(middle)] + [("board", "middle", 80, "")]
    return {
        "states": write(tmp_path / "s.csv", "scene,model,seed,value", rows),
        "against": write(tmp_path / "r.csv", "scene,value", [("board", x) for x in rng.uniform(-1, 1, 300)]),
    }, middle


def test_a_sampler_wrong_within_its_bins_is_found(samples):
    paths, middle = samples
    answered = answer(**paths)
    even, wrong = answered.result["states"]["cells"]
    assert (even["model"], even["n"], even["nulls"], even["reference_n"]) == ("even", 80, 0, 300)
    assert (wrong["n"], wrong["nulls"]) == (80, 1)
    reference = [float(line.split(",")[1]) for line in paths["against"].read_text().splitlines()[1:]]
    by_kind = {entry["kind"]: entry for entry in wrong["distances"]}
    assert by_kind["wasserstein"]["value"] == pytest.approx(scipy.stats.wasserstein_distance(middle, reference))
    assert by_kind["energy"]["value"] == pytest.approx(scipy.stats.energy_distance(middle, reference))
    # Fixed seed; a false alarm of `even` in any of three tests at .01 has a chance of at most 3 %.
    assert all(entry["p"] > 0.01 for entry in even["distances"])
    assert by_kind["kuiper"]["p"] == 1 / 1001 and by_kind["kuiper"]["p_benjamini_hochberg"] == pytest.approx(2 / 1001)
    assert "< 1e-3" in drawn(answered.tables) and set(answered.result["inputs"]) == {str(path) for path in paths.values()}
    assert abs(sum(x > 0 for x in middle) - 40) <= 18  # the halves themselves hide it: 4 standard errors


def test_angles_are_uniform_on_the_circle_unless_something_else_is_given(tmp_path):
    rng = np.random.default_rng(1)
    angles = rng.uniform(-10, 10, 60)
    rows = [("spinner", "m", x) for x in angles] + [("spinner", "stuck", x) for x in rng.normal(0, 0.3, 60)]
    path = write(tmp_path / "s.csv", "scene,model,angle", rows)
    fair, stuck = answer(states=path).result["states"]["cells"]
    assert fair["distances"][0]["value"] == pytest.approx(uniform_kuiper(angles / (2 * np.pi)))
    assert [entry["kind"] for entry in fair["distances"]] == ["kuiper"] and fair["reference"] == "law"
    assert stuck["distances"][0]["p"] == 1 / 1001
    # A turn more changes nothing; and stuck against the same kind of stuck is not told apart at .01.
    other = write(tmp_path / "r.csv", "scene,angle", [("spinner", x) for x in rng.normal(2 * np.pi, 0.3, 200)])
    fair, stuck = answer(states=path, against=other).result["states"]["cells"]
    assert fair["distances"][0]["p"] == 1 / 1001 and stuck["distances"][0]["p"] > 0.01


def test_a_stated_law(tmp_path):
    x = np.random.default_rng(2).normal(3, 0.5, 70)
    path = write(tmp_path / "s.csv", "scene,model,value", [(scene, "m", v) for scene in ("right", "wrong") for v in x])
    laws = tmp_path / "laws.json"
    held = {name: {"dist": "norm", "parameters": {"loc": 3, "scale": s}} for name, s in (("right", 0.5), ("wrong", 1.5))}
    laws.write_text(json.dumps({"scenes": held}))
    right, wrong = answer(states=path, against=laws).result["states"]["cells"]
    assert right["distances"][0]["value"] == pytest.approx(uniform_kuiper(scipy.stats.norm(3, 0.5).cdf(x)))
    assert right["distances"][0]["p"] > 0.01 and wrong["distances"][0]["p"] == 1 / 1001


def test_what_is_wrong_is_told(tmp_path, samples):
    paths, _ = samples
    cases = (
        ("scene,model\nb,m\n", "columns must be scene, model, value"),
        ("scene,model,value,angle\nb,m,1,1\n", "columns must be scene, model, value"),
        ("scene,model,value\n", "has a header and no states"),
        ("scene,model,value\nb,m,nan\n", "line 2: value 'nan' must be a finite number, or empty"),
        ("scene,model,value\nb,m,1e999\n", "must be a finite number"),
        ("scene,model,value\nb,m\n", "has 2 fields, the header has 3"),
        ("scene,model,seed,value\nb,m,1,2\nb,m,1,3\n", "seed '1' of 'b', 'm' occurs twice, first in .*line 2"),
        ("scene,model,value\nb,m,1\n", "has no reference of scene 'b'"),
        ("", "is empty"),
    )
    for text, message in cases:
        path = tmp_path / "bad.csv"
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            answer(states=path, against=paths["against"])
    with pytest.raises(UserError, match="values, which need against="):
        answer(states=paths["states"])
    with pytest.raises(UserError, match="give states=PATH too"):
        answer(data=CSV, against=paths["against"])
    with pytest.raises(UserError, match=r"holds values, and .* angles: give both as one of them"):
        answer(states=write(tmp_path / "a.csv", "scene,model,angle", [("board", "m", 1)]), against=paths["against"])
    many = write(tmp_path / "many.csv", "scene,model,angle", [("board", "m", 1)] * 50_001)
    with pytest.raises(UserError, match="has 50001 states with its reference, at most 50000"):
        answer(states=many)
    laws = tmp_path / "laws.json"
    for law, message in (
        ({"dist": "norm", "parameters": {"scale": -1}}, "outside norm's range"),
        ({"dist": "binom", "parameters": {"n": 3}}, "no continuous distribution"),
        ({"dist": "norm", "parameters": {"sigma": 1}}, "sigma"),
    ):
        laws.write_text(json.dumps({"scenes": {"board": law}}))
        with pytest.raises(UserError, match=message):
            answer(states=paths["states"], against=laws)
