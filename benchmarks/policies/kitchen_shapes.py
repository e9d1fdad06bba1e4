"""Mugs, bowls and bottles as kitchens have them: spline profiles, cross-sections and handles.

A family of shapes of its own: it shares no code and no numbers with the objects of the simulated
world, and was not drawn after any mesh. Lengths in metres, z up, the bottom at z = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import trimesh
from jaxtyping import Float
from kitchen_surfaces import (
    ROUND,
    Profile,
    Section,
    evenly,
    foot_profile,
    handle_mesh,
    revolved,
    smooth,
    vessel_profile,
)

# --- mugs --------------------------------------------------------------------------------------

MUGS: dict[str, tuple[tuple[float, ...], tuple[float, float]]] = {
    "straight": ((0.96, 1.0, 1.0, 1.0, 1.0), (0.9, 1.35)),
    "tapered": ((0.70, 0.78, 0.86, 0.93, 1.0), (0.8, 1.25)),
    "belly": ((0.72, 1.06, 1.14, 1.06, 0.97), (0.85, 1.15)),
    "waisted": ((1.0, 0.88, 0.84, 0.90, 1.03), (1.0, 1.4)),
    "tulip": ((0.66, 0.92, 0.95, 0.93, 1.08), (0.85, 1.2)),
    "teacup": ((0.50, 0.80, 0.93, 1.0, 1.07), (0.6, 0.8)),
    "inverted": ((1.18, 1.14, 1.08, 1.02, 0.96), (0.85, 1.2)),
}
"""Radii from foot to rim, as shares of the radius; least and most height over width."""
OUTLINES = ("ring", "ear", "square", "drop", "low")


def draw_mug(rng: np.random.Generator, family: str) -> trimesh.Trimesh:
    """A mug of a family of `MUGS`."""
    shares, slender = MUGS[family]
    radius = _log_uniform(rng, 0.031, 0.054)
    height = float(np.clip(2 * radius * rng.uniform(*slender), 0.058, 0.135))
    footed = rng.uniform() < 0.35
    foot_height = rng.uniform(0.004, 0.009) if footed else 0.0
    wall = (rng.uniform(0.0035, 0.006), rng.uniform(0.0026, 0.0048))
    outside, foot, floor = _vessel(rng, shares, radius, height, foot_height, wall[0])
    section = _draw_section(rng, aspect=1.12)
    body = revolved(vessel_profile(outside, foot, floor, wall), section, sides=_sides(section))
    factor = float(section.radius(np.zeros(1))[0])
    handle = _draw_handle(rng, outside * [factor, 1.0], height, wall[0])
    return trimesh.util.concatenate([body, handle])


def _draw_handle(
    rng: np.random.Generator, outside: Profile, height: float, wall: float
) -> trimesh.Trimesh:
    """A handle on the wall in the direction of x."""
    outline = OUTLINES[int(rng.integers(len(OUTLINES)))]
    tall = max(rng.uniform(0.42, 0.72) * height, 0.034)
    middle = (0.40 if outline == "low" else rng.uniform(0.48, 0.56)) * height
    middle = float(np.clip(middle, tall / 2 + 0.008, height - tall / 2 - 0.008))
    thick, wide = rng.uniform(0.0028, 0.0050), rng.uniform(0.0038, 0.0085)
    reach = rng.uniform(0.020, 0.036) + thick
    power = {"square": rng.uniform(3.2, 5.0), "ring": 2.0}.get(outline, rng.uniform(2.0, 2.8))
    angle = np.linspace(-np.pi / 2, np.pi / 2, 120)
    c, s = np.cos(angle), np.sin(angle)
    out = reach * np.abs(c) ** (2.0 / power)
    up = np.sign(s) * np.abs(s) ** (2.0 / power)
    if outline == "ear":
        out *= 1.0 + 0.32 * s
    if outline == "drop":
        out *= 1.0 - 0.28 * s
    z = middle + tall / 2 * up
    ends = np.interp(z[[0, -1]], outside[:, 1], outside[:, 0]) - 0.55 * wall
    x = ends[0] + (ends[1] - ends[0]) * (up + 1.0) / 2 + out
    path = evenly(np.stack([x, z], axis=1), 30)
    share = np.linspace(-1.0, 1.0, 30)
    swell = 1.0 + rng.uniform(0.0, 0.45) * share**4 + rng.uniform(-0.15, 0.15) * share
    return handle_mesh(path, thick * swell, wide * swell, rng.uniform(2.0, 4.0))


# --- bowls -------------------------------------------------------------------------------------

BOWLS: dict[str, tuple[tuple[float, ...], tuple[float, float]]] = {
    "round": ((0.40, 0.72, 0.88, 0.96, 1.0), (0.36, 0.52)),
    "cone": ((0.38, 0.54, 0.70, 0.85, 1.0), (0.36, 0.50)),
    "straight": ((0.88, 0.97, 0.99, 1.0, 1.0), (0.32, 0.55)),
    "flared": ((0.42, 0.70, 0.80, 0.88, 1.04), (0.36, 0.52)),
    "inward": ((0.52, 0.92, 1.06, 1.06, 0.97), (0.42, 0.60)),
    "deep": ((0.50, 0.78, 0.90, 0.96, 1.0), (0.50, 0.66)),
    "stepped": ((0.55, 0.60, 0.86, 0.92, 1.0), (0.36, 0.48)),
}
"""Radii from foot to rim, as shares of the radius; least and most height over width."""


def draw_bowl(rng: np.random.Generator, family: str) -> trimesh.Trimesh:
    """A bowl of a family of `BOWLS`."""
    shares, deep = BOWLS[family]
    radius = _log_uniform(rng, 0.046, 0.098)
    height = float(np.clip(2 * radius * rng.uniform(*deep), 0.036, 0.105))
    foot_height = rng.uniform(0.004, 0.014) if rng.uniform() < 0.55 else 0.0
    wall = (rng.uniform(0.0038, 0.0068), rng.uniform(0.0028, 0.0056))
    outside, foot, floor = _vessel(rng, shares, radius, height, foot_height, wall[0])
    section = _draw_section(rng, aspect=1.3)
    return revolved(vessel_profile(outside, foot, floor, wall), section, sides=_sides(section))


def _vessel(
    rng: np.random.Generator,
    shares: Sequence[float],
    radius: float,
    height: float,
    foot_height: float,
    wall: float,
) -> tuple[Profile, Profile, float]:
    """Outside, underside, and the height of the floor, of a vessel with these radii."""
    radii = radius * np.array(shares) * rng.uniform(0.96, 1.04, len(shares))
    edge = float(radii[0])
    foot_radius = edge * (rng.uniform(0.72, 0.98) if foot_height else 0.94)
    foot, hollow = foot_profile(rng, foot_radius, foot_height, edge)
    heights = foot_height + np.array([0.0, 0.27, 0.5, 0.75, 1.0]) * (height - foot_height)
    start = (edge, foot_height + 0.003) if not foot_height else (edge, foot_height)
    controls = [start, *zip(radii[1:], heights[1:], strict=True)]
    floor = max(foot_height, hollow) + rng.uniform(0.8, 1.2) * wall
    return smooth(controls, 22), foot, floor


# --- bottles -----------------------------------------------------------------------------------


def _jar(rng: np.random.Generator) -> tuple[Profile, Section, float]:
    """A jar with a lid that is nearly as wide as the body, or wider than its neck."""
    body, height = _log_uniform(rng, 0.024, 0.043), _log_uniform(rng, 0.065, 0.135)
    lid = min(body * rng.uniform(0.72, 1.02), 0.0325)
    lid_height = rng.uniform(0.014, 0.024)
    shoulder = height - lid_height - rng.uniform(0.004, 0.009)
    neck = 0.9 * lid
    glass = smooth(
        [(body, 0.004), (body, 0.55 * shoulder), (body, 0.82 * shoulder), (neck, shoulder)], 14
    )
    cap = [(neck, height - lid_height), (lid, height - lid_height), (lid, height - 0.0015)]
    return _solid(body, glass, [*cap, (lid - 0.0015, height)]), _draw_section(rng, 1.15), shoulder


def _flask(rng: np.random.Generator) -> tuple[Profile, Section, float]:
    """A flat oval body, round shoulders and a short neck with a cap."""
    body, height = _log_uniform(rng, 0.024, 0.036), _log_uniform(rng, 0.11, 0.20)
    neck, cap = rng.uniform(0.009, 0.014), rng.uniform(0.0, 0.006)
    top = height - rng.uniform(0.014, 0.022)
    shoulder = top - rng.uniform(0.004, 0.014)
    low = rng.uniform(0.80, 0.95) * body
    glass = smooth(
        [(low, 0.004), (body, 0.35 * shoulder), (0.97 * body, 0.7 * shoulder),
         (0.6 * body, 0.93 * shoulder), (neck, shoulder)], 20
    )  # fmt: skip
    section = Section(rng.uniform(2.0, 3.2), rng.uniform(1.25, 1.6), turn=rng.uniform(0, np.pi))
    return _solid(low, glass, _cap(neck, neck + cap, top, height)), section, 0.9 * shoulder


def _spice(rng: np.random.Generator) -> tuple[Profile, Section, float]:
    """A small straight bottle, often squared, with a tall cap."""
    body, height = _log_uniform(rng, 0.018, 0.028), _log_uniform(rng, 0.085, 0.13)
    cap = body * rng.uniform(0.75, 1.05)
    top = height - rng.uniform(0.018, 0.032)
    shoulder = top - rng.uniform(0.002, 0.006)
    neck = min(0.85 * cap, 0.8 * body)
    glass = smooth(
        [(body, 0.003), (body, 0.5 * shoulder), (body, 0.88 * shoulder), (neck, shoulder)], 14
    )
    square = rng.uniform() < 0.5
    section = Section(rng.uniform(3.5, 5.5)) if square else _draw_section(rng, 1.0)
    return _solid(body, glass, _cap(neck, cap, top, height)), section, 0.95 * shoulder


def _squeeze(rng: np.random.Generator) -> tuple[Profile, Section, float]:
    """A soft body with a waist, a conical cap and a nozzle."""
    body, height = _log_uniform(rng, 0.024, 0.036), _log_uniform(rng, 0.13, 0.22)
    cap, nozzle = body * rng.uniform(0.55, 0.85), rng.uniform(0.004, 0.007)
    tip = height - rng.uniform(0.006, 0.012)
    top = tip - rng.uniform(0.018, 0.028)
    waist = rng.uniform(0.78, 0.95)
    glass = smooth(
        [(0.95 * body, 0.004), (body, 0.2 * top), (waist * body, 0.5 * top), (body, 0.75 * top),
         (0.8 * body, 0.94 * top), (0.9 * cap, top)], 22
    )  # fmt: skip
    lid = [(cap, top + 0.0005), (0.84 * cap, tip), (nozzle, tip + 0.001)]
    lid += [(0.8 * nozzle, height)]
    section = Section(rng.uniform(2.0, 2.6), rng.uniform(1.0, 1.45), turn=rng.uniform(0, np.pi))
    return _solid(0.95 * body, glass, lid), section, 0.9 * top


def _oil(rng: np.random.Generator) -> tuple[Profile, Section, float]:
    """A tall bottle with a long neck, a collar and a stopper."""
    body, height = _log_uniform(rng, 0.026, 0.037), _log_uniform(rng, 0.19, 0.275)
    neck = rng.uniform(0.011, 0.015)
    stopper = neck + rng.uniform(-0.002, 0.003)
    collar = height - rng.uniform(0.012, 0.022)
    shoulder = rng.uniform(0.52, 0.66) * height
    glass = smooth(
        [(body, 0.004), (body, 0.6 * shoulder), (0.98 * body, 0.9 * shoulder),
         (1.25 * neck, shoulder + 0.09 * height), (neck, collar - 0.008)], 24
    )  # fmt: skip
    ring = [(neck + 0.0025, collar - 0.007), (neck + 0.0025, collar), (stopper, collar + 0.0005)]
    lid = [*ring, (stopper, height - 0.001), (stopper - 0.002, height)]
    return _solid(body, glass, lid), _draw_section(rng, 1.0), shoulder


def _sauce(rng: np.random.Generator) -> tuple[Profile, Section, float]:
    """A contoured bottle: belly, waist, a neck that narrows, and a cap."""
    body, height = _log_uniform(rng, 0.025, 0.038), _log_uniform(rng, 0.14, 0.24)
    neck, cap = rng.uniform(0.011, 0.016), rng.uniform(-0.001, 0.006)
    top = height - rng.uniform(0.014, 0.026)
    knots = np.array([0.22, 0.45, 0.62, 0.80]) * top
    waist, chest = rng.uniform(0.78, 0.97), rng.uniform(0.85, 1.0)
    glass = smooth(
        [(0.92 * body, 0.004), (body, knots[0]), (waist * body, knots[1]), (chest * body, knots[2]),
         (1.5 * neck, knots[3]), (neck, 0.93 * top), (neck, top - 0.001)], 26
    )  # fmt: skip
    return (
        _solid(0.92 * body, glass, _cap(neck, neck + cap, top, height)),
        _draw_section(rng, 1.0),
        float(knots[2]),
    )


def _cap(neck: float, cap: float, low: float, high: float) -> list[tuple[float, float]]:
    """A cap on a neck: a step, a wall and a rounded edge."""
    return [(neck, low - 0.0005), (cap, low), (cap, high - 0.0015), (cap - 0.0015, high)]


def _solid(bottom: float, glass: Profile, lid: Sequence[tuple[float, float]]) -> Profile:
    """A closed profile from axis to axis, with a bottom edge of 4 mm."""
    under = [(0.0, 0.0), (0.5 * bottom, 0.0), (bottom - 0.0035, 0.0), (bottom - 0.001, 0.0015)]
    return np.concatenate([under, glass, lid, [(0.0, lid[-1][1])]])


BOTTLES: dict[str, Callable[[np.random.Generator], tuple[Profile, Section, float]]] = {
    "jar": _jar,
    "flask": _flask,
    "spice": _spice,
    "squeeze": _squeeze,
    "oil": _oil,
    "sauce": _sauce,
}
"""Profile, section of the body, and the height up to which the section is used."""


def draw_bottle(rng: np.random.Generator, family: str) -> trimesh.Trimesh:
    """A bottle of a family of `BOTTLES`: closed and solid."""
    profile, section, shoulder = BOTTLES[family](rng)

    def share(z: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """All of the section below the shoulder, none from a centimetre above it on."""
        return np.clip((shoulder + 0.004 - z) / 0.014, 0.0, 1.0)

    return revolved(profile, section, share, sides=_sides(section))


# --- what all share ----------------------------------------------------------------------------

KINDS: dict[str, tuple[tuple[str, ...], Callable[[np.random.Generator, str], trimesh.Trimesh]]] = {
    "mug": (tuple(MUGS), draw_mug),
    "bowl": (tuple(BOWLS), draw_bowl),
    "bottle": (tuple(BOTTLES), draw_bottle),
}
"""Families of each kind, and what draws one."""


def _draw_section(rng: np.random.Generator, aspect: float) -> Section:
    """Round half the time; else squared, fluted or, up to an aspect, oval."""
    choice = int(rng.integers(6))
    if choice == 0:
        return Section(exponent=rng.uniform(2.6, 4.5), turn=float(rng.choice([0.0, np.pi / 4])))
    if choice == 1:
        return Section(flutes=int(rng.choice([6, 8, 12, 16])), depth=rng.uniform(0.03, 0.07))
    if choice == 2:
        return Section(2.0, rng.uniform(1.0, aspect), turn=rng.uniform(0.0, np.pi))
    return ROUND


def _sides(section: Section) -> int:
    """Corners around: four for each flute, or 48."""
    return max(48, 4 * section.flutes)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
