"""The human panel: CaliBench's published check, PAWBench's rules on hand-made votes, reliability against textbook figures."""

from math import isnan
from pathlib import Path

import pytest
from scoring import CSV, answer, drawn

import refcheck
from refcheck.command import UserError
from refcheck.judges.human import CANNOT_TELL, NULL, Clip, agreement, decisive, read_panel, stratum

LABELS = Path(refcheck.__file__).parent / "data" / "calibench_human_labels.csv"


def test_the_published_human_check():
    answered = answer(human=LABELS)
    human = answered.result["human"]
    assert (human["clips"], human["decisive"], human["agree"]) == (91, 91, 88)
    assert (human["false_null"], human["panel_outcomes"]) == (3, 73)
    assert (human["missed_null"], human["wrong_label"]) == (0, 0)
    assert (human["comparable"], human["comparable_agree"]) == (70, 70)
    assert human["krippendorff_alpha"] is None  # one labeller
    assert "88 of 91" in drawn(answered.tables)
    assert answer(human=LABELS, data=CSV).result["human"] == human
    with pytest.raises(UserError, match="give data="):
        answer()


@pytest.mark.parametrize(
    ("votes", "label"),
    [
        ("aaab", "a"),
        ("aabb", None),  # no unique mode
        ("aa??b", None),
        ("a???", None),  # the mode is "cannot tell"
        ("aab????", None),
        ("aaa??bb", "a"),
        ("a", "a"),
        ("", None),
    ],
)
def test_decisive_is_a_unique_mode_other_than_cannot_tell(votes, label):
    assert decisive([CANNOT_TELL if vote == "?" else vote for vote in votes]) == label


def test_strata_are_by_votes_for_the_label():
    assert [stratum("a" * n + "b" * (7 - n)) for n in (4, 5, 6, 7)] == ["3 to 4", "5", "6 to 7", "6 to 7"]
    assert [stratum(votes) for votes in ("aab", "aaabbcc", "a" * 9)] == ["1 to 2", "3 to 4", "9"]


def test_a_panel_by_hand(tmp_path):
    lines = [
        ("x,m,0,a", "aaaaaaa"),  # 7 votes, agree
        ("x,m,1,b", "aaaaabb"),  # 5 votes, wrong label
        ("x,m,2,a", "aaabbcc"),  # 3 votes, agree
        ("x,m,3,", "bbbbbb"),  # false null; one vote not cast
        ("x,m,4,a", "aabbccd"),  # not decisive
        ("x,m,5,a", "????abc"),  # cannot tell: not decisive
    ]
    text = "scene,model,seed,vlm," + ",".join(f"human_{i}" for i in range(1, 8)) + "\n"
    for key, votes in lines:
        cast = [CANNOT_TELL if vote == "?" else vote for vote in votes] + [""] * (7 - len(votes))
        text += f"{key},{','.join(cast)}\n"
    (tmp_path / "panel.csv").write_text(text)
    answered = answer(human=tmp_path / "panel.csv")
    human = answered.result["human"]
    assert (human["clips"], human["votes"], human["decisive"], human["agree"]) == (6, 41, 4, 2)
    assert (human["false_null"], human["missed_null"], human["wrong_label"]) == (1, 0, 1)
    assert (human["comparable"], human["comparable_agree"]) == (3, 2)
    assert human["strata"] == {
        "3 to 4": {"comparable": 1, "agree": 1},
        "5": {"comparable": 1, "agree": 0},
        "6 to 7": {"comparable": 1, "agree": 1},
    }
    assert "2 of 3 comparable" in " ".join(drawn(answered.tables).split())


def test_kappa_of_a_textbook_table():
    # Cohen's kappa of the table [[20, 5], [10, 15]]: observed .70, by chance .50, kappa .40.
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    result = agreement([Clip(str(i), (human,), judge) for i, (human, judge) in enumerate(pairs)])
    assert result["cohen_kappa"] == pytest.approx(0.4)
    assert isnan(agreement([Clip("0", ("y",), "y")])["cohen_kappa"])


def test_alpha_of_krippendorffs_own_example():
    # Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", data C, nominal: alpha = .743.
    votes = ["111", "2232", "3333", "3333", "2222", "1234", "4444", "1121", "2222", "555", "11", "3"]
    result = agreement([Clip(str(i), tuple(cast), "1") for i, cast in enumerate(votes)])
    assert result["krippendorff_alpha"] == pytest.approx(0.743, abs=5e-4)


def test_a_null_is_a_label_for_one_labeller(tmp_path):
    (tmp_path / "x.csv").write_text("scene,model,seed,human,vlm\nball,m,0,,\nball,m,1,,left\nball,m,2,left,right\n")
    clips = read_panel(tmp_path / "x.csv")
    assert clips[0] == Clip("ball/m/0", (NULL,), NULL)
    result = agreement(clips)
    assert (result["agree"], result["missed_null"], result["wrong_label"], result["false_null"]) == (1, 1, 1, 0)


HEAD = "scene,model,seed,human,vlm\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (HEAD, "has a header and no clips"),
        ("scene,model,seed,vlm\nball,m,0,left\n", "either human or human_1"),
        ("scene,model,seed,human,human_1,vlm\n", "either human or human_1"),
        ("scene,model,seed,human,human,vlm\n", "either human or human_1"),
        (HEAD + "ball,m,0,left\n", "has 4 fields, the header has 5"),
        (HEAD + "ball,m,0,left,left\nball,m,0,left,left\n", "occurs twice, first in line 2"),
        (HEAD + "ball,,0,left,left\n", "must all be given"),
        ("scene,model,seed,human_1,human_2,vlm\nball,m,0,,,left\n", "has no vote"),
        (HEAD + '"ball,m', "is not CSV"),
    ],
)
def test_a_bad_panel(tmp_path, text, message):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(UserError) as error:
        read_panel(tmp_path / "x.csv")
    assert message in error.value.problems[0]
