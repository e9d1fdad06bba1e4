"""The world: contacts, teleports, divergence, cameras, and messages when parts are missing."""

import ctypes
import importlib

import numpy as np
import pytest

pytest.importorskip("mujoco")

from handful.clouds import Intrinsics
from handful.errors import OptionError
from handful.render import look_at
from handful.sim import DepthNoise, DivergedError, MissingExtraError, NoGraphicsError, Placed, World
from handful.sim._arm import GROUP_SCENE
from handful.sim._errors import load_extra
from handful.sim._eye import Eye, choose_backend
from handful.sim._ik import forward
from handful.sim._physics import Role
from handful.sim.objects import (
    DEFAULT_HANGER,
    DEFAULT_MUG,
    draw_distractor,
    hanger_thing,
    placed,
    support_thing,
)


def make_world(item_at=(0.1, 0.1, 0.0005), **more):
    return World(
        Placed(DEFAULT_MUG.thing(), placed(item_at)),
        Placed(hanger_thing(DEFAULT_HANGER), placed((0.1, -0.15, 0.0))),
        **more,
    )


def test_a_mug_stands_still_on_the_table():
    world = make_world()
    world.advance(0.5)
    assert np.abs(world.item_pose - placed((0.1, 0.1, 0.0))).max() < 1e-3
    assert world.touching(Role.OBJECT, Role.FURNITURE)
    assert not world.touching(Role.OBJECT, Role.ROBOT)


def test_only_the_target_holds_a_judged_object():
    world = make_world()
    world.judge_alone()
    world.advance(0.5)
    assert world.item_pose[2, 3] < -0.5


def test_distractors_touch_nothing():
    thing, _ = draw_distractor(np.random.default_rng(0), family="box")
    world = make_world(distractors=[Placed(thing, placed((0.1, 0.1, 0.0)))])
    world.advance(0.3)
    assert np.abs(world.item_pose[:3, 3] - [0.1, 0.1, 0.0]).max() < 1e-3


def test_supports_carry():
    block = Placed(support_thing((0.06, 0.06), 0.08), placed((0.1, 0.1, 0.0)))
    world = make_world((0.1, 0.1, 0.081), supports=[block])
    world.calm(0.3)
    assert abs(world.item_pose[2, 3] - 0.08) < 1e-3


def test_what_is_held_goes_with_a_teleport():
    world = make_world()
    before = np.linalg.inv(world.hand_pose) @ world.item_pose
    joints = world.joints + 0.2
    world.teleport(joints, holding=True)
    after = np.linalg.inv(world.hand_pose) @ world.item_pose
    assert np.abs(before - after).max() < 1e-9
    assert np.abs(world.hand_pose - forward(joints)).max() < 1e-9


def test_imagining_changes_nothing():
    world = make_world()
    state = world.data.qpos.copy()
    world.imagine(world.joints + 0.3, 0.02, held=np.eye(4))
    assert np.array_equal(world.data.qpos, state)


def test_divergence_is_an_error_with_a_reason():
    world = make_world()
    world.data.qvel[-1] = np.nan
    with pytest.raises(DivergedError, match="not finite"):
        world.advance(0.1)
    world.reset()
    world.put_item(placed((5.0, 0.0, 0.5)))
    with pytest.raises(DivergedError, match="thrown away"):
        world.advance(0.1)


def test_warnings_leave_no_file_in_the_users_folder(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    world = make_world()
    world.data.qvel[-1] = np.nan
    with caplog.at_level("INFO", logger="handful.sim"), pytest.raises(DivergedError):
        world.advance(0.1)
    assert "unstable" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_depth_is_the_distance_along_the_optical_axis():
    world = make_world()
    eye = Eye(world)
    camera = look_at(
        (0.0, 0.2, 0.7), (0.0, 0.2, 0.0), Intrinsics.from_field_of_view(64, 48, 0.3), up=(1, 0, 0)
    )
    depth = eye.see(world, [camera], (GROUP_SCENE,))[0].depth
    eye.close()
    assert np.abs(depth - 0.7).max() < 1e-3


def test_noise_is_off_by_default_and_drops_edges_when_asked():
    world = make_world()
    eye = Eye(world)
    camera = look_at((0.6, 0.0, 0.5), (0.1, 0, 0.1), Intrinsics.from_field_of_view(96, 72, 0.8))
    view = eye.see(world, [camera], (0, 1))[0]
    eye.close()
    rng = np.random.default_rng(0)
    assert np.array_equal(DepthNoise().applied(view, rng).depth, view.depth)
    noisy = DepthNoise(sigma=0.003, edge_drop=1.0).applied(view, rng).depth
    lost = (view.depth > 0) & (noisy == 0)
    assert 0 < lost.sum() < 0.3 * lost.size
    kept = noisy > 0
    spread = np.std((noisy - view.depth)[kept] / view.depth[kept] ** 2)
    assert 0.0025 < spread < 0.0035
    with pytest.raises(OptionError, match=r"edge_drop is nan"):
        DepthNoise(edge_drop=float("nan"))


def test_no_graphics_says_what_to_install(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    with pytest.raises(NoGraphicsError, match="egl or osmesa"):
        choose_backend()
    monkeypatch.delenv("MUJOCO_GL")

    def refuse(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    with pytest.raises(NoGraphicsError, match="apt-get install libegl1"):
        choose_backend()


def test_a_missing_package_says_what_to_install(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(MissingExtraError, match=r"pip install 'handful\[sim\]'"):
        load_extra("mujoco")
