"""A second integrator of the roulette wheel, written apart from its kernel: soft contacts, from the launch to the pocket.

It refuses to use the kernel's rim law, contact rules or distances. Contacts are springs with dashpots that give the stated
restitution; surfaces are the straight lines of a profile. Only what a state
shows, the rotor's closed form and a ball carried by a pocket are the kernel's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simulators.compiled import jit
from simulators.device import Device, Launches, Rollouts
from simulators.devices.roulette import Roulette
from simulators.engines.loop import READ_RATE
from simulators.kernels.frames import assemble, is_rest, set_up, still_since
from simulators.kernels.roulette import HELD, carry, place_rotor, read_ball, turn_by
from simulators.kernels.roulette_rim import Wheel, rotor_at


@jit
def _push(ball, force, wheel, stiff, damp, nx, ny, nz, gap, spin, h):
    """Add the force and torque a unit mass [m/s^2, rad/s^2] of one soft contact to `force` (6,)."""
    if gap >= 0.0:
        return
    b = wheel.ball
    ux, uy, uz = ball[7] + spin * ball[1], ball[8] - spin * ball[0], ball[9]
    closing = ux * nx + uy * ny + uz * nz
    normal = max(-stiff * gap - damp * closing, 0.0)
    wx, wy, wz = ball[10], ball[11], ball[12] - spin
    sx = ux - closing * nx - b * (wy * nz - wz * ny)
    sy = uy - closing * ny - b * (wz * nx - wx * nz)
    sz = uz - closing * nz - b * (wx * ny - wy * nx)
    slip = math.sqrt(sx * sx + sy * sy + sz * sz)
    # Coulomb's force, or half of what stops the slip in this step: two contacts share a ball on the rim
    drag = 0.0 if slip == 0.0 else min(wheel.friction * normal / slip, 1.0 / (7.0 * h))
    fx, fy, fz = -drag * sx, -drag * sy, -drag * sz
    force[0] += normal * nx + fx
    force[1] += normal * ny + fy
    force[2] += normal * nz + fz
    turning = math.sqrt(wx * wx + wy * wy + wz * wz)
    inertia = 0.4 * b * b
    resist = 0.0 if turning == 0.0 else min(wheel.rolling * normal / (inertia * turning), 0.5 / h)
    force[3] += -b * (ny * fz - nz * fy) / inertia - resist * wx
    force[4] += -b * (nz * fx - nx * fz) / inertia - resist * wy
    force[5] += -b * (nx * fy - ny * fx) / inertia - resist * wz


@jit
def _forces(ball, force, wheel, profile, deflectors, stiff, damp, angle, spin, h):
    """Sum the contacts with `profile` (m, 2) [m], from the turret out, and with deflectors and frets."""
    b = wheel.ball
    r = math.sqrt(ball[0] * ball[0] + ball[1] * ball[1])
    z = ball[2]
    ex, ey = ball[0] / r, ball[1] / r
    for k in range(len(profile) - 1):
        ar, az = profile[k]
        dr, dz = profile[k + 1, 0] - ar, profile[k + 1, 1] - az
        share = ((r - ar) * dr + (z - az) * dz) / (dr * dr + dz * dz)
        if share <= 0.0:
            continue  # a corner belongs to the line that ends in it
        share = min(share, 1.0)
        vr, vz = r - ar - share * dr, z - az - share * dz
        away = math.sqrt(vr * vr + vz * vz)
        if 0.0 < away < b:
            turns = spin if r - vr < wheel.seam else 0.0
            _push(ball, force, wheel, stiff, damp, vr * ex / away, vr * ey / away, vz / away, away - b, turns, h)
    for k in range(len(deflectors)):
        mx, my = 0.5 * (deflectors[k, 0, 0] + deflectors[k, 1, 0]), 0.5 * (deflectors[k, 0, 1] + deflectors[k, 1, 1])
        if (ball[0] - mx) ** 2 + (ball[1] - my) ** 2 > (wheel.deflector_reach + b) ** 2:
            continue
        axis, to = deflectors[k, 1] - deflectors[k, 0], ball[:3] - deflectors[k, 0]
        share = min(max((axis * to).sum() / (axis * axis).sum(), 0.0), 1.0)
        d = to - share * axis
        away = math.sqrt((d * d).sum())
        if 0.0 < away < b + wheel.deflector:
            gap = away - b - wheel.deflector
            _push(ball, force, wheel, stiff, damp, d[0] / away, d[1] / away, d[2] / away, gap, 0.0, h)
    if r < wheel.outer + b and z < wheel.fret_top + wheel.fret + b:
        for k in range(wheel.pockets):
            fret = angle + 2.0 * math.pi * k / wheel.pockets
            fx, fy = math.cos(fret), math.sin(fret)
            side = ball[1] * fx - ball[0] * fy
            out = ball[0] * fx + ball[1] * fy
            if abs(side) > wheel.fret + b or out < 0.0:
                continue
            do = out - min(max(out, wheel.inner), wheel.outer)
            dz = z - min(max(z, wheel.floor), wheel.fret_top)
            away = math.sqrt(do * do + side * side + dz * dz)
            if 0.0 < away < b + wheel.fret:
                nx, ny = (do * fx - side * fy) / away, (do * fy + side * fx) / away
                _push(ball, force, wheel, stiff, damp, nx, ny, dz / away, away - b - wheel.fret, spin, h)


@jit
def _run(
    wheel, profile, deflectors, stiff, damp, starts, rate, limit, reach, tolerance, times, code, first, strongest, settled,
    gone, end_time, end, frames, frame_count,
):  # fmt: skip
    per_read, h, read_step = rate // READ_RATE, 1.0 / rate, 1.0 / READ_RATE
    bodies, force, held = np.empty((2, 13)), np.empty(6), np.empty((2, 7))
    for row in range(len(starts)):
        bodies[:] = starts[row]
        rotor, ball = bodies[0], bodies[1]
        speed, since, in_pocket, frame, instant, caught = rotor[12], math.nan, 0, 0, 0, False
        while instant < limit and not (settled[row] or gone[row]):
            for step in range(instant * per_read, (instant + 1) * per_read):
                t = step * h
                angle, spin = rotor_at(wheel, speed, t)
                while frame < len(times) and times[frame] < t + 0.5 * h:
                    place_rotor(wheel, speed, t, rotor)
                    frames[row, frame] = bodies
                    frame += 1
                if caught:
                    turned, spin = rotor_at(wheel, speed, t + h)
                    carry(ball, turned - angle, spin)
                    continue
                air = wheel.drag * math.sqrt(ball[7] ** 2 + ball[8] ** 2 + ball[9] ** 2)
                force[:] = 0.0
                force[0], force[1] = wheel.gx - air * ball[7], wheel.gy - air * ball[8]
                force[2] = wheel.gz - air * ball[9]
                _forces(ball, force, wheel, profile, deflectors, stiff, damp, angle, spin, h)
                for k in range(3):
                    ball[7 + k] += h * force[k]
                    ball[10 + k] += h * force[3 + k]
                    ball[k] += h * ball[7 + k]
                turn_by(ball, h)
            instant += 1
            target = instant * read_step
            place_rotor(wheel, speed, target, rotor)
            code[row] = read_ball(wheel, bodies)
            if code[row] >= 0:
                in_pocket += 1
                caught = caught or in_pocket * read_step > HELD
                first[row] = code[row] if first[row] < 0 else first[row]
                strongest[row] = max(strongest[row], code[row])
            else:
                in_pocket = 0
            gone[row] = not (abs(ball[0]) <= wheel.far and abs(ball[1]) <= wheel.far and wheel.low <= ball[2] <= wheel.high)
            since = still_since(target, bodies, held, since, reach, tolerance)
            settled[row] = is_rest(target, since)
        end_time[row] = instant * read_step
        end[row] = bodies
        while frame < len(times) and times[frame] <= end_time[row]:
            frames[row, frame] = bodies
            frame += 1
        frame_count[row] = frame


@dataclass(frozen=True)
class CompliantRoulette:
    """Roulette with contacts of `contact_time` [s] at `steps_per_second`; `unsettled` after `time_limit` [s]."""

    steps_per_second: int
    time_limit: float
    contact_time: float = 8.0e-4

    def __post_init__(self) -> None:
        if not self.contact_time * self.steps_per_second >= 10.0:
            raise ValueError(f"`contact_time` must be at least 10 steps, got {self.contact_time!r}")

    @property
    def name(self) -> str:
        """`compliant`."""
        return "compliant"

    @property
    def version(self) -> str:
        """Changes whenever an outcome could."""
        return "1"

    def integrate(self, device: Device, launches: Launches, fps: float | None) -> Rollouts:
        """Run every row; with `fps` record it. Raises `TypeError` for a device that is no `Roulette`."""
        if not isinstance(device, Roulette):
            raise TypeError(f"{self.name} integrates a Roulette, not a {type(device).__name__}")
        wheel = Wheel.of(device)
        rise = device.floor + (device.pocket_inner - device.turret_radius) * math.tan(device.inner_slope)
        profile = np.array(
            [
                (device.turret_radius, rise + 1.0),
                (device.turret_radius, rise),
                (device.pocket_inner, device.floor),
                (device.pocket_outer, device.floor),
                (device.pocket_outer, device.cone(device.pocket_outer)),
                (device.wall_radius, device.cone(device.wall_radius)),
                (device.wall_radius, device.cone(device.wall_radius) + device.wall_height),
            ]
        )
        # A damped oscillator that half a swing throws back with the restitution: ln e = -pi zeta / sqrt(1 - zeta^2).
        swing = math.pi / self.contact_time
        loss = -math.log(max(device.restitution, 1e-3)) / self.contact_time
        stiff, damp = swing**2 + loss**2, 2.0 * loss
        starts, reach, tolerance, times, columns = set_up(device, launches, fps, self.time_limit)
        _run(
            wheel, profile, device.deflector_ends(), stiff, damp, starts, self.steps_per_second,
            round(self.time_limit * READ_RATE), reach, tolerance, times, *columns.filled(),
        )  # fmt: skip
        return assemble(device, launches, columns, fps, times)
