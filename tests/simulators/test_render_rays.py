"""Where rays meet shapes and what shadows them, against slow tests written here: inside or outside, every ray at everything."""

import numpy as np
import pytest
from test_render import WORLDS, tabletop
from test_render_marks import BOWL

from simulators.render.canvas import nominal_state
from simulators.render.primitives import rows_of
from simulators.render.raster import RasterCanvas, disc_directions
from simulators.render.raster_shadow import ALL, NONE, casters_of, hides, leaves, lit, may_shadow
from simulators.render.raster_shapes import cast, normals
from simulators.world import Box, Capsule, Cylinder, Lathe, Light, Part, Sphere

SOLIDS = [
    Box((2, 1.2, 0.8), 0.2),
    Box((2, 1.2, 0.8)),
    Cylinder(0.9, 0.6, 0.2),
    Cylinder(0.9, 0.6),
    Capsule(0.4, 1.0),
    Sphere(0.7),
]


@pytest.mark.parametrize("shape", SOLIDS)
def test_rays_end_on_the_first_surface(shape):
    """Against inside/outside tests written here: no sampled place before the hit is inside, and just behind it is."""
    [(kinds, row, _)] = rows_of(Part(shape))
    row[3:12] = np.eye(3).ravel()
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(2000):
        origin, aim = rng.normal(size=3) * 3.0, rng.uniform(-0.9, 0.9, 3)
        if inside(shape, origin):
            continue
        way = (aim - origin) / np.linalg.norm(aim - origin)
        t = cast(np.array([kinds]), row[None], 0, *origin, *way)
        limit = t if np.isfinite(t) else 12.0
        on_the_way = origin + np.linspace(0.0, limit - 1e-7, 1500)[:, None] * way
        assert not np.any(inside(shape, on_the_way))
        if np.isfinite(t):
            hits += 1
            # a grazing ray is in for an instant only: look for it there
            just_in = origin + (t + np.geomspace(1e-8, 2e-2, 60))[:, None] * way
            assert np.any(inside(shape, just_in, slack=1e-7))
    assert hits > 400


def inside(shape, place, slack=0.0):
    p = np.abs(np.asarray(place))
    if isinstance(shape, Sphere):
        return np.linalg.norm(p, axis=-1) < shape.radius + slack
    if isinstance(shape, Capsule):
        q = p * (1, 1, 0) + np.maximum(p - shape.length / 2, 0) * (0, 0, 1)
        return np.linalg.norm(q, axis=-1) < shape.radius + slack
    if isinstance(shape, Box):
        beyond = p - (np.array(shape.size) / 2 - shape.fillet)
    else:
        rho = np.hypot(p[..., 0], p[..., 1]) - (shape.radius - shape.fillet)
        beyond = np.stack([rho, p[..., 2] - (shape.length / 2 - shape.fillet)], axis=-1)
    return np.linalg.norm(np.maximum(beyond, 0), axis=-1) + np.minimum(beyond.max(axis=-1), 0) < shape.fillet + slack


def test_the_share_of_light_equals_casting_every_ray_at_everything():
    """The bounds that spare shadow rays must spare none that hits."""
    canvas = RasterCanvas(*WORLDS["raster"], Light(softness=0.15))
    scene = canvas._posed(nominal_state(tabletop()), 0)
    kinds, prims, fixed = scene.kinds, scene.prims, len(canvas._fixed.groups)
    rng = np.random.default_rng(4)
    partly, points = 0, np.zeros((4, 3))

    def seen(first: int, last: int, middle: np.ndarray, slack: float) -> float:
        return lit(
            kinds, prims, scene.groups, fixed, -1, -1, canvas._light, canvas._directions, points, first, last, *middle, slack,
            np.array([-1.0, 0.0]),
        )  # fmt: skip

    for point in rng.uniform((-0.12, -0.12, 1e-4), (0.12, 0.12, 0.05), (3000, 3)):
        points[:] = point + rng.uniform(-0.002, 0.002, (4, 3))
        points[1] = point
        directions = canvas._directions[1]
        hits = [np.isfinite([cast(kinds, prims, i, *point, *d) for d in directions]) for i in range(len(prims))]
        share = 1.0 - np.any(hits, axis=0).mean()
        assert seen(1, 2, point, 0.0) == pytest.approx(share)
        apart = [seen(k, k + 1, points[k], 0.0) for k in range(4)]
        assert seen(0, 4, point, 0.0035) == pytest.approx(np.mean(apart))  # within sqrt(3) * 2 mm
        for i, hit in enumerate(hits):
            assert may_shadow(prims, i, canvas._light, *point, 0.0) or not hit.any()
        partly += 0 < share < 1
    assert partly > 50


@pytest.mark.parametrize("shape", SOLIDS)
def test_what_is_told_of_all_rays_at_once_each_of_them_says_too(shape):
    """From four places near a point: a solid said to hide all of the light is met by every ray, one to hide none by none."""
    [(kind, row, _)] = rows_of(Part(shape))
    turned = np.linalg.qr(np.random.default_rng(12).normal(size=(3, 3)))[0]
    row[3:12] = turned.ravel()
    kinds, prims, rng = np.array([kind]), row[None], np.random.default_rng(11)
    towards = np.array([-0.4, -0.35, 0.85])
    light = np.array([*towards / np.linalg.norm(towards), np.tan(0.02), 0.4, 1.0])
    directions = disc_directions(Light(tuple(towards), softness=0.02))
    told = {NONE: 0, ALL: 0}
    for point in -light[:3] * rng.uniform(0.0, 6.0, (1500, 1)) + rng.normal(size=(1500, 3)) * 0.7:
        which = hides(kinds, prims, 0, light, *point, 0.01)
        if which in told:
            near = point + rng.uniform(-0.005, 0.005, (4, 3))
            met = [np.isfinite(cast(kinds, prims, 0, *near[k], *d)) for k in range(4) for d in directions[k]]
            assert all(met) if which == ALL else not any(met)
            told[which] += 1
    assert told[NONE] > 60 and told[ALL] > 60, told


def test_no_group_that_can_shade_a_primitive_is_left_out_for_it():
    """At places all over each primitive's ball, the share of light is that with every group asked."""
    canvas = RasterCanvas(*WORLDS["raster"], Light(softness=0.15))
    scene = canvas._posed(nominal_state(tabletop()), 0)
    casters = np.empty(len(scene.prims), np.int64)
    casters_of(scene.prims, scene.groups, canvas._light, casters)
    assert casters.min() >= 0
    rng = np.random.default_rng(6)
    shaded = spared = 0
    for i, some in enumerate(casters):
        for _ in range(200):
            way = rng.normal(size=3)
            place = scene.prims[i, :3] + scene.prims[i, 16] * rng.random() * way / np.linalg.norm(way)
            points = np.tile(place, (4, 1))
            told = [
                lit(
                    scene.kinds, scene.prims, scene.groups, 0, bits, -1, canvas._light, canvas._directions, points, 0, 4,
                    *place, 0.0, np.array([0.0, 1.0]),
                )
                for bits in (-1, some)
            ]  # fmt: skip
            assert told[0] == told[1]
            shaded += told[0] < 1.0
        spared += len(scene.groups) - int(some).bit_count()
    assert shaded > 200
    assert spared > 5


def cast_at(part: Part, origin: np.ndarray, way: np.ndarray) -> float:
    """Return the distance at which a ray meets any primitive of a part in the world's axes."""
    found = []
    for kinds, row, at in rows_of(part):
        row[:3], row[3:12] = at, np.eye(3).ravel()
        found.append(cast(np.array([kinds]), row[None], 0, *origin, *way))
    return min(found)


def rays(seed: int):
    rng = np.random.default_rng(seed)
    for _ in range(1500):
        origin, aim = rng.normal(size=3) * 3.0, rng.uniform(-0.9, 0.9, 3)
        yield origin, (aim - origin) / np.linalg.norm(aim - origin)


def test_a_turned_cylinder_is_met_where_a_cylinder_is():
    can = Lathe(((0, -0.6), (0.7, -0.6), (0.7, 0.6), (0, 0.6)))
    met = 0
    for origin, way in rays(8):
        if np.hypot(*origin[:2]) < 0.8 and abs(origin[2]) < 0.7:
            continue  # from within, only the thin wall is met
        known = cast_at(Part(Cylinder(0.7, 1.2)), origin, way)
        assert cast_at(Part(can), origin, way) == pytest.approx(known, abs=1e-9)
        met += np.isfinite(known)
    assert met > 300


def test_an_open_cone_is_met_from_both_sides_and_first_where_it_is_first():
    cone, along, met = Part(Lathe(((0.2, -0.4), (0.9, 0.5)))), np.linspace(1e-6, 12.0, 4000), 0
    for origin, way in rays(9):
        t = cast_at(cone, origin, way)
        line = origin + along[:, None] * way
        beyond = np.hypot(line[:, 0], line[:, 1]) - (0.2 + 0.7 * (line[:, 2] + 0.4) / 0.9)
        crossed = (np.diff(np.sign(beyond)) != 0) & (np.abs(line[1:, 2] - 0.05) < 0.44)
        if np.isfinite(t):
            place = origin + t * way
            assert np.hypot(*place[:2]) == pytest.approx(0.2 + 0.7 * (place[2] + 0.4) / 0.9, abs=1e-9)
            assert -0.4 - 1e-6 < place[2] < 0.5 + 1e-6
        if crossed.any():
            assert t <= along[1:][crossed][0] + 1e-6
            met += 1
    assert met > 300


def test_the_bounds_that_spare_shadow_rays_spare_none_that_hits_a_lathe():
    light = np.array([*np.array([-0.4, -0.35, 0.85]) / np.linalg.norm([-0.4, -0.35, 0.85]), np.tan(0.15), 0.4, 1.0])
    rows = [row for lathe in (BOWL, Lathe(((0.03, 0), (0.02, 0.03), (0.025, 0.03)))) for row in rows_of(Part(lathe))]
    prims, kinds = np.array([row for _, row, _ in rows]), np.array([kind for kind, _, _ in rows])
    prims[:, :3], prims[:, 3:12] = [at for _, _, at in rows], np.eye(3).ravel()
    directions = disc_directions(Light((-0.4, -0.35, 0.85), softness=0.15))
    spared = met = 0
    for point in np.random.default_rng(9).uniform((-0.04, -0.04, -0.03), (0.04, 0.04, 0.05), (400, 3)):
        for i in range(len(prims)):
            hits = any(np.isfinite(cast(kinds, prims, i, *point, *d)) for d in directions[0])
            may = may_shadow(prims, i, light, *point, 0.0)
            assert may or not hits
            spared, met = spared + (not may), met + hits
    assert spared > 1500
    assert met > 200


def test_light_that_leaves_a_wall_for_good_never_meets_it_again():
    """From places on bowls and cones, inside and outside, along every ray to the light that goes up from the wall there."""
    towards = np.array([-0.4, -0.35, 0.85]) / np.linalg.norm([-0.4, -0.35, 0.85])
    light = np.array([*towards, np.tan(0.06), 0.4, 1.0])
    directions = disc_directions(Light((-0.4, -0.35, 0.85), softness=0.06)).reshape(-1, 3)
    shallow = Lathe(((0.135, 0.006), (0.19, 0.014)))
    rows = [row for lathe in (BOWL, shallow, Lathe(((0.03, 0), (0.02, 0.03)))) for row in rows_of(Part(lathe))]
    prims, kinds = np.array([row for _, row, _ in rows]), np.array([kind for kind, _, _ in rows])
    prims[:, 3:12] = np.eye(3).ravel()
    rng, told, met = np.random.default_rng(10), {True: 0, False: 0}, 0
    for i in range(len(prims)):
        r0, z0, r1, z1 = prims[i, 25:29]
        for share, turn in rng.uniform((0.0, 0.0), (1.0, 2 * np.pi), (200, 2)):
            r, z, side = r0 + share * (r1 - r0), z0 + share * (z1 - z0), rng.choice([-1.0, 1.0])
            x, y = r * np.cos(turn), r * np.sin(turn)
            normal = side * np.array(normals(kinds[i, 0], prims, i, x, y, z)[:3])
            if normal @ towards <= 0.0:
                continue
            gone = leaves(kinds[i, 0], prims, i, light, x, y, *normal)
            start = np.array([x, y, z]) + 1e-7 * normal
            hits = any(np.isfinite(cast(kinds, prims, i, *start, *d)) for d in directions if d @ normal > 0.0)
            assert not (gone and hits)
            told[gone], met = told[gone] + 1, met + hits
    assert told[True] > 300 and told[False] > 50 and met > 10
