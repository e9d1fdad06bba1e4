"""Layouts: the same as ever for the tasks' own objects, and bounded for whatever is accepted."""

import numpy as np
import pytest

pytest.importorskip("mujoco")

from handful.sim import Setup, run_oracle, task_named
from handful.sim._cameras import WORKSPACE
from handful.sim.objects import BottleShape, BowlShape, placed
from handful.sim.tasks import _layout
from handful.sim.tasks._layout import draw_layout

BEFORE = {
    ("mug", "all", 0): [(0.143172, 0.041271, 0.10151, 0.376673, -0.921437, 0.095246)],
    ("bowl", "poses", 1): [(-0.141097, 0.091481, 0.210047, -0.149287, -0.988794, -0.000287)],
    ("bottle", "poses", 0): [(0.145876, 0.056128, 0.107987, -0.139255, 0.990257, -0.000011)],
    ("bottle", "all", 2): [(-0.098733, 0.032326, 0.109029, -0.016761, 0.99986, -0.000005)],
    ("tidy", "all", 3): [
        (-0.131935, -0.040986, 0.064246, -0.00003, 0.000078, 1.0),
        (-0.175732, 0.159439, 0.180085, -0.298293, 0.954439, 0.008232),
    ],
}
"""Position and z axis of each object in T_scene_item after a reset, before large objects fitted."""


def tall_bottle(height):
    return BottleShape(
        body_radius=0.035, body_height=height - 0.10, shoulder=0.04, neck_radius=0.013,
        neck_height=0.03, cap_height=0.03, mass=0.3,
    ).thing(f"bottle of {height} m")  # fmt: skip


def wide_bowl(radius):
    shape = BowlShape(radius=radius, height=0.6 * radius, foot_radius=0.45 * radius)
    return shape.thing(f"bowl of {2 * radius} m")


LARGE = {
    "bottle": [tall_bottle(0.25), tall_bottle(0.30), tall_bottle(0.35)],
    "bowl": [wide_bowl(0.13), wide_bowl(0.175)],
}


@pytest.mark.parametrize(("task", "setup", "seed"), BEFORE)
def test_layouts_of_the_tasks_own_objects_stay_the_same(task, setup, seed):
    found = []
    with task_named(task).reset(seed, Setup.named(setup)) as episode:
        for pair in range(len(episode.things)):
            episode.world.focus(pair)
            pose = episode.world.T_scene_item
            found.append([*pose[:3, 3], *pose[:3, 2]])
    # Another layout differs by centimetres; other builds of MuJoCo by far less than this.
    np.testing.assert_allclose(found, BEFORE[task, setup, seed], atol=2e-4)


@pytest.mark.parametrize("lying", [False, True])
@pytest.mark.parametrize(
    ("task", "thing"), [(task, thing) for task, things in LARGE.items() for thing in things]
)
def test_large_objects_are_all_in_view_and_clear_of_the_target(task, thing, lying):
    what = task_named(task).parts[0].what
    found = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        layout = draw_layout([thing], [what.draw_target(rng)], Setup.POSES, [lying], rng)
        if layout is None:
            continue
        found += 1
        item, target = layout.items[0], layout.targets[0]
        pose = item.T_scene_thing
        corners = thing.vertices @ pose[:3, :3].T + pose[:3, 3]
        assert WORKSPACE.contains(corners).all()
        tray = placed((0, 0, 0), target.T_scene_thing[:3, :3])
        away = np.linalg.norm(corners[:, :2] - target.T_scene_thing[:2, 3], axis=1).min()
        assert away > target.thing.footprint(tray)
    assert found >= 4


def test_a_long_lying_bottle_can_be_used():
    for seed in (0, 1):
        with task_named("bottle").reset(seed, Setup.POSES, things=[tall_bottle(0.30)]) as episode:
            assert episode.lying
            verdict = run_oracle(episode)
        assert verdict, verdict.reason


def test_what_is_larger_than_the_table_ends_at_once():
    what = task_named("bowl").parts[0].what
    rng, once = np.random.default_rng(0), np.random.default_rng(0)
    things, targets = [wide_bowl(0.4)], [what.draw_target(np.random.default_rng(0))]
    assert draw_layout(things, targets, Setup.ALL, [False], rng) is None
    once.uniform()
    assert rng.bit_generator.state == once.bit_generator.state, "more than the yaw was drawn"


def test_a_full_table_has_fewer_distractors_after_a_bounded_number_of_draws(monkeypatch):
    draws = []
    draw = _layout.draw_distractor

    def counted(rng, shrink):
        draws.append(shrink)
        return draw(rng, shrink=shrink)

    monkeypatch.setattr(_layout, "draw_distractor", counted)
    everything = [(np.zeros(2), 1.0)]
    assert _layout._distract(everything, 4, 20, np.random.default_rng(0)) == ()
    assert len(draws) == 20
    assert _layout._DISTRACTOR_TRIES <= 1000
