"""Damaged clips: each loses or breaks what it says, and nothing else; what is hidden cannot be told from its pixels."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from refcheck import clips, damage, faults
from refcheck.control_clips import Like, Recipe, Wish, make, swept
from refcheck.damage import KINDS, Damager, decided_at
from refcheck.faults import NotApplicable, motion
from refcheck.filming import Film, Filming
from scenes.load import load_scene
from simulators.engines.loop import run
from simulators.video import clip_info, read_clip, write_clip

SMALL = ("scene.camera.width=208", "scene.camera.height=120")
FPS = 16.0
SIDES = {"left": 0, "right": 1}


@pytest.fixture(scope="module")
def board():
    """A ball at a fork: small pictures, real physics; the first rollout of each side."""
    scene = load_scene("calibench/ball", SMALL)
    rollouts = run(scene.integrator, scene.device, 0, scene.stream, range(32))
    index = [int(np.flatnonzero(rollouts.fact == side)[0]) for side in (0, 1)]
    pair = run(scene.integrator, scene.device, 0, scene.stream, index, fps=FPS)
    return scene, Damager(scene, Film(), 0), pair


def frames(board, kind, side=0):
    _, damager, pair = board
    return list(damager.frames(kind, int(pair.index[side]), pair.trajectories[side]))


def clean(board, side=0):
    scene, _, pair = board
    return list(Filming(scene, Film(), 0).frames(int(pair.index[side]), pair.trajectories[side]))


def apart(a, b):
    return np.abs(a.astype(int) - b).max(axis=-1)


def test_the_two_sides_are_told_apart_by_a_clean_end(board):
    assert apart(clean(board, 0)[-1], clean(board, 1)[-1]).max() > 100


@pytest.mark.parametrize("kind", ["blur", "low_resolution", "compression", "occlusion", "crop"])
def test_the_end_of_an_unreadable_clip_says_nothing_of_its_side(board, kind):
    """After what x264 leaves: at most 12 levels (that of noise which the codec makes), a tenth of a clean difference."""
    assert apart(frames(board, kind, 0)[-1], frames(board, kind, 1)[-1]).max() <= 12


@pytest.mark.parametrize("kind", ["occlusion", "crop"])
def test_no_frame_of_a_hidden_clip_shows_which_way_it_went(board, kind):
    """Wherever the ball is after a third of the way, the picture is that of any other rollout."""
    scene, _, pair = board
    late = max(decided_at(scene, trajectory) for trajectory in pair.trajectories)
    late = motion(pair.trajectories[0])[0] + (late - motion(pair.trajectories[0])[0]) // 2
    for left, right in zip(frames(board, kind, 0)[late:], frames(board, kind, 1)[late:], strict=False):
        assert apart(left, right).max() <= 12


@pytest.mark.parametrize("kind", ["early_cut", "frozen_start"])
def test_a_clip_that_ends_early_ends_before_anything_is_decided(board, kind):
    scene, _, pair = board
    shown = frames(board, kind)
    row = decided_at(scene, pair.trajectories[0])
    first, _ = motion(pair.trajectories[0])
    assert scene.device.read(pair.trajectories[0])[row] == 0 > scene.device.read(pair.trajectories[0])[row - 1]
    last = first + max(1, int(damage.EARLY * (row - first)))
    assert np.array_equal(shown[-1], clean(board)[last])
    if kind == "frozen_start":
        assert all(np.array_equal(frame, shown[0]) for frame in shown[:24]) and len(shown) >= 49


@pytest.mark.parametrize("kind", ["teleport", "duplicate", "vanish", "repaint"])
def test_a_broken_clip_is_whole_before_and_after_its_fault(board, kind):
    broken, whole = frames(board, kind), clean(board)
    wrong = [number for number, (a, b) in enumerate(zip(broken, whole, strict=True)) if apart(a, b).max() > 0]
    first, last = motion(board[2].trajectories[0])
    assert len(wrong) >= damage.BROKEN_ROWS and first < wrong[0] and wrong[-1] <= last
    assert wrong == list(range(wrong[0], wrong[-1] + 1))


def balls(board, picture):
    """Return how many balls a picture shows, by what is new in it beside the moved gate (which is red)."""
    from scipy.ndimage import label

    background = clean(board)[0]
    new = apart(picture, background) > 60
    red = (picture[..., 0].astype(int) - picture[..., 2] > 40) | (background[..., 0].astype(int) - background[..., 2] > 40)
    _, count = label(new & ~red)
    return count


def test_teleport_duplicate_and_vanish_are_what_they_say(board):
    middle = (motion(board[2].trajectories[0])[0] + motion(board[2].trajectories[0])[1]) // 2
    whole = balls(board, clean(board)[middle])
    assert balls(board, frames(board, "vanish")[middle]) == whole - 1
    assert balls(board, frames(board, "duplicate")[middle]) == whole + 1
    assert balls(board, frames(board, "teleport")[middle]) == whole


def test_energy_gain_goes_back_up_and_ends_where_it_did(board):
    trajectory = board[2].trajectories[0]
    first, last = motion(trajectory)
    again = faults.backwards(trajectory, first, last, FPS)
    ball = board[0].device.world().loose[0]
    z = again.pos[:, ball, 2]
    assert np.diff(z).max() > 0.01 and trajectory.pos[last, ball, 2] < trajectory.pos[first, ball, 2]
    assert np.array_equal(again.pos[-1], trajectory.pos[-1])
    assert np.array_equal(frames(board, "energy_gain")[-1], clean(board)[-1])


def test_no_action_is_the_source_image_and_drift_moves_it(board):
    drifted, whole = frames(board, "drift"), clean(board)
    assert all(np.array_equal(frame, whole[0]) for frame in frames(board, "no_action"))
    shift = round(damage.DRIFT * whole[0].shape[1])
    assert np.array_equal(drifted[0], whole[0])
    assert apart(drifted[-1][:, shift + 1 :], whole[-1][:, 1:-shift]).mean() < 8


def test_only_bodies_that_are_alike_change_places(board):
    with pytest.raises(NotApplicable, match="alike in shape"):
        frames(board, "swap")
    world = load_scene("pawbench/A-13").device.world()
    for one in world.loose:
        other = world.moving[faults.like(world, one)]
        assert [p.shape for p in other.parts] == [p.shape for p in world.moving[one].parts]
        assert [p.material for p in other.parts] != [p.material for p in world.moving[one].parts]


def test_who_walks_takes_both_legs_along_and_a_ball_does_not_take_the_wheel():
    for id, expected in (("calibench/walking", 3), ("calibench/roulette", 1), ("calibench/dice", 1)):
        scene = load_scene(id)
        (trajectory,) = run(scene.integrator, scene.device, 0, scene.stream, [0], fps=4.0).trajectories
        most = faults.protagonist(scene.device.world(), scene.camera.project(trajectory.pos), trajectory)
        assert len(faults.companions(scene.device.world(), most, trajectory)) == expected


def test_sectors_are_repainted_where_there_are_some():
    world = load_scene("pawbench/A-03").device.world()
    new = faults.repainted(world, world.loose[0])
    before, after = ([p.material.sectors for b in w.bodies for p in b.parts if p.material.sectors] for w in (world, new))
    assert before and [[s.color for s in some] for some in after] == [[s.color for s in (*x[1:], x[0])] for x in before]
    assert [[s.share for s in some] for some in after] == [[s.share for s in some] for some in before]


def test_every_way_of_damage_has_its_truth():
    for kind in KINDS.values():
        assert bool(kind.axis) == (kind.family == "broken")
        assert (damage.truth_null(kind.name) == "") == (kind.family == "broken" and kind.name != "no_action")
    assert damage.truth_null("stuck") == "out_of_schema" and damage.truth_null("on_edge") == "unreadable"


def test_real_null_rollouts_are_found_and_not_made():
    """Coins on their edge and dice that left: every one found ended so, and they are the first that did."""
    scene = load_scene("calibench/dice")
    found = clips.find_nulls(scene, 0, 2, limit=600)
    whole = run(scene.integrator, scene.device, 0, scene.stream, range(600))
    assert len(found) and set(found.null.tolist()) == set(whole.null[whole.null > 0].tolist())
    for code in set(found.null.tolist()):
        assert found.index[found.null == code].tolist() == np.flatnonzero(whole.null == code)[:2].tolist()


def test_clips_are_made_like_a_model_s(toy_conf, tmp_path):
    """Size, number and rate of frames, codec, and the bit rate within a factor of 2, which so short a clip allows."""
    scene = load_scene("toy/wedge", SMALL)
    rng = np.random.default_rng(0)
    noisy = [np.clip(128 + rng.normal(0, 40, (90, 160, 3)), 0, 255).astype(np.uint8) for _ in range(33)]
    write_clip(tmp_path / "model.mp4", noisy, 12.0, 30)
    like = Like.of(tmp_path / "model.mp4")
    assert (like.width, like.height, like.frames, like.fps, like.codec) == (160, 90, 33, 12.0, "h264")
    rollouts = run(scene.engine, scene.device, 0, scene.stream, range(1))
    wish = Wish(0, (int(rollouts.fact[0]), 0), "left")
    for codec in ("h264", "mpeg4"):
        recipe = Recipe(like=dataclasses.replace(like, codec=codec, bitrate=60e3))
        (control,), _ = make(scene, 0, [wish], tmp_path / codec, recipe)
        info = clip_info(control.path)
        assert (info.width, info.height, info.frames, info.fps, info.codec) == (160, 90, 33, 12.0, codec)
        assert control.path.stat().st_size * 8 * 12 / 33 < 2 * 60e3


def test_sweeps_change_one_thing(toy_conf, tmp_path):
    scene = load_scene("toy/wedge", SMALL)
    rollouts = run(scene.engine, scene.device, 0, scene.stream, range(1))
    wish, sizes = Wish(0, (int(rollouts.fact[0]), 0), "left"), {}
    for sweep, value in (("fps", 8.0), ("duration", 81), ("resolution", 104), ("compression", 44)):
        (control,), _ = make(scene, 0, [wish], tmp_path / sweep, swept(Recipe(), sweep, value))
        info = clip_info(control.path)
        sizes[sweep] = info.width, info.height, info.frames, info.fps
    assert sizes["fps"] == (208, 120, 49, 8.0) and sizes["duration"] == (208, 120, 81, 16.0)
    assert sizes["resolution"] == (104, 60, 49, 16.0) and sizes["compression"] == (208, 120, 49, 16.0)


def test_sparse_clips_show_opening_and_end(toy_conf, tmp_path):
    scene = load_scene("toy/wedge", SMALL)
    rollouts = run(scene.engine, scene.device, 0, scene.stream, range(1))
    wish = Wish(0, (int(rollouts.fact[0]), 0), "left")
    (whole,), _ = make(scene, 0, [wish], tmp_path / "whole", Recipe(crf=0))
    (sparse,), _ = make(scene, 0, [wish], tmp_path / "sparse", Recipe(crf=0, sparse=8))
    a, b = list(read_clip(whole.path)), list(read_clip(sparse.path))
    assert len(b) < len(a) / 4 and apart(a[0], b[0]).max() <= 3 and apart(a[-1], b[-1]).max() <= 3
    assert apart(b[-1], b[-3]).max() <= 3, "the end is held"
    (long,), _ = make(scene, 0, [wish], tmp_path / "long", Recipe(Film(frames=2), crf=0, sparse=8))
    c = list(read_clip(long.path))
    assert len(c) >= 4 and apart(c[-1], c[-3]).max() <= 3 < apart(c[0], c[-1]).max(), "however short the film asked for is"
