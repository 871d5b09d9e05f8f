"""Compiled motion of equal balls among boxes and capsules, fixed or driven: soft-sphere contacts in the manner of Cundall.

It refuses to know devices, colours and what a heap of balls may mean.
"""

from __future__ import annotations

import math

import numpy as np

from simulators.compiled import borrowing, inlined, jit
from simulators.kernels.driven_shapes import CAPSULE, nearest, pose_at, put_shape
from simulators.kernels.frames import is_rest, still_since

STIFFNESS, DAMPING, FRICTION, ROLLING = 0, 1, 2, 3  # of a contact law, the first two per reduced mass: 1/s^2, 1/s, 1, m
TANGENTIAL = 2.0 / 7.0  # of the normal stiffness and damping: a ball's surface then swings as fast as its centre
SKIN = 0.5  # ball radii: how far ahead neighbours are listed
ROUNDING = 1e-9  # m: far more than what is lost in adding up ways
GRIP_RATE = 25.0  # 1/s, of the critically damped pull that a closing hand has on its ball


@inlined
def contact(stiffness, damping, friction, mass, depth, nx, ny, nz, vx, vy, vz, stretch, row, dt):
    """Return the force on the ball that the normal n points to, and its normal part; update `stretch` (rows, 3) at `row`.

    Normal: linear spring and dashpot, never pulling. Tangential: a spring that remembers, and slides at the Coulomb limit
    (Cundall and Strack 1979). `mass` is the reduced mass, v the velocity of that ball's surface relative to the other's,
    `depth` the overlap.
    """
    vn = vx * nx + vy * ny + vz * nz
    normal = max(0.0, mass * (stiffness * depth - damping * vn))
    spring, dashpot = TANGENTIAL * mass * stiffness, TANGENTIAL * mass * damping
    vx, vy, vz = vx - vn * nx, vy - vn * ny, vz - vn * nz
    sx, sy, sz = stretch[row, 0], stretch[row, 1], stretch[row, 2]
    along = sx * nx + sy * ny + sz * nz  # the plane of contact has turned: what stuck out of it is gone
    sx, sy, sz = sx - along * nx + vx * dt, sy - along * ny + vy * dt, sz - along * nz + vz * dt
    fx, fy, fz = -spring * sx - dashpot * vx, -spring * sy - dashpot * vy, -spring * sz - dashpot * vz
    square, most = fx * fx + fy * fy + fz * fz, friction * normal
    if square > most * most:
        share = most / math.sqrt(square)
        fx, fy, fz = share * fx, share * fy, share * fz
        sx, sy, sz = -(fx + dashpot * vx) / spring, -(fy + dashpot * vy) / spring, -(fz + dashpot * vz) / spring
    stretch[row, 0], stretch[row, 1], stretch[row, 2] = sx, sy, sz
    return fx + normal * nx, fy + normal * ny, fz + normal * nz, normal


@borrowing
def list_neighbours(balls, radius, kind, size, centre, axes, driven, gone, clear, pairs, pair_count, walls, wall_count):
    """Fill for each ball the later balls `pairs` (N, N) and the fixed shapes `walls` (N, S) that are near it.

    `gone` (N,) is the way that each ball has come, and `clear` (N * S,) up to where on it a shape cannot touch it.
    """
    reach = (2.0 + SKIN) * radius
    for i in range(len(balls)):
        found = 0
        for j in range(i + 1, len(balls)):
            dx, dy, dz = balls[j, 0] - balls[i, 0], balls[j, 1] - balls[i, 1], balls[j, 2] - balls[i, 2]
            if dx * dx + dy * dy + dz * dz < reach * reach:
                pairs[i, found] = j
                found += 1
        pair_count[i] = found
        found = 0
        for s in range(len(kind)):
            row = i * len(kind) + s
            if driven[s] < 0 and clear[row] < gone[i] + SKIN * radius:
                _, _, _, away = nearest(kind, size, centre, axes, s, balls[i, 0], balls[i, 1], balls[i, 2])
                if away < (1.0 + SKIN) * radius:
                    walls[i, found] = s
                    found += 1
                else:
                    clear[row] = gone[i] + away - radius - ROUNDING
        wall_count[i] = found


@borrowing
def closest(balls, point, reach):
    """Return the ball whose centre is nearest to `point` (3,), -1 where none is within `reach`."""
    best, least = -1, reach * reach
    for i in range(len(balls)):
        square = 0.0
        for k in range(3):
            square += (balls[i, k] - point[k]) ** 2
        if square < least:
            best, least = i, square
    return best


@inlined
def turned(balls, i, dt):
    """Turn the quaternion of ball `i` by its angular velocity for `dt`."""
    x, y, z, w = balls[i, 3], balls[i, 4], balls[i, 5], balls[i, 6]
    a, b, c = 0.5 * dt * balls[i, 10], 0.5 * dt * balls[i, 11], 0.5 * dt * balls[i, 12]
    x, y, z, w = x + a * w + b * z - c * y, y + b * w + c * x - a * z, z + c * w + a * y - b * x, w - a * x - b * y - c * z
    size = math.sqrt(x * x + y * y + z * z + w * w)
    balls[i, 3], balls[i, 4], balls[i, 5], balls[i, 6] = x / size, y / size, z / size, w / size


@jit
def roll(
    balls, radius, mass, gravity, law, kind, size, offset, tilt, driven, laws, home, key_from, key_times, key_places,
    key_turns, eased, grip, dt, per_read, last, rests, tolerance, low, high, instants, frame_steps, frames,
):  # fmt: skip
    """Integrate `balls` (N, 13) in place for `last` steps, or until they rest or one leaves; return what happened.

    Shapes (S): `kind`, `size` (S, 3), pose in their body (`offset`, `tilt`), `driven` (which moved body; -1 fixed, then its
    body's pose is in `home` (S, 7)), `laws` (S, 4). Moved bodies (D): keyframes `key_from`[d] to `key_from`[d + 1], `eased`.
    `grip` (6,): step at which the hand closes (negative: never), moved body that is the hand, grip point in its axes (3),
    reach [m]. `instants` (T, N, 13) is filled every `per_read` steps, `frames` (F, N, 13) at `frame_steps`.
    Returns (steps made, instants, frames, settled, gone).
    """
    count, shapes, moved = len(balls), len(kind), len(eased)
    centre, axes = np.zeros((shapes, 3)), np.zeros((shapes, 3, 3))
    farthest = np.zeros(moved)  # of a moved body's points from its origin
    come, gone_by = np.zeros(count), np.zeros(moved)  # the ways of balls, and of the moved bodies' points at most
    clear = np.full(count * shapes, -np.inf)  # sum of both ways up to which a shape cannot touch a ball
    apart = np.full(count * count, -np.inf)  # the same of two balls
    place, turn = np.zeros((moved, 3)), np.zeros((moved, 4))
    next_place, next_turn, speed, spin = np.zeros((moved, 3)), np.zeros((moved, 4)), np.zeros((moved, 3)), np.zeros((moved, 3))
    at = np.zeros(moved, np.int64)
    put = np.zeros(moved, np.bool_)  # whether the shapes of a moved body are where it is
    pairs, pair_count = np.zeros((count, count), np.uint32), np.zeros(count, np.int64)
    walls, wall_count = np.zeros((count, shapes), np.uint32), np.zeros(count, np.int64)
    listed = np.zeros((count, 3))
    pair_stretch, wall_stretch = np.zeros((count * count, 3)), np.zeros((count * shapes, 3))
    movers = np.flatnonzero(driven >= 0).astype(np.uint32)  # unsigned: no index counts from the end
    first_of = np.flatnonzero(np.append(True, np.diff(driven[movers]) != 0)) if len(movers) else np.zeros(0, np.int64)
    group = np.append(first_of, len(movers))  # of movers, those of one body
    free = np.full((count, len(first_of)), -np.inf)  # as `clear`, for any shape of such a group
    near = np.zeros(shapes, np.uint32)
    pushes, twists, brakes = np.zeros((count, 3)), np.zeros((count, 3)), np.zeros(count)
    point = np.zeros(3)
    held, reaches = np.zeros((count, 7)), np.full(count, radius)
    since, inertia = np.nan, 0.4 * mass * radius * radius
    reading = shot = 0
    taken = -1
    settled = gone = False
    stale = True
    for s in range(shapes):
        if kind[s] == CAPSULE:
            reach = size[s, 0] + size[s, 2]
        else:
            reach = math.sqrt(size[s, 0] ** 2 + size[s, 1] ** 2 + size[s, 2] ** 2)
        reach += math.sqrt(offset[s, 0] ** 2 + offset[s, 1] ** 2 + offset[s, 2] ** 2)
        if driven[s] >= 0:
            farthest[driven[s]] = max(farthest[driven[s]], reach)
        if driven[s] < 0:
            put_shape(s, s, home[:, :3], home[:, 3:], offset, tilt, centre, axes)
    for d in range(moved):
        a, b = key_from[d], key_from[d + 1] - 1
        at[d] = pose_at(0.0, a, a, b, key_times, key_places, key_turns, eased[d], d, next_place, next_turn)
    while shot < len(frame_steps) and frame_steps[shot] <= 0:
        frames[shot] = balls
        shot += 1
    step = 0
    while step < last:
        time = (step + 1) * dt
        for d in range(moved):
            a, b = key_from[d], key_from[d + 1] - 1
            if put[d] and (time < key_times[a] or at[d] == b):
                continue  # it waits, or has arrived: it is where it was
            for k in range(3):
                place[d, k] = next_place[d, k]
            for k in range(4):
                turn[d, k] = next_turn[d, k]
            if not put[d]:
                for mover in movers:
                    if driven[mover] == d:
                        put_shape(d, mover, place, turn, offset, tilt, centre, axes)
            at[d] = pose_at(time, at[d], a, b, key_times, key_places, key_turns, eased[d], d, next_place, next_turn)
            put[d] = True
            for k in range(3):
                put[d] &= next_place[d, k] == place[d, k]
                speed[d, k] = (next_place[d, k] - place[d, k]) / dt
            for k in range(4):
                put[d] &= next_turn[d, k] == turn[d, k]
            # the rotation from `turn` to `next_turn`, small: 2 vec(next * conj(turn)) / dt
            ax, ay, az, aw = next_turn[d, 0], next_turn[d, 1], next_turn[d, 2], next_turn[d, 3]
            bx, by, bz, bw = -turn[d, 0], -turn[d, 1], -turn[d, 2], turn[d, 3]
            w = aw * bw - ax * bx - ay * by - az * bz
            rate = 2.0 / dt if w >= 0.0 else -2.0 / dt
            spin[d, 0] = rate * (aw * bx + bw * ax + ay * bz - az * by)
            spin[d, 1] = rate * (aw * by + bw * ay + az * bx - ax * bz)
            spin[d, 2] = rate * (aw * bz + bw * az + ax * by - ay * bx)
        for i in range(count):
            dx, dy, dz = balls[i, 0] - listed[i, 0], balls[i, 1] - listed[i, 1], balls[i, 2] - listed[i, 2]
            if dx * dx + dy * dy + dz * dz > 0.24 * SKIN * SKIN * radius * radius:  # just under half the skin
                stale = True
        if stale:
            list_neighbours(balls, radius, kind, size, centre, axes, driven, come, clear, pairs, pair_count, walls, wall_count)
            listed[:] = balls[:, :3]
            stale = False
        for i in range(count):
            brakes[i] = 0.0
            for k in range(3):
                pushes[i, k] = twists[i, k] = 0.0
        for i in range(count):
            x, y, z = balls[i, 0], balls[i, 1], balls[i, 2]
            ux, uy, uz = balls[i, 7], balls[i, 8], balls[i, 9]
            ox, oy, oz = radius * balls[i, 10], radius * balls[i, 11], radius * balls[i, 12]
            sum_x = sum_y = sum_z = twist_x = twist_y = twist_z = 0.0
            for entry in range(pair_count[i]):
                j = pairs[i, entry]
                row = i * count + j
                if come[i] + come[j] < apart[row]:
                    continue
                dx, dy, dz = x - balls[j, 0], y - balls[j, 1], z - balls[j, 2]
                square = dx * dx + dy * dy + dz * dz
                if square >= 4.0 * radius * radius:
                    apart[row] = come[i] + come[j] + math.sqrt(square) - 2.0 * radius - ROUNDING
                    pair_stretch[row, 0] = pair_stretch[row, 1] = pair_stretch[row, 2] = 0.0
                    continue
                distance = math.sqrt(square)
                nx, ny, nz = dx / distance, dy / distance, dz / distance
                # surfaces: v_i - v_j - r (omega_i + omega_j) x n
                ax, ay, az = ox + radius * balls[j, 10], oy + radius * balls[j, 11], oz + radius * balls[j, 12]
                vx = ux - balls[j, 7] - (ay * nz - az * ny)
                vy = uy - balls[j, 8] - (az * nx - ax * nz)
                vz = uz - balls[j, 9] - (ax * ny - ay * nx)
                fx, fy, fz, normal = contact(
                    law[STIFFNESS], law[DAMPING], law[FRICTION], 0.5 * mass, 2.0 * radius - distance, nx, ny, nz, vx, vy, vz,
                    pair_stretch, row, dt,
                )  # fmt: skip
                brakes[i] += law[ROLLING] * normal
                brakes[j] += law[ROLLING] * normal
                tx, ty, tz = ny * fz - nz * fy, nz * fx - nx * fz, nx * fy - ny * fx
                sum_x, sum_y, sum_z = sum_x + fx, sum_y + fy, sum_z + fz
                twist_x, twist_y, twist_z = twist_x - tx, twist_y - ty, twist_z - tz
                pushes[j, 0], pushes[j, 1], pushes[j, 2] = pushes[j, 0] - fx, pushes[j, 1] - fy, pushes[j, 2] - fz
                twists[j, 0], twists[j, 1], twists[j, 2] = twists[j, 0] - tx, twists[j, 1] - ty, twists[j, 2] - tz
            found = 0
            for entry in range(wall_count[i]):
                if come[i] >= clear[i * shapes + walls[i, entry]]:
                    near[found] = walls[i, entry]
                    found += 1
            for g in range(len(first_of)):
                way = come[i] + gone_by[driven[movers[group[g]]]]
                if way >= free[i, g]:
                    free[i, g] = np.inf
                    for entry in range(group[g], group[g + 1]):
                        until = clear[i * shapes + movers[entry]]
                        free[i, g] = min(free[i, g], until)
                        if way >= until:
                            near[found] = movers[entry]
                            found += 1
            for entry in range(found):
                s = near[entry]
                row = i * shapes + s
                nx, ny, nz, away = nearest(kind, size, centre, axes, s, x, y, z)
                clear[row] = come[i] + away - radius - ROUNDING
                if driven[s] >= 0:
                    clear[row] += gone_by[driven[s]]
                if away >= radius:
                    wall_stretch[row, 0] = wall_stretch[row, 1] = wall_stretch[row, 2] = 0.0
                    continue
                vx, vy, vz = ux - (oy * nz - oz * ny), uy - (oz * nx - ox * nz), uz - (ox * ny - oy * nx)
                d = driven[s]
                if i == taken and d == int(grip[1]):
                    continue  # what the hand holds is between its fingers
                if d >= 0:
                    ax, ay, az = x - away * nx - place[d, 0], y - away * ny - place[d, 1], z - away * nz - place[d, 2]
                    vx -= speed[d, 0] + spin[d, 1] * az - spin[d, 2] * ay
                    vy -= speed[d, 1] + spin[d, 2] * ax - spin[d, 0] * az
                    vz -= speed[d, 2] + spin[d, 0] * ay - spin[d, 1] * ax
                fx, fy, fz, normal = contact(
                    laws[s, STIFFNESS], laws[s, DAMPING], laws[s, FRICTION], mass, radius - away, nx, ny, nz, vx, vy, vz,
                    wall_stretch, row, dt,
                )  # fmt: skip
                brakes[i] += laws[s, ROLLING] * normal
                sum_x, sum_y, sum_z = sum_x + fx, sum_y + fy, sum_z + fz
                twist_x, twist_y, twist_z = (
                    twist_x - (ny * fz - nz * fy), twist_y - (nz * fx - nx * fz), twist_z - (nx * fy - ny * fx),
                )  # fmt: skip
            pushes[i, 0], pushes[i, 1], pushes[i, 2] = pushes[i, 0] + sum_x, pushes[i, 1] + sum_y, pushes[i, 2] + sum_z
            twists[i, 0], twists[i, 1], twists[i, 2] = twists[i, 0] + twist_x, twists[i, 1] + twist_y, twists[i, 2] + twist_z
        if 0.0 <= grip[0] <= step:
            d = int(grip[1])
            for k in range(3):
                point[k] = place[d, k] + grip[2 + k]
            if step == grip[0]:
                taken = closest(balls, point, grip[5])
            if taken >= 0:
                for k in range(3):
                    pull = GRIP_RATE**2 * (point[k] - balls[taken, k]) + 2.0 * GRIP_RATE * (speed[d, k] - balls[taken, 7 + k])
                    pushes[taken, k] += mass * pull
                    twists[taken, k] -= 2.0 * GRIP_RATE * inertia / radius * balls[taken, 10 + k]
                pushes[taken, 2] += mass * gravity
        for d in range(moved):
            if not put[d]:
                pace = math.sqrt(speed[d, 0] ** 2 + speed[d, 1] ** 2 + speed[d, 2] ** 2)
                turning = math.sqrt(spin[d, 0] ** 2 + spin[d, 1] ** 2 + spin[d, 2] ** 2)
                gone_by[d] += (pace + turning * farthest[d]) * dt
        for i in range(count):
            balls[i, 9] -= gravity * dt
            for k in range(3):
                balls[i, 7 + k] += pushes[i, k] / mass * dt
                balls[i, 10 + k] += radius * twists[i, k] / inertia * dt
                balls[i, k] += balls[i, 7 + k] * dt
            come[i] += math.sqrt(balls[i, 7] ** 2 + balls[i, 8] ** 2 + balls[i, 9] ** 2) * dt
            spinning = math.sqrt(balls[i, 10] ** 2 + balls[i, 11] ** 2 + balls[i, 12] ** 2)
            if spinning > 0.0 and brakes[i] > 0.0:  # rolling friction slows any turning and reverses none
                kept = max(0.0, 1.0 - brakes[i] / inertia * dt / spinning)
                for k in range(3):
                    balls[i, 10 + k] *= kept
            turned(balls, i, dt)
        step += 1
        while shot < len(frame_steps) and frame_steps[shot] <= step:
            frames[shot] = balls
            shot += 1
        if step % per_read == 0 or step == last:
            instants[reading] = balls
            reading += 1
            for i in range(count):
                for k in range(3):
                    gone |= not (low[k] <= balls[i, k] <= high[k])
            if rests:
                time = step * dt
                since = still_since(time, balls, held, since, reaches, tolerance)
                settled = is_rest(time, since)
            if gone or settled:
                break
    return step, reading, shot, settled, gone
