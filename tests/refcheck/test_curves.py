"""Scores against K: what a subsample's mean must be, passing scenes fixed, and every refusal by its message."""

import pytest
from scoring import CSV, answer, drawn, policy_of, rows_of, write

from refcheck.command import UserError
from refcheck.curves import sizes_of


def test_at_full_k_nothing_is_left_to_chance():
    answered = answer(data=CSV, budget="32,8")
    points = {entry["model"]: {point["size"]: point for point in entry["points"]} for entry in answered.result["budget"]}
    for model, held in points.items():
        cells = answered.result["models"][model]["cells"].values()
        observed = [cell["tv"] for cell in cells if cell["tv"] is not None]
        assert held[32]["mean"] == pytest.approx(sum(observed) / len(observed))
        assert held[32]["low"] == pytest.approx(held[32]["high"])
        assert held[8]["floor"] > held[32]["floor"] and held[8]["mean"] > held[32]["mean"]
    assert "Mean TVD against the number of rollouts K" in drawn(answered.tables)


def test_one_rollout_of_a_fair_coin_is_always_half_off(tmp_path):
    policy = policy_of()
    rows = rows_of(policy, lambda scene, repeat: None if scene == "A-00" and repeat >= 19 else "ab"[repeat % 2])
    (entry,) = answer(**write(tmp_path, policy, rows), budget="1").result["budget"]
    assert (entry["protocol"], entry["scenes"]) == ("pawbench", 24)  # A-00 fails at full K
    assert entry["points"][0]["mean"] == entry["points"][0]["floor"] == pytest.approx(0.5)


def test_coupled_rollouts_are_taken_by_whole_groups(tmp_path):
    policy = policy_of()
    files = write(tmp_path, policy, rows_of(policy, lambda scene, repeat: "ab"[repeat // 5 % 2]))
    (entry,) = answer(**files, budget="5", sampling="coupled").result["budget"]
    assert (entry["points"][0]["mean"], entry["points"][0]["floor"]) == (pytest.approx(0.5), None)
    with pytest.raises(UserError, match="K must be whole groups"):
        answer(**files, budget="7", sampling="coupled")


def test_what_is_refused():
    with pytest.raises(UserError, match="has 32 rollouts of a scene; K is at most that"):
        answer(data=CSV, budget="33")
    for words in ("", "a", "0", "1,,2", "-1", "1.5", "٣"):
        with pytest.raises(UserError, match="must be whole numbers of at least 1"):
            sizes_of(words)
    assert sizes_of("[20, 10,10]") == [10, 20]
