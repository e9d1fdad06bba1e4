"""The world: contacts, teleports, divergence, cameras, and messages when parts are missing."""

import ctypes
import importlib

import numpy as np
import pytest

pytest.importorskip("mujoco")

from handful.clouds import Intrinsics
from handful.demos import gripper_named
from handful.errors import OptionError
from handful.render import look_at
from handful.sim import (
    CameraRig,
    DepthNoise,
    DivergedError,
    MissingExtraError,
    NoGraphicsError,
    Placed,
    World,
)
from handful.sim._cameras import observe_grasp
from handful.sim._errors import load_extra
from handful.sim._hand import GROUP_OBJECT, GROUP_SCENE
from handful.sim._ik import forward
from handful.sim._physics import Role
from handful.sim._renderer import Renderer, choose_backend
from handful.sim.objects import (
    DEFAULT_BOWL,
    DEFAULT_HANGER,
    DEFAULT_MUG,
    TrayShape,
    draw_distractor,
    hanger_thing,
    placed,
    support_thing,
)


def make_world(item_at=(0.1, 0.1, 0.0005), **more):
    return World(
        [Placed(DEFAULT_MUG.thing(), placed(item_at))],
        [Placed(hanger_thing(DEFAULT_HANGER), placed((0.1, -0.15, 0.0)))],
        **more,
    )


def two_pairs(bowl_at=(-0.1, 0.1, 0.0005), **more):
    """A mug and its hanger, a bowl and its tray."""
    return World(
        [
            Placed(DEFAULT_MUG.thing(), placed((0.1, 0.1, 0.0005))),
            Placed(DEFAULT_BOWL.thing(), placed(bowl_at)),
        ],
        [
            Placed(hanger_thing(DEFAULT_HANGER), placed((0.15, -0.15, 0.0))),
            Placed(TrayShape().thing(), placed((-0.12, -0.15, 0.0))),
        ],
        **more,
    )


def test_a_mug_stands_still_on_the_table():
    world = make_world()
    world.advance(0.5)
    assert np.abs(world.T_scene_item - placed((0.1, 0.1, 0.0))).max() < 1e-3
    assert world.touching(Role.OBJECT, Role.FURNITURE)
    assert not world.touching(Role.OBJECT, Role.ROBOT)


def test_only_the_target_holds_a_judged_object():
    world = make_world()
    world.judge_alone()
    world.advance(0.5)
    assert world.T_scene_item[2, 3] < -0.5


# --- two pairs ---------------------------------------------------------------------------------


def test_two_objects_collide():
    world = two_pairs(bowl_at=(0.1, 0.1, 0.14))
    world.advance(0.4)
    world.focus(1)
    assert world.touching(Role.OBJECT, Role.OTHER)
    # The bowl came to rest on the mug, not inside of it.
    assert world.T_scene_item[2, 3] > 0.05


def test_the_focus_says_who_is_object_target_and_other():
    world = two_pairs()
    world.advance(0.2)
    for pair, name in ((0, "mug"), (1, "bowl")):
        world.focus(pair)
        assert (world.in_focus, world.item.thing.name) == (pair, name)
        assert world.touching(Role.OBJECT, Role.FURNITURE)
        assert np.abs(world.T_scene_item - world.item.T_scene_thing).max() < 2e-3
        on_target = placed(world.target.T_scene_thing[:3, 3] + [0.0, 0.0, 0.004])
        on_other = placed(world.targets[1 - pair].T_scene_thing[:3, 3] + [0.0, 0.0, 0.004])
        there = world.imagine(world.joints, T_scene_item=on_target)
        assert world.touching(Role.OBJECT, Role.TARGET, data=there)
        assert not world.touching(Role.OBJECT, Role.OTHER, data=there)
        there = world.imagine(world.joints, T_scene_item=on_other)
        assert world.touching(Role.OBJECT, Role.OTHER, data=there)
        assert not world.touching(Role.OBJECT, Role.TARGET, data=there)
    with pytest.raises(OptionError, match="pairs 0 to 1"):
        world.focus(2)
    with pytest.raises(OptionError, match="1 objects and 0 targets"):
        World(world.items[:1], ())


def test_a_judged_object_is_held_by_its_own_target_only():
    tray = np.array([-0.12, -0.15, TrayShape().floor + 0.001])
    # The bowl stands on its tray, and the mug beside it on the same tray, which is not its own.
    world = two_pairs(bowl_at=tray - [0.02, 0.0, 0.0])
    world.put_item(placed(tray + np.array([0.05, 0.06, 0.05])))
    world.judge_alone()
    world.advance(0.5)
    assert world.T_scene_item[2, 3] < -0.5
    world.focus(1)
    assert world.touching(Role.OBJECT, Role.TARGET)


def test_only_the_object_in_focus_is_drawn_as_the_object():
    world = two_pairs()
    renderer = Renderer(world)
    camera = look_at((0.0, -0.4, 0.7), (0, 0.1, 0), Intrinsics.from_field_of_view(160, 120, 0.7))

    def seen(group):
        return renderer.render(world, [camera], (group,))[0].depth > 0

    mug = seen(GROUP_OBJECT)
    world.focus(1)
    bowl = seen(GROUP_OBJECT)
    assert mug.sum() > 100
    assert bowl.sum() > 100
    assert not (mug & bowl).any()
    columns = np.arange(160)
    assert (mug.sum(axis=0) * columns).sum() / mug.sum() > 80  # the mug is on the right
    assert (bowl.sum(axis=0) * columns).sum() / bowl.sum() < 80
    renderer.close()


def test_a_lost_second_object_is_an_error_with_its_name():
    world = two_pairs()
    world.focus(1)
    world.put_item(placed((5.0, 0.0, 0.5)))
    world.focus(0)
    with pytest.raises(DivergedError, match="the bowl was thrown away"):
        world.advance(0.1)


def test_each_object_can_be_fixed_to_the_hand():
    for pair in (0, 1):
        world = two_pairs()
        world.focus(pair)
        world.put_item(world.T_scene_gripper @ placed((0.0, 0.0, 0.3)))
        held = world.T_gripper_item
        world.weld(True)
        world.advance(0.3)
        assert np.abs(world.T_gripper_item - held).max() < 0.01
        world.weld(False)
        world.advance(0.3)
        assert np.abs(world.T_gripper_item - held).max() > 0.1


# --- hands -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["simulated", "simulated-long"])
def test_fingers_open_and_close_along_the_grippers_axis(name):
    hand = gripper_named(name)
    world = make_world(gripper=hand)
    renderer = Renderer(world)
    rng = np.random.default_rng(0)
    widths = []
    for move in (world.open_fingers, world.close_fingers):
        move()
        cloud = observe_grasp(world, renderer, CameraRig(), rng, holding=False)
        points = cloud.points.astype(float)
        assert hand.with_width(world.finger_gap).shape.contains(points, 0.002).mean() > 0.99
        contact = (points - hand.T_gripper_contact[:3, 3]) @ hand.T_gripper_contact[:3, :3]
        pads = contact[np.abs(contact[:, 2]) < 0.02]
        assert np.ptp(pads[:, 1]) < 0.03
        widths.append(np.ptp(pads[:, 0]))
    renderer.close()
    assert widths[0] - widths[1] == pytest.approx(hand.opening, abs=0.006)
    assert world.finger_gap < 0.002


def test_distractors_touch_nothing():
    thing, _ = draw_distractor(np.random.default_rng(0), family="box")
    world = make_world(distractors=[Placed(thing, placed((0.1, 0.1, 0.0)))])
    world.advance(0.3)
    assert np.abs(world.T_scene_item[:3, 3] - [0.1, 0.1, 0.0]).max() < 1e-3


def test_supports_carry():
    block = Placed(support_thing((0.06, 0.06), 0.08), placed((0.1, 0.1, 0.0)))
    world = make_world((0.1, 0.1, 0.081), supports=[block])
    world.calm(0.3)
    assert abs(world.T_scene_item[2, 3] - 0.08) < 1e-3


def test_what_is_held_goes_with_a_teleport():
    world = make_world()
    before = np.linalg.inv(world.T_scene_gripper) @ world.T_scene_item
    joints = world.joints + 0.2
    world.teleport(joints, holding=True)
    after = np.linalg.inv(world.T_scene_gripper) @ world.T_scene_item
    assert np.abs(before - after).max() < 1e-9
    assert np.abs(world.T_scene_gripper - forward(joints)).max() < 1e-9


def test_imagining_changes_nothing():
    world = make_world()
    state = world.data.qpos.copy()
    world.imagine(world.joints + 0.3, 0.02, T_gripper_item=np.eye(4))
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
    renderer = Renderer(world)
    camera = look_at(
        (0.0, 0.2, 0.7), (0.0, 0.2, 0.0), Intrinsics.from_field_of_view(64, 48, 0.3), up=(1, 0, 0)
    )
    depth = renderer.render(world, [camera], (GROUP_SCENE,))[0].depth
    renderer.close()
    assert np.abs(depth - 0.7).max() < 1e-3


def test_a_renderer_draws_the_same_after_another_one_is_closed():
    world = make_world()
    renderer, other = Renderer(world), Renderer(world)
    camera = look_at((0.6, 0.0, 0.5), (0.1, 0, 0.1), Intrinsics.from_field_of_view(96, 72, 0.8))
    before = renderer.render(world, [camera], (GROUP_SCENE,))[0]
    other.close()
    after = renderer.render(world, [camera], (GROUP_SCENE,))[0]
    renderer.close()
    assert np.array_equal(before.depth, after.depth)
    assert np.array_equal(before.color, after.color)


def test_noise_is_off_by_default_and_drops_edges_when_asked():
    world = make_world()
    renderer = Renderer(world)
    camera = look_at((0.6, 0.0, 0.5), (0.1, 0, 0.1), Intrinsics.from_field_of_view(96, 72, 0.8))
    view = renderer.render(world, [camera], (0, 1))[0]
    renderer.close()
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
