"""What a picture implies: geometry from marks is exact, uncertainty is neither lost nor made, and files are not trusted."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow
from scipy.stats import norm

from refcheck import app
from refcheck.bias import between, measure_bias, radius
from refcheck.bias_throws import read_tally
from refcheck.image_reading.dice import DiceKind
from refcheck.image_reading.faces import DieKind
from refcheck.image_reading.kinds import KINDS, kind_of
from refcheck.image_reading.marks import Marks, Unreadable, annotation_text, read_annotations, read_picture
from refcheck.image_reading.pencil import PencilKind
from refcheck.image_reading.shapes import circle
from refcheck.image_reading.wheel import WheelKind
from refcheck.untrusted import Problems
from scenes.load import load_scene
from simulators.devices.two_stage_track import TwoStageTrack

SCENES = {
    "pawbench/A-01", "pawbench/A-02", "pawbench/A-04", "calibench/galton_board", "pawbench/A-07", "pawbench/A-08",
    "pawbench/A-11", "pawbench/A-13", "pawbench/A16", "pawbench/A21", "pawbench/A25", "calibench/pendulum",
}  # fmt: skip


def alike(a: object, b: object, tolerance: float) -> bool:
    return a == b if isinstance(a, str) else bool(np.allclose(a, b, atol=tolerance))  # type: ignore[arg-type]


TWO_STAGE = "family two_stage"  # a device of generated scenes alone


def scene_of(id):
    if id != TWO_STAGE:
        return load_scene(id)
    ball = load_scene("calibench/ball")
    given = {field.name: getattr(ball.device, field.name) for field in fields(ball.device)}
    return replace(ball, device=TwoStageTrack(**{**given, "offset": 0.001}))


def test_every_kind_is_tried_here():
    assert {type(scene_of(id).device) for id in {*SCENES, TWO_STAGE}} == set(KINDS)


@pytest.mark.parametrize("id", [*sorted(SCENES), TWO_STAGE])
def test_marks_where_the_camera_sees_them_give_the_device_back(id):
    """Camera's projection and the measures are independent code: what goes in by one comes out by the other."""
    scene = scene_of(id)
    kind = kind_of(scene.device)
    assert kind is not None
    marks = replace(kind.expected(scene.device, scene.camera), camera=scene.camera)
    measured, own = kind.values(marks, scene.device), kind.of_device(scene.device)
    assert set(measured) <= set(kind.units)
    for name, value in measured.items():
        assert alike(value, own[name], 1e-4), name
    assert kind.of_device(kind.put(scene.device, measured)).keys() == own.keys()
    for name, value in kind.of_device(kind.put(scene.device, measured)).items():
        assert alike(value, own[name], 1e-4), name


@pytest.mark.parametrize("aside", [-0.5, 0.3, 0.7])
def test_a_wheel_seen_askew_keeps_its_shares(aside):
    """From 32 degrees to the side the ellipse alone would be a percent of a turn off; rim and hub together are exact."""
    scene = load_scene("pawbench/A-04")
    camera = replace(scene.camera, position=(aside, -0.8, 0.5), target=(0.0, 0.0, 0.25))
    device = replace(scene.device, colors=("red", "blue", "green"), weights=(0.2, 0.3, 0.5))
    kind = WheelKind()
    np.testing.assert_allclose(kind.values(kind.expected(device, camera), device)["shares"], [0.2, 0.3, 0.5], atol=1e-5)


def test_a_pencil_away_from_the_middle_needs_the_camera():
    """Looking down, uprights away from the middle run together: seen as a lean of more than a degree, unless it is known."""
    scene = load_scene("pawbench/A-09")
    camera = replace(scene.camera, target=(-0.08, 0.0, 0.088), position=(-0.08, -0.85, 0.30))
    kind = PencilKind()
    marks = kind.expected(scene.device, camera)
    assert abs(kind.values(marks, scene.device)["lean"]) > 1.0
    assert abs(kind.values(replace(marks, camera=camera), scene.device)["lean"]) < 1e-6


def test_a_plumb_line_takes_the_place_of_an_upright_camera():
    marks = Marks({"axis": np.array([[10.0, 0.0], [0.0, 100.0]]), "plumb": np.array([[10.0, 0.0], [0.0, 100.0]])}, {})
    assert abs(PencilKind().values(marks, load_scene("pawbench/A-09").device)["lean"]) < 1e-9


def test_circle_through_points():
    turn = np.linspace(0.3, 2.0, 9)
    centre, r = circle(np.column_stack([40.0 + 7.0 * np.cos(turn), -3.0 + 7.0 * np.sin(turn)]))
    np.testing.assert_allclose([*centre, r], [40.0, -3.0, 7.0], atol=1e-9)
    with pytest.raises(Unreadable, match="line"):
        circle(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]))


def test_a_die_held_otherwise_is_relabelled():
    """By hand: with 6 up and 5 in front, 3 is on the right (as 1 is with 3 up): so the body's 1, 3, 5 show 3, 6, 5."""
    kind, device = DieKind(), load_scene("pawbench/A-02").device
    same = kind.relabel(device, {"faces": "3 up, 5 in front"})
    assert same.tolist() == list(range(6))
    turned = kind.relabel(device, {"faces": "6 up, 5 in front"}) + 1
    assert turned[[0, 2, 4]].tolist() == [3, 6, 5]
    for top in range(1, 7):
        for front in set(range(1, 7)) - {top, 7 - top}:
            fact = kind.relabel(device, {"faces": f"{top} up, {front} in front"}) + 1
            assert sorted(fact) == list(range(1, 7)) and all(fact[i] + fact[5 - i] == 7 for i in range(6))
            assert (fact[2], fact[4]) == (top, front)
    with pytest.raises(Unreadable, match="which face is in front"):
        kind.values(Marks({}, {}, {"top": "2", "front": "unseen"}), device)


def test_two_dice_are_relabelled_each_by_its_own_faces():
    kind, device = DiceKind(), load_scene("pawbench/A21").device
    as_held = kind.of_device(device)
    assert kind.relabel(device, as_held).tolist() == list(range(36))
    one = DieKind().relabel(device, {"faces": "6 up, 5 in front"})
    for die, expected in (("nearer", lambda a, b: (one[a], b)), ("farther", lambda a, b: (a, one[b]))):
        fact = kind.relabel(device, {die: "6 up, 5 in front"})
        for a in range(6):
            for b in range(6):
                left, right = expected(a, b)
                assert device.facts[fact[6 * a + b]] == f"{left + 1}+{right + 1}"


def test_a_leaning_pencil_falls_as_theory_says():
    """P(right) = Phi(lean k / sd of the push), k the rate at which a lean grows: the hand's .32 degrees of the scene's note.

    n = 4,096 at one standard deviation: p = .841 +- .006, and 4 sd are asked for: 1 in 16,000 falsely (seed 0).
    """
    scene, kind = load_scene("pawbench/A-09"), PencilKind()
    lean = 0.05 / scene.device.growth
    leaning = replace(scene.device, lean=lean)
    marks = replace(kind.expected(leaning, scene.camera), camera=scene.camera, sigma={"axis": 1e-6})
    kind.systematic = lambda values, marks: {}  # type: ignore[method-assign]
    bias = measure_bias(scene, kind, marks, n=4096, draws=9)
    assert abs(bias.q_image[1] - norm.cdf(1.0)) < 0.024
    assert bias.verdict == "biased" and bias.to_blame == ("lean",)
    assert bias.q_image_low[1] < norm.cdf(1.0) < bias.q_image_high[1]


def test_an_unsure_lean_is_unclear_and_hangs_on_the_lean():
    scene, kind = load_scene("pawbench/A-09"), PencilKind()
    bias = measure_bias(scene, kind, kind.expected(scene.device, scene.camera), n=2052, draws=19)
    assert bias.verdict == "unclear" and bias.lower < 0.02 and bias.upper > 0.3


def test_spread_between_draws_is_neither_made_nor_lost():
    """60 draws of 1,000: of one p at most .75 of the multinomial spread is left; of p with sd .1 it is kept to 5 %.

    Seed 7. The variance of 60 is off by 18 % (sd): three of these leave .75, 1 in 700 falsely. The second's are compared
    with the very p drawn, from which they differ by a tenth of multinomial variance in the sd: 1 % at most.
    """
    generator = np.random.default_rng(7)
    one = generator.multinomial(1000, [0.3, 0.7], size=60)
    assert between(one)[:, 0].std() < 0.75 * math.sqrt(0.3 * 0.7 / 1000)
    p = generator.normal(0.5, 0.1, 60)
    many = np.array([generator.multinomial(1000, [x, 1 - x]) for x in p])
    assert abs(between(many)[:, 0].std(ddof=1) / p.std(ddof=1) - 1.0) < 0.05


def test_radius_is_that_of_the_binomial():
    """For two outcomes TVD is |p^ - p|, whose 95 % point is 1.96 sd. 2,000 redraws fix it to 4 % (seed 3)."""
    got = radius(np.array([4000.0, 6000.0]), np.random.default_rng(3))
    assert abs(got / (1.96 * math.sqrt(0.24 / 10_000)) - 1.0) < 0.12


def test_pictures_are_not_trusted(tmp_path: Path):
    small, text, gif = tmp_path / "small.png", tmp_path / "text.png", tmp_path / "gif.png"
    Pillow.new("RGB", (20, 20)).save(small)
    text.write_text("no picture")
    Pillow.new("RGB", (100, 100)).save(gif, format="GIF")
    bomb = tmp_path / "bomb.png"
    Pillow.new("1", (6000, 6000)).save(bomb)  # a file of kilobytes that would be 108 MB as RGB
    problems = Problems()
    for path in (small, text, gif, bomb, tmp_path, tmp_path / "none.png"):
        assert read_picture(path, problems) is None
    assert len(problems.found) == 6
    assert "20x20" in problems.found[0] and "6000x6000" in problems.found[3]
    good = tmp_path / "large.jpg"
    Pillow.new("RGB", (3000, 1500), (9, 9, 9)).save(good)
    read = read_picture(good, Problems())
    assert read is not None and read[0].shape == (1000, 2000, 3) and read[1] == pytest.approx(2 / 3)


def test_a_picture_shows_all_that_is_in_it(tmp_path: Path):
    """16 bits of grey are read as 8 are; what is see-through or moves is refused."""
    grey = np.linspace(0, 255, 100 * 100).reshape(100, 100).astype(np.uint8)
    Pillow.fromarray(grey).save(tmp_path / "g8.png")
    Pillow.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "g16.png")
    g8, g16 = (read_picture(tmp_path / f"{name}.png", Problems()) for name in ("g8", "g16"))
    assert g8 is not None and g16 is not None and np.array_equal(g8[0], g16[0])
    opaque, clear = Pillow.new("RGBA", (100, 100), (9, 9, 9, 255)), Pillow.new("RGBA", (100, 100), (9, 9, 9, 0))
    opaque.save(tmp_path / "opaque.png")
    clear.save(tmp_path / "clear.png")
    opaque.save(tmp_path / "moves.png", save_all=True, append_images=[Pillow.new("RGBA", (100, 100), (99, 9, 9, 255))])
    problems = Problems()
    assert read_picture(tmp_path / "opaque.png", problems) is not None and not problems.found
    assert read_picture(tmp_path / "clear.png", problems) is None and read_picture(tmp_path / "moves.png", problems) is None
    assert "is transparent in places" in problems.found[0] and "has 2 frames" in problems.found[1]


def test_what_a_hand_has_corrected_is_never_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    scene, out = "scene=pawbench/A-04", tmp_path / "b1"
    assert app.main(["bias", scene, "template=true", f"out={out}"]) == 0
    assert app.main(["bias", scene, "template=true", f"out={out}"]) == 0  # nothing was changed
    file = out / "annotations.json"
    mine = file.read_text().replace('"sigma": 1.5', '"sigma": 2.5')
    file.write_text(mine)
    small = ("n=1000", "draws=9", "workers=1")
    for words in (("template=true",), (f"annotations={file}", *small), small):
        for more in ((), ("overwrite=true",)):
            assert app.main(["bias", scene, *words, *more, f"out={out}"]) == 2
            assert file.read_text() == mine
    assert "lies where out= is to be written" in capsys.readouterr().err


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    given = [f"{key}={tmp_path / key}" for key in ("image", "annotations", "tally")]
    assert app.main(["bias", "scene=pawbench/A-04", *given]) == 2
    told = capsys.readouterr().err
    assert all(f"{tmp_path / key}: there is no such file" in told for key in ("image", "annotations", "tally"))
    assert app.main(["bias", "scene=pawbench/A-04", "template=true", *given[1:]]) == 2
    told = capsys.readouterr().err
    assert told.count("are both given") == 2 and "say where with out=DIR" in told


def test_marks_that_make_no_device_are_told_of_their_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    scene, path = load_scene("pawbench/A-02"), tmp_path / "marks.json"
    words = {"top": "6", "front": "1"}  # which lie on opposite sides
    path.write_text(json.dumps({"points": {}, "words": words}))
    assert app.main(["bias", f"scene={scene.id}", f"annotations={path}"]) == 2
    told = capsys.readouterr().err
    assert f"{path}: these marks are no such" in told and "by hand" not in told


def test_annotations_tell_all_that_is_wrong_and_come_back(tmp_path: Path):
    scene = load_scene("pawbench/A-04")
    kind, path, problems = WheelKind(), tmp_path / "marks.json", Problems()
    needed, size = kind.marks(scene.device), (832, 480)
    path.write_text(
        json.dumps({"points": {"hub": [[1, 2], [3, 4]], "rim": [[900, 0]] * 5, "nose": [[1, 1]], "pointer": [[1, 1]]}})
    )
    assert read_annotations(path, needed, size, 1.0, problems) is None or problems.found
    said = "\n".join(problems.found)
    for word in ("'nose'", "points.hub must be 1 points, got 2", "points.rim lies outside", "points.boundaries must be 2"):
        assert word in said, word
    marks = kind.expected(scene.device, scene.camera)
    path.write_text(annotation_text(marks, needed, 0.5))
    again = read_annotations(path, needed, size, 0.5, problems := Problems())
    assert again is not None and not problems.found
    np.testing.assert_allclose(kind.values(again, scene.device)["shares"], [1 / 3, 2 / 3], atol=1e-3)


def test_a_template_of_a_found_die_can_be_given_back(tmp_path: Path):
    """The outline that was found goes into the template: it is a mark that the annotations may have."""
    scene, kind, path, problems = load_scene("pawbench/A-02"), DieKind(), tmp_path / "marks.json", Problems()
    outline = np.array([[230.0, 137.0], [257.0, 137.0], [260.0, 114.0], [232.0, 114.0]])
    found = Marks({"outline": outline}, {"outline": 1.0}, {"top": "6", "front": "5"})
    path.write_text(annotation_text(found, kind.marks(scene.device), 1.0))
    again = read_annotations(path, kind.marks(scene.device), (832, 480), 1.0, problems)
    assert again is not None and not problems.found
    assert kind.values(again, scene.device) == {"faces": "6 up, 5 in front"}


def test_tally_is_checked(tmp_path: Path):
    path, problems = tmp_path / "tally.json", Problems()
    path.write_text('{"red": 3, "green": 1, "blue": -1}')
    read_tally(path, ("red", "blue"), problems)
    assert len(problems.found) == 2
    path.write_text('{"red": 3}')
    assert read_tally(path, ("red", "blue"), Problems()).tolist() == [3.0, 0.0]


def test_the_verb_from_template_to_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The ball of A-11 stands half a peg's radius to the left; shown to A-05, which calls it even, it is caught."""
    out, marked = tmp_path / "bias", tmp_path / "marks.json"
    offset, even = load_scene("pawbench/A-11"), "scene=pawbench/A-05"
    kind = kind_of(offset.device)
    assert kind is not None
    marked.write_text(annotation_text(kind.expected(offset.device, offset.camera), kind.marks(offset.device), 1.0))
    image, tally = tmp_path / "photo.png", tmp_path / "tally.json"
    Pillow.new("RGB", (832, 480), (120, 130, 140)).save(image)
    tally.write_text('{"left": 40, "right": 0}')
    assert app.main(["bias", even, f"image={image}", "n=1000"]) == 2  # nothing is seen in it
    assert "template=true" in capsys.readouterr().err
    words = ["bias", even, f"image={image}", f"annotations={marked}", f"tally={tally}", "n=1000", "draws=9", f"out={out}"]
    assert app.main([*words, "require=faithful"]) == 1
    found = json.loads((out / "result.json").read_text())["bias"]
    assert found["verdict"] == "biased" and found["to_blame"][0] == "offset" and found["read_by"] == "annotations"
    assert found["q_image"][0] > 0.95 and abs(found["tvd_scene"]) < 0.1
    assert found["throws"]["from_q"]["low"] > 0.2 and found["throws"]["from_image"]["low"] == 0.0
    assert Pillow.open(out / "measured.png").size[0] == 832
    assert app.main(["bias", even, f"image={image}", "template=true", f"out={tmp_path / 'template'}"]) == 0
    assert set(json.loads((tmp_path / "template" / "annotations.json").read_text())["points"]) == {"ball", "pegs"}
