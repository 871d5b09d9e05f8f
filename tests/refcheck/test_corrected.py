"""Scores seen through a judge: a known confusion undone, cells matched to controls, every refusal by its message."""

import json

import pytest
from scoring import CSV, answer, drawn, policy_of, rows_of, write

from refcheck.command import UserError

SYMMETRIC = [[900, 100, 0], [100, 900, 0]]


def controls(tmp_path, scene="calibench/ball", outcomes=("left", "right"), confusion=SYMMETRIC, name="result.json", **changes):
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / name
    content = {"schema": "quincunx.controls/v1", "scene": scene, "judge": {"name": "trained"}, "outcomes": list(outcomes)}
    content |= {"confusion": confusion, "confusion_columns": [*outcomes, "no outcome"]} | changes
    path.write_text(json.dumps(content))
    return path


def labels(tmp_path, left, right, nulls=0):
    path = tmp_path / "x.csv"
    bins = ["1"] * left + ["2"] * right + [""] * nulls
    path.write_text("scene,model,seed,bin\n" + "".join(f"ball,m,{seed},{bin}\n" for seed, bin in enumerate(bins)))
    return path


def test_a_symmetric_error_is_undone(tmp_path):
    # Errors of .1 over two classes shrink TVD by 1 - 2 * .1 = .8 exactly: read .2, truly .25.
    scored = answer(data=labels(tmp_path, 700, 300), judge=controls(tmp_path / "c"))
    (cell,) = scored.result["judge"]["cells"]
    assert (cell["model"], cell["scene"], cell["judge"]) == ("m", "ball", "trained")
    assert cell["raw"] == pytest.approx(0.2)
    assert cell["tvd"] == pytest.approx(0.25, abs=1e-4)
    assert cell["interval"]["low"] < 0.25 < cell["interval"]["high"]
    assert "controls are taken to look like the clips" in cell["assumption"]
    assert "controls are taken to look like the clips" in " ".join(drawn(scored.tables).split())
    json.dumps(scored.result, allow_nan=False)


def test_outcomes_in_another_order_are_the_same_controls(tmp_path):
    # Left is read right in .3 of controls, right always right; the file has right first.
    other = controls(tmp_path / "c", outcomes=("right", "left"), confusion=[[1000, 0, 0], [300, 700, 0]])
    (cell,) = answer(data=labels(tmp_path, 350, 650), judge=other).result["judge"]["cells"]
    assert cell["tvd"] == pytest.approx(0, abs=1e-3)  # half of the clips are left, and .7 of them read so: 350
    assert cell["raw"] == pytest.approx(0.15)


def test_a_folder_of_controls_and_of_other_results(tmp_path):
    (tmp_path / "c").mkdir()
    controls(tmp_path / "c" / "one")
    controls(tmp_path / "c" / "two", scene="calibench/walking")
    (tmp_path / "c" / "three").mkdir()
    (tmp_path / "c" / "three" / "result.json").write_text('{"schema": "quincunx.verify/v1"}')
    cells = answer(data=CSV, judge=tmp_path / "c").result["judge"]["cells"]
    assert {(cell["model"], cell["scene"]) for cell in cells} == {
        (model, scene) for model in ("wan", "seedance", "happyhorse") for scene in ("ball", "walking")
    }


def test_pawbench_scenes_are_matched_by_id(tmp_path):
    policy = policy_of()
    files = write(tmp_path, policy, rows_of(policy, lambda scene, repeat: "a" if repeat < 35 else "b"))
    judge = controls(tmp_path / "c", scene="pawbench/A-00", outcomes=("a", "b"))
    (cell,) = answer(**files, judge=judge).result["judge"]["cells"]
    assert (cell["protocol"], cell["scene"]) == ("pawbench", "A-00")
    assert (cell["raw"], cell["tvd"]) == (pytest.approx(0.2), pytest.approx(0.25, abs=1e-4))


def test_a_judge_that_tells_nothing_apart_is_refused_cell_by_cell(tmp_path):
    judge = controls(tmp_path / "c", confusion=[[50, 50, 0], [50, 50, 0]])
    scored = answer(data=labels(tmp_path, 70, 30), judge=judge)
    (cell,) = scored.result["judge"]["cells"]
    assert "too poor to invert" in cell["refused"] and "tvd" not in cell
    assert "too poor to invert" in " ".join(drawn(scored.tables).split())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "quincunx.verify/v1"}, "is not a result of `controls`"),
        ({"confusion": [[1, 2, 3]]}, "must be 2 rows of 3 counts"),
        ({"confusion": [[1, 2], [1, 2]]}, "must be 2 rows of 3 counts"),
        ({"confusion": [[1, -2, 0], [1, 2, 0]]}, "negative count"),
        ({"confusion": [[1.5, 2, 0], [1, 2, 0]]}, "confusion.0.0"),
        ({"confusion_columns": ["right", "left", "no outcome"]}, "in the order of the outcomes"),
        ({"outcomes": ["a", "b"], "confusion_columns": ["a", "b", "-"]}, "its controls have the outcomes ['a', 'b']"),
        ({"scene": "calibench/dice"}, "judge= has controls of calibench/dice, and data= none of these scenes: calibench/ball"),
    ],
)
def test_what_is_refused(tmp_path, changes, message):
    with pytest.raises(UserError) as error:
        answer(data=labels(tmp_path, 7, 3), judge=controls(tmp_path / "c", **{"scene": "calibench/ball"} | changes))
    assert any(message in problem for problem in error.value.problems), error.value.problems


def test_what_is_no_controls_at_all(tmp_path):
    data = labels(tmp_path, 7, 3)
    with pytest.raises(UserError, match="holds no result of `controls`"):
        answer(data=data, judge=tmp_path)
    with pytest.raises(UserError, match="no such file"):
        answer(data=data, judge=tmp_path / "gone.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(UserError, match="is not JSON"):
        answer(data=data, judge=tmp_path / "bad.json")
    (tmp_path / "c").mkdir()
    controls(tmp_path / "c" / "one")
    controls(tmp_path / "c" / "two")
    with pytest.raises(UserError, match="has two results of controls"):
        answer(data=data, judge=tmp_path / "c")
