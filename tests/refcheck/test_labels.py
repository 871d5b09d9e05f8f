"""Label files from outside: what is right is read whole, what is wrong is refused with all its problems."""

import json

import pytest

from refcheck.calibench import SCENES
from refcheck.command import UserError
from refcheck.labels import read_labels
from refcheck.untrusted import MAXIMUM_BYTES, SHOWN

HEAD = "scene,model,seed,bin\n"
ROW = {
    "sample_id": "m::A-01::r000::repeat=0",
    "source_sample_id": "m::A-01::r000",
    "scene_id": "A-01",
    "track": "calibration",
    "model_or_lane": "m",
    "repeat_index": 0,
    "observation": "outcome",
    "outcome_label": "heads",
}


def bins(rollouts, scene="cards", model="m", num_bins=4):
    return json.dumps({"scene": scene, "model": model, "num_bins": num_bins, "rollouts": rollouts})


def read(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_labels(path)


def refused(tmp_path, name, content):
    with pytest.raises(UserError) as error:
        read(tmp_path, name, content)
    assert all(name in problem or problem.startswith("...") for problem in error.value.problems)
    return error.value.problems


def test_csv(tmp_path):
    labels = read(tmp_path, "x.csv", HEAD + "cards,m,0,4\ncards,m,1,\ncards,n,0,1\ndice,m,0,6\n")
    assert (labels.cells["m", "cards"].counts, labels.cells["m", "cards"].nulls) == ([0, 0, 0, 1], 1)
    assert labels.cells["n", "cards"].counts == [1, 0, 0, 0]
    assert labels.cells["m", "dice"].counts[5] == 1
    assert len(labels.cells) == 3


def test_csv_of_spreadsheets(tmp_path):
    # A byte-order mark, Windows line ends, quotes and another order of columns are all still CSV.
    content = b'\xef\xbb\xbfseed,"bin",scene,model\r\n0,2,ball,"a, b"\r\n\r\n'
    assert read(tmp_path, "x.csv", content).cells["a, b", "ball"].counts == [0, 1]


def test_bins(tmp_path):
    labels = read(tmp_path, "cards_m_bins.json", bins([{"seed": 0, "bin": 4}, {"seed": 1, "bin": None}]))
    assert (labels.cells["m", "cards"].counts, labels.cells["m", "cards"].nulls) == ([0, 0, 0, 1], 1)


def test_rows(tmp_path):
    null = ROW | {"observation": "null_observation", "outcome_label": None, "repeat_index": "7"}
    labels = read(tmp_path, "rows.jsonl", json.dumps(ROW) + "\n\n" + json.dumps(null) + "\n")
    assert [row.observation for _, row in labels.rows] == ["outcome", "null_observation"]
    assert labels.rows[1][1].repeat == 7
    assert labels.rows[1][0].endswith("line 3")


def test_a_folder_reads_what_it_recognises_and_says_what_it_left(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "cards_m_bins.json").write_text(bins([{"seed": 0, "bin": 1}]))
    (tmp_path / "x.csv").write_text(HEAD + "cards,m,1,1\n")
    (tmp_path / "run" / "rows.jsonl").write_text(json.dumps(ROW))
    (tmp_path / "run" / "run.json").write_text("{}")
    labels = read_labels(tmp_path)
    assert labels.cells["m", "cards"].counts == [2, 0, 0, 0]
    assert len(labels.rows) == 1
    assert labels.ignored == [str(tmp_path / "run" / "run.json")]
    assert len(labels.files) == 3


def test_a_slot_in_two_files_is_refused(tmp_path):
    (tmp_path / "cards_m_bins.json").write_text(bins([{"seed": 1, "bin": 1}]))
    (tmp_path / "x.csv").write_text(HEAD + "cards,m,01,2\n")
    with pytest.raises(UserError, match=r"seed 1 .* occurs twice, first in .*cards_m_bins\.json"):
        read_labels(tmp_path)


def test_a_folder_without_labels_and_a_missing_file(tmp_path):
    with pytest.raises(UserError, match="no label file"):
        read_labels(tmp_path)
    with pytest.raises(UserError, match="no such file"):
        read_labels(tmp_path / "gone.csv")
    (tmp_path / "clip.mp4").write_bytes(b"x")
    with pytest.raises(UserError, match="recognised"):
        read_labels(tmp_path / "clip.mp4")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cards,m,0,5", "bin 5 of scene 'cards' must be from 1 to 4 (hearts, diamonds, clubs, spades)"),
        ("cards,m,0,0", "must be from 1 to 4"),
        ("cards,m,0,-1", "bin '-1' must be a whole number"),
        ("cards,m,0,2.0", "bin '2.0' must be"),
        ("cards,m,0,nan", "bin 'nan' must be"),
        ("cards,m,0,spades", "bin 'spades' must be"),
        ("cards,m,0,٣", "bin '\\u0663' must be"),
        ("cards,m,0, 2", "bin ' 2' must be"),
        ("cards,m,,2", "seed '' must be"),
        ("cards,m,18446744073709551616,2", "must be a whole number from 0 to 2**64 - 1"),
        ("card,m,0,2", "did you mean 'cards'? Allowed: galton_board_real"),
        ("cards,,0,2", "model '' must be 1 to 100 printable"),
        ("cards,\x1b[31m,0,2", "model '\\x1b[31m' must be"),
        ("cards,m,0", "has 3 fields, the header has 4"),
        ("cards,m,0,1,1", "has 5 fields"),
        ('cards,"m,0,1', "is not CSV"),
    ],
)
def test_a_bad_line_of_csv(tmp_path, line, message):
    problems = refused(tmp_path, "x.csv", HEAD + line + "\n")
    assert len(problems) == 1
    assert message in problems[0]
    assert "line 2" in problems[0]
    assert problems[0].isprintable()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        (" \n\t\n", "is empty"),
        (HEAD, "a header and no rollouts"),
        ("scene,model,seed\n", "missing: bin"),
        ("scene,model,seed,bin,bin\n", "each once"),
        ("scene,model,seed,bin,condition\n", "unknown: 'condition'; missing: none missing; give by=COLUMN"),
        ("scene,model,seed,human,vlm\n", "people's labels are given as human=PATH"),
        ("scene,model,seed,vote_1,vote_2\n", "missing: vote_3"),
        ("scene,model,seed,bin,vote_1,vote_2,vote_3\n", "unknown: 'bin'"),
        (HEAD.encode() + b"cards,m\xe9,0,1\n", "is not UTF-8: byte 0xe9 at offset 28"),
        (HEAD.encode("utf-16"), "is not UTF-8 but UTF-16"),
        (b"a" * (MAXIMUM_BYTES + 1), "larger than the limit"),
    ],
)
def test_a_bad_csv(tmp_path, content, message):
    problems = refused(tmp_path, "x.csv", content)
    assert len(problems) == 1
    assert message in problems[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "the whole: Input should be a valid dictionary"),
        ("null", "the whole"),
        ("[" * 100_000, "nested too deeply"),
        (bins([]), "rollouts: List should have at least 1 item"),
        (bins([{"seed": 0, "bin": 1}], num_bins=6), "num_bins: must be 4, got 6"),
        (bins([{"seed": 0, "bin": 5}]), "bin 5 of scene 'cards' must be from 1 to 4"),
        (bins([{"seed": 0, "bin": "1"}]), "rollouts.0.bin: Input should be a valid integer, got '1'"),
        (bins([{"seed": 0, "bin": 1.0}]), "rollouts.0.bin"),
        (bins([{"seed": 0, "bin": True}]), "rollouts.0.bin"),
        (bins([{"seed": False, "bin": 1}]), "rollouts.0.seed"),
        (bins([{"seed": -1, "bin": 1}]), "rollouts.0.seed"),
        (bins([{"seed": 0}]), "rollouts.0.bin: Field required"),
        (bins([{"seed": 0, "bin": float("nan")}]), "NaN is not a JSON number"),
        (bins([{"seed": 0, "bin": 1}, {"seed": 0, "bin": 2}]), "seed 0 of 'cards', model 'm' occurs twice"),
        (bins([{"seed": 0, "bin": 1}]).replace('"bin": 1', '"bin": 1, "bin": 2'), "key 'bin' occurs twice"),
        (bins([{"seed": 0, "bin": 1}], scene="ball", num_bins=2), "its name says otherwise"),
        (bins([{"seed": 0, "bin": 1}]).replace('"seed": 0', '"seed": ' + "9" * 5000), "is a number of 5000 digits"),
    ],
)
def test_bad_bins(tmp_path, content, message):
    problems = refused(tmp_path, "cards_m_bins.json", content)
    assert len(problems) == 1
    assert message in problems[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observation": "failed"}, "observation: Input should be"),
        ({"observation": "null_observation"}, "outcome_label 'heads' does not go with 'null_observation'"),
        ({"outcome_label": None}, "outcome_label None does not go with 'outcome'"),
        ({"failure_code": "timeout"}, "failure_code 'timeout' does not go with 'outcome'"),
        ({"observation": "infrastructure_failure", "outcome_label": None}, "failure_code None does not go"),
        ({"repeat_index": True}, "repeat_index"),
        ({"repeat_index": -1}, "repeat_index -1 must be"),
        ({"repeat_index": "1.0"}, "repeat_index '1.0' must be"),
        ({"track": "both"}, "track: Input should be"),
        ({"model_or_lane": ""}, "model_or_lane '' must be"),
        ({"sample_id": ""}, "sample_id"),
    ],
)
def test_a_bad_row(tmp_path, change, message):
    problems = refused(tmp_path, "rows.jsonl", json.dumps(ROW) + "\n" + json.dumps(ROW | change))
    assert message in " ".join(problems)
    assert all("line 2" in problem for problem in problems)


@pytest.mark.parametrize("line", ["null", "3", "[]", "{", '"x"', "NaN"])
def test_a_line_that_is_no_row_is_never_skipped(tmp_path, line):
    assert "line 2" in refused(tmp_path, "rows.jsonl", json.dumps(ROW) + "\n" + line)[0]


def test_all_problems_at_once_and_the_rest_counted(tmp_path):
    problems = refused(tmp_path, "x.csv", HEAD + "".join(f"cards,m,{seed},9\n" for seed in range(SHOWN + 7)))
    assert len(problems) == SHOWN + 1
    assert problems[-1] == "... and 7 more problems"


def test_every_bin_of_every_scene_is_accepted_and_the_next_is_not(tmp_path):
    lines = [f"{s.id},m,{i},{i + 1}\n" for s in SCENES.values() for i in range(len(s.outcomes))]
    cells = read(tmp_path, "x.csv", HEAD + "".join(lines)).cells
    assert all(cells["m", s.id].counts == [1] * len(s.outcomes) for s in SCENES.values())
    assert len(refused(tmp_path, "y.csv", HEAD + "".join(f"{s.id},m,0,{len(s.outcomes) + 1}\n" for s in SCENES.values()))) == 9


def test_three_votes_decide_and_a_null_is_a_vote(tmp_path):
    # CaliBench's rule: two of three decide, null among them; three different answers are null.
    lines = ["0,1,1,2", "1,,,3", "2,1,2,3", "3,2,,2", "4,,,", "5,1,,2", "6,4,4,4"]
    text = "scene,model,seed,vote_1,vote_2,vote_3\n" + "".join(f"cards,m,{line}\n" for line in lines)
    cell = read(tmp_path, "x.csv", text).cells["m", "cards"]
    assert cell.bins == {0: 1, 1: None, 2: None, 3: 2, 4: None, 5: None, 6: 4}
    assert (cell.counts, cell.nulls) == ([1, 1, 0, 1], 4)
    assert "bin 5 of scene 'cards'" in refused(tmp_path, "y.csv", text + "cards,m,7,1,1,5\n")[0]


def test_a_swept_setting(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("study,guidance,scene,model,seed,bin\ns,1.0,ball,m,0,1\ns,2.0,ball,m,0,\nt,1.0,ball,m,0,2\n")
    labels = read_labels(path, "guidance")
    assert not labels.cells
    assert labels.swept["s", "m", "ball"]["1.0"].counts == [1, 0]
    assert labels.swept["s", "m", "ball"]["2.0"].nulls == 1
    assert labels.swept["t", "m", "ball"]["1.0"].counts == [0, 1]
    for by, message in (("resolution", "unknown: 'guidance'; missing: resolution"), ("bin", "'bin' is another column")):
        with pytest.raises(UserError) as error:
            read_labels(path, by)
        assert message in error.value.problems[0]
    with path.open("a") as stream:
        stream.write("s,1.0,ball,m,0,1\n")
    with pytest.raises(UserError, match=r"guidance '1\.0' occurs twice"):
        read_labels(path, "guidance")
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW))
    with pytest.raises(UserError, match="states no guidance"):
        read_labels(tmp_path / "rows.jsonl", "guidance")


@pytest.mark.slow
def test_a_million_rollouts_are_read(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(HEAD + "".join(f"ball,m,{seed},{1 + seed % 2}\n" for seed in range(1_000_000)))
    assert read_labels(path).cells["m", "ball"].counts == [500_000, 500_000]
