"""Theory of a ball on a crest and on an inclined track, held against the kernel and against Pymunk."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import norm

from scenes.load import load_scene
from simulators.engines.loop import run
from simulators.rotation import Array
from simulators.sampling import BLOCK, Distribution, launch_block

CRESTS, TRACKS = ("pawbench/A-08", "pawbench/A17"), ("pawbench/A-07", "calibench/ball")


def fixed(**values: float) -> dict[str, Distribution]:
    return {name: Distribution.of({"dist": "norm", "loc": value, "scale": 0.0}) for name, value in values.items()}


def drawn(device, seed: int, n: int) -> tuple[Array, Array]:
    """Return the first n values of `release_x` [m] and `release_vx` [m/s], each (n,)."""
    blocks = [launch_block(device.random, seed, "test", number) for number in range(-(-n // BLOCK))]
    x, vx = (np.concatenate([block[name] for block in blocks])[:n] for name in ("release_x", "release_vx"))
    return x, vx


def spreads(device) -> tuple[float, float]:
    x, vx = (dict(device.random[name].parameters)["scale"] for name in ("release_x", "release_vx"))
    return x, vx


@pytest.mark.parametrize("id", CRESTS)
@pytest.mark.parametrize("integrator", ["kernel", "engine"])
def test_a_ball_leaves_the_top_as_a_solid_sphere_that_rolls(id: str, integrator: str) -> None:
    """x(t) = x0 cosh(k t), k^2 = 5 g / 7 (R + r): the inverted pendulum of length R + r, 2/5 m r^2 rolling with it.

    From 7/5 m x'' = m g x / (R + r) near the top. x0 = .02 mm; within 1 % while x is below a twentieth of R + r, where the sine
    of the angle is its argument to .04 %; at least five frames of it.
    """
    scene = load_scene(id)
    device = dataclasses.replace(scene.device, crest_rolling_friction=0.0, random=fixed(release_x=0.02e-3, release_vx=0.0))
    k = math.sqrt(5.0 * 9.81 / (7.0 * (device.tip_radius + device.ball_radius)))
    (frames,) = run(getattr(scene, integrator), device, 0, "test", [0], fps=60.0).trajectories
    x = frames.pos[:, 0, 0]
    small = (frames.time >= 0.0) & (x < 0.05 * (device.tip_radius + device.ball_radius))
    assert small.sum() >= 5
    np.testing.assert_allclose(x[small], 0.02e-3 * np.cosh(k * frames.time[small]), rtol=0.01)


def side_shares(id: str, n: int) -> list[tuple[float, float, float]]:
    """Return (offset in sd, share on the right, share of launches whose side the closed form names) for four offsets."""
    scene, rows = load_scene(id), []
    k = scene.device.instability
    sd_x, sd_v = spreads(scene.device)
    sd = math.hypot(sd_x, 5.0 / 7.0 * sd_v / k)
    for z in (0.0, 0.5, 1.0, 2.0):
        device = dataclasses.replace(scene.device, offset=z * sd)
        rollouts = run(scene.kernel, device, 11, "test", range(n))
        x, vx = drawn(device, 11, n)
        ended = rollouts.fact >= 0
        named = z * sd + x + 5.0 / 7.0 * vx / k > 0.0
        agree = float(np.mean((named == (rollouts.fact == 1))[ended]))
        rows.append((z, float(np.mean(rollouts.fact[ended] == 1)), agree))
    return rows


def check_shares(id: str, n: int) -> None:
    for z, right, agree in side_shares(id, n):
        assert agree > 0.99
        assert abs(right - norm.cdf(z)) < 4.0 * math.sqrt(0.25 / n) + 0.003


@pytest.mark.parametrize("id", CRESTS)
def test_the_side_is_the_sign_of_offset_plus_push(id: str) -> None:
    """The unstable part of the motion is x + (5/7) v / k, a push without spin keeping 5/7 of its speed once it rolls.

    (The billiard ball that slides and then rolls: Coriolis 1835.) So P(right) = Phi(offset / sd), and the same launch says its
    own side; rolling friction, which the formula leaves out, holds a fraction of a percent on the top and turns a few.
    n = 2,000, seed 11; band 4 standard errors and .003: false alarm below 1e-4 an offset.
    """
    check_shares(id, 2000)


@pytest.mark.slow
@pytest.mark.parametrize("id", CRESTS)
def test_the_side_is_the_sign_of_offset_plus_push_at_20000(id: str) -> None:
    """As above, n = 20,000."""
    check_shares(id, 20_000)


def check_stuck(n: int) -> None:
    scene = load_scene("pawbench/A-08")
    shares = []
    for arm in (2.0e-5, 4.0e-5, 8.0e-5):
        device = dataclasses.replace(scene.device, crest_rolling_friction=arm)
        x, vx = drawn(device, 12, n)
        push = 5.0 / 7.0 * vx / device.instability
        dead = arm / device.ball_radius * (device.tip_radius + device.ball_radius)
        ahead, push = np.sign(push) * x - dead, np.abs(push)  # from where friction balances the weight, along the push
        stops = dead - np.sqrt(np.maximum(ahead**2 - push**2, 0.0))
        stuck = (ahead + push <= 0.0) & (stops >= -dead)
        rollouts = run(scene.kernel, device, 12, "test", range(n))
        assert np.mean(stuck == (rollouts.null == 1)) > 0.99
        shares.append(stuck.mean())
    assert shares[0] < 0.1 < shares[1] < 0.2 < shares[2]


def test_rolling_friction_holds_what_it_must() -> None:
    """Dry rolling friction of arm f balances the weight where |x| <= (R + r) f / r.

    x'' = k^2 (x - (R + r) f/r sign(x')): a push that does not reach the far edge of that zone ends where it stops, in it or
    back down the near side. At an arm of .04 mm a tenth of all balls stay on the wedge's top. The same launch is stuck, or not,
    in both in 99 %; n = 1,000, seed 12, so that a true share of .998 fails with a probability below 1e-4.
    """
    check_stuck(1000)


@pytest.mark.slow
def test_rolling_friction_holds_what_it_must_at_20000() -> None:
    """As above, n = 20,000."""
    check_stuck(20_000)


@pytest.mark.parametrize("id", TRACKS)
@pytest.mark.parametrize("integrator", ["kernel", "engine"])
def test_a_ball_rolls_down_the_channel_with_five_sevenths_of_the_pull(id: str, integrator: str) -> None:
    """z(t) = z0 - (5/7) g sin(incline) t^2 / 2 until it meets the tip: a solid sphere that rolls down an incline (Galileo)."""
    scene = load_scene(id)
    device = dataclasses.replace(scene.device, random=fixed(release_x=0.0, release_vx=0.0))
    pull = 5.0 / 7.0 * 9.81 * math.sin(device.incline)
    way = device.release_height - device.tip_height - 1.01 * device.rail_radius - device.ball_radius
    (frames,) = run(getattr(scene, integrator), device, 0, "test", [0], fps=60.0).trajectories
    rolls = (frames.time >= 0.0) & (0.5 * pull * frames.time**2 < way)
    assert rolls.sum() >= 10
    np.testing.assert_allclose(device.release_height - frames.pos[rolls, 0, 2], 0.5 * pull * frames.time[rolls] ** 2, atol=2e-5)


def arrival(device, n: int, seed: int) -> tuple[Array, float]:
    """Return where (n,) [m] a ball that meets no rail would meet the tip, and that law's sd [m]."""
    way = device.release_height - device.tip_height - device.rail_radius - device.ball_radius
    time = math.sqrt(2.0 * way / device.pull)
    x, vx = drawn(device, seed, n)
    sd_x, sd_v = spreads(device)
    return device.offset + x + time * vx, math.hypot(sd_x, time * sd_v)


def check_track(id: str, n: int) -> None:
    scene = load_scene(id)
    dead = dataclasses.replace(scene.device, restitution=0.0, floor_restitution=0.0)
    for z in (0.0, 1.0):
        sd = arrival(dead, 1, 13)[1]
        device = dataclasses.replace(dead, offset=z * sd)
        where, _ = arrival(device, n, 13)
        rollouts = run(scene.kernel, device, 13, "test", range(n))
        ended = rollouts.fact >= 0
        assert np.mean(((where > 0.0) == (rollouts.fact == 1))[ended]) > 0.97
        right = float(np.mean(rollouts.fact[ended] == 1))
        assert abs(right - norm.cdf(z)) < 4.0 * math.sqrt(0.25 / n) + 0.015


@pytest.mark.parametrize("id", TRACKS)
def test_a_ball_that_does_not_bounce_keeps_its_side_of_the_tip(id: str) -> None:
    """Without restitution P(right) = Phi(offset / sd of the arrival at the tip).

    Friction at the tip and grazes of a rail are left out of the formula: 97 % of single launches, and .015 on the share.
    n = 500, seed 13; beyond that 4 standard errors, false alarm below 1e-4.
    """
    check_track(id, 500)


@pytest.mark.slow
@pytest.mark.parametrize("id", TRACKS)
def test_a_ball_that_does_not_bounce_keeps_its_side_of_the_tip_at_5000(id: str) -> None:
    """As above, n = 5,000."""
    check_track(id, 5000)


@pytest.mark.parametrize("id", TRACKS)
def test_bounces_at_the_tip_turn_a_misplacement_over(id: str) -> None:
    """With its restitution the ball is thrown from the tip to a rail and across: 2 mm to the right end mostly on the left.

    What makes it differ from the test above is the restitution alone. n = 2,000, seed 11: a share's standard error is below
    .0112, the bound 4 of them and more from the measured .05 (A-07) and .23 (ball).
    """
    scene = load_scene(id)
    device = dataclasses.replace(scene.device, offset=0.002)
    where, _ = arrival(device, 2000, 11)
    facts = run(scene.kernel, device, 11, "test", range(2000)).fact
    assert np.mean(where > 0.0) > 0.95
    assert np.mean(facts == 1) < 0.3
