"""Episodes: the protocol, verdicts with reasons, and a test of success that has teeth."""

import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("mujoco")

from handful.demos import Action, TaskStep, gripper_named
from handful.errors import DemoError, OptionError
from handful.policy import Motion, Robot, Verdict, Watcher, run_task
from handful.sim import (
    SIM_LIMITS,
    TASKS,
    DivergedError,
    Placed,
    Purpose,
    Setup,
    SimError,
    Variant,
    World,
    oracle_pose,
    oracle_predictors,
    run_oracle,
    task_named,
)
from handful.sim._physics import Role
from handful.sim.objects import (
    DEFAULT_BOTTLES,
    DEFAULT_BOWL,
    DEFAULT_HANGER,
    DEFAULT_MUG,
    UNSEEN_BOTTLES,
    placed,
)
from handful.sim.tasks import Episode, MugOnHanger, _sim_task

ONE_PART = sorted(name for name, task in TASKS.items() if len(task.parts) == 1)


def tilt(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def staged(task, thing, pose, seconds=0.6):
    """An episode in which the object was let go at a pose, and had time to come to rest."""
    target = task.parts[0].what.draw_target(np.random.default_rng(0))
    world = World([Placed(thing, pose)], [Placed(target, placed((0.0, 0.0, 0.0)))])
    world.advance(seconds)
    return Episode(task, Setup.TRAINED, 0, world, np.random.default_rng(0))


def do(episode, step, pose):
    """Execute a step at a pose."""
    return episode.execute(step, Motion.along_approach(pose, episode.gripper))


def oracle_does(episode, step):
    """Execute a step at the oracle's pose."""
    return do(episode, step, oracle_pose(episode, step))


# --- the oracle, and the same seed -------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(TASKS))
def test_the_oracle_succeeds(name):
    with TASKS[name].reset(1, Setup.TRAINED) as episode:
        verdict = run_oracle(episode)
    assert verdict, verdict.reason


@pytest.mark.parametrize("name", sorted(TASKS))
def test_the_oracle_succeeds_with_everything_unseen(name):
    with TASKS[name].reset(2, Setup.ALL) as episode:
        verdict = run_oracle(episode)
    assert verdict, verdict.reason


def test_the_oracle_does_the_same_whether_somebody_watches_or_not():
    """Nobody asks what it sees where nobody watches, and its cameras stay off."""
    ends = []
    for watcher in (None, Watcher()):
        with task_named("bottle").reset(1, Setup.ALL) as episode:
            verdict = run_oracle(episode, watcher=watcher)
            ends.append((verdict.reason, *episode.world.T_scene_item.flat))
            assert (episode._renderer is None) == (watcher is None)
    assert ends[0] == ends[1]


@pytest.mark.parametrize("variant", [Variant.LOWVAR, Variant.MIXED])
def test_the_oracle_has_variants(variant):
    with task_named("mug").reset(8, Setup.TRAINED) as episode:
        verdict = run_oracle(episode, variant)
    assert verdict, verdict.reason


@pytest.mark.parametrize("name", ONE_PART)
def test_targets_of_other_shapes_can_be_used(name):
    task = TASKS[name].with_other_target(4)
    usual = TASKS[name].parts[0].what.draw_target(np.random.default_rng(0)).bounds
    other = task.parts[0].what.draw_target(np.random.default_rng(0)).bounds
    assert np.abs(other - usual).max() > 1e-3
    with task.reset(1, Setup.TRAINED) as episode:
        verdict = run_oracle(episode)
    assert verdict, verdict.reason


# --- the simulated robot -----------------------------------------------------------------------


def test_an_episode_is_a_robot():
    with task_named("bottle").reset(1) as episode:
        assert isinstance(episode, Robot)
        assert episode.gripper is episode.world.gripper


def test_a_task_runs_on_it_as_on_any_robot():
    with task_named("tidy").reset(2001) as episode:
        records = run_task(
            episode, episode.task.task, oracle_predictors(episode), limits=SIM_LIMITS
        )
        assert [record.name for record in records] == list(episode.task.task.names)
        assert all(record.ok for record in records)
        verdict = episode.success()
    assert verdict, verdict.reason


def test_a_place_is_judged_by_the_hand_alone():
    with task_named("bottle").reset(1) as episode:
        pick, place = episode.task.task
        assert oracle_does(episode, pick)
        good = oracle_pose(episode, place)
        held = episode.world.T_gripper_item
        assert episode.reach(place, good)
        # The bottle would be in the tray, and the hand is free.
        low = good.copy()
        low[2, 3] -= 0.012
        assert not episode.checks.can_place(low, held)
        assert episode.reach(place, low)
        # The hand would be in the table.
        low[2, 3] = 0.05
        assert not episode.reach(place, low)


def test_places_name_what_they_are_near():
    with task_named("bottle").reset(1) as episode:
        pick, place = episode.task.task
        pose = oracle_pose(episode, pick)
        assert episode.tips_at_object(pose)
        away = pose.copy()
        away[0, 3] += 0.2
        assert not episode.tips_at_object(away)
        assert do(episode, pick, pose)
        pose = oracle_pose(episode, place)
        assert episode.object_at_target(pose)
        away = pose.copy()
        away[1, 3] += 0.3
        assert not episode.object_at_target(away)


def test_steps_of_another_task_are_refused():
    with task_named("mug").reset(1) as episode, pytest.raises(DemoError, match="unknown step"):
        episode.reach(TaskStep("throw", Action.PICK), np.eye(4))


# --- four steps ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "setup"), [(2003, Setup.POSES), (2006, Setup.DISTRACTORS)])
def test_the_oracle_does_four_steps(seed, setup):
    with task_named("tidy").reset(seed, setup) as episode:
        assert episode.things == ("mug", "bowl")
        assert episode.lying == (setup is Setup.POSES)
        verdict = run_oracle(episode)
    assert verdict, verdict.reason


def test_a_bowl_left_on_the_table_fails_although_the_mug_hangs():
    with task_named("tidy").reset(2001) as episode:
        for step in episode.task.task.steps[:2]:
            assert oracle_does(episode, step)
        verdict = episode.success()
        assert not verdict
        assert "tray does not hold the bowl" in verdict.reason
        episode.world.focus(0)
        assert episode.task.parts[0].what.well_placed(episode.world)


def test_a_mug_left_on_the_table_fails_although_the_bowl_stands():
    with task_named("tidy").reset(2001) as episode:
        for step in episode.task.task.steps[2:]:
            assert oracle_does(episode, step)
        verdict = episode.success()
    assert not verdict
    assert "hanger does not hold the mug" in verdict.reason


def test_only_what_is_held_is_out_of_the_scene():
    with task_named("tidy").reset(2001) as episode:
        step = episode.task.task.steps[0]
        spots = [item.T_scene_thing[:2, 3] for item in episode.world.items]

        def points_at(spot):
            points = episode.observe_scene().points
            near = np.linalg.norm(points[:, :2] - spot, axis=1) < 0.06
            return int((near & (points[:, 2] > 0.01)).sum())

        assert all(points_at(spot) > 50 for spot in spots)
        hand = len(episode.observe_grasp())
        assert oracle_does(episode, step)
        assert points_at(spots[0]) == 0
        assert points_at(spots[1]) > 50
        # A question about another pair does not change what is held.
        bowl = episode.task.task.steps[2]
        episode.reach(bowl, oracle_pose(episode, bowl))
        assert len(episode.observe_grasp()) > hand + 1000
        assert points_at(spots[0]) == 0
        assert "holds the mug" in do(episode, bowl, np.eye(4)).reason


def test_the_other_pair_is_in_the_way():
    with task_named("tidy").reset(2001) as episode:
        mug, _, bowl, _ = episode.task.task
        in_wall = oracle_pose(episode, mug)
        in_wall[:3, 3] += 0.042 * in_wall[:3, 0]
        assert "would hit the object" in episode.reach(mug, in_wall).reason
        assert "would hit the other things" in episode.reach(bowl, in_wall).reason


# --- hands ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["simulated-long", "franka-hand"])
def test_another_hand_holds_things_and_its_clouds_show_it(name):
    hand = gripper_named(name)
    with task_named("mug").reset(2001, gripper=hand) as episode:
        pick, place = episode.task.task
        shown = episode.observe_grasp().points.astype(float)
        assert hand.shape.contains(shown, 0.002).all()
        assert not gripper_named("simulated").shape.contains(shown, 0.002).all()
        assert oracle_does(episode, pick)
        held = episode.observe_grasp().points.astype(float)
        gap = episode.world.finger_gap
        inside = hand.with_width(gap).shape.contains(held, 0.003)
        assert inside.sum() > 1000
        assert (~inside).sum() > 1000
        assert oracle_does(episode, place)
        verdict = episode.success()
    assert verdict, verdict.reason


def test_a_mug_that_does_not_fit_the_hanger_is_refused_with_the_reason():
    assert MugOnHanger().suits(DEFAULT_MUG.thing())
    verdict = MugOnHanger(replace(DEFAULT_HANGER, arm_radius=0.03)).suits(DEFAULT_MUG.thing())
    assert not verdict
    assert "does not go on the hanger" in verdict.reason


def test_the_oracle_rehearses_and_nothing_has_happened():
    task = task_named("mug")
    what = task.parts[0].what
    arm = what.hanger.arm_point(0.06)
    beside = placed((arm[0], arm[1] + 0.08, arm[2]))
    with task.reset(1, Setup.TRAINED) as episode:
        world = episode.world
        state, now = world.data.qpos.copy(), world.data.time
        assert not what.holds(world, world.target.T_scene_thing @ beside)
        assert oracle_pose(episode, task.task.step("pick")) is not None
        assert what.holds(world, episode.known_goals[0])
        assert np.array_equal(world.data.qpos, state)
        assert world.data.time == now


def test_a_reset_that_solves_all_parts_leaves_everything_where_it_was():
    with task_named("tidy").reset(2001) as episode:
        assert set(episode.known_picks) == {0, 1}
        for pair, item in enumerate(episode.world.items):
            episode.world.focus(pair)
            assert np.abs(episode.world.T_scene_item - item.T_scene_thing).max() < 5e-3


def test_layouts_that_are_thrown_away_are_counted_with_the_reason(monkeypatch):
    answers = iter(["no grasp", "no grasp"])
    real = _sim_task.search_pick
    monkeypatch.setattr(_sim_task, "search_pick", lambda *args: next(answers, None) or real(*args))
    with task_named("bowl").reset(1, Setup.TRAINED) as episode:
        assert episode.rejected == ("no grasp", "no grasp")


def test_the_layouts_of_a_bottle_that_is_too_long_end_with_a_sentence():
    shape = replace(DEFAULT_BOTTLES[0], body_height=0.70)  # twice of what is accepted at load
    start = time.process_time()
    with pytest.raises(SimError, match="did not fit on the table"):
        task_named("bottle").reset(0, Setup.POSES, things=[shape.thing()])
    assert time.process_time() - start < 20.0


def test_objects_of_several_parts_are_given_by_kind():
    task = task_named("tidy")
    bowl = replace(DEFAULT_BOWL, radius=0.07).thing("small bowl")
    with task.reset(2001, things={"bowl": [bowl]}) as episode:
        assert episode.things == ("mug", "small bowl")
    with pytest.raises(OptionError, match=r"by kind \(mug, bowl\)"):
        task.reset(2001, things=[bowl])


def test_the_same_seed_is_the_same_episode():
    seen = []
    for _ in range(2):
        with task_named("mug").reset(5, Setup.ALL) as episode:
            scene = episode.observe_scene()
            step = episode.task.task.step("pick")
            pick = oracle_pose(episode, step)
            verdict = do(episode, step, pick)
            grasp = episode.observe_grasp()
            seen.append((scene.points, scene.colors, pick, verdict, grasp.points))
    for one, other in zip(*seen, strict=True):
        assert np.array_equal(one, other)


def test_demonstrations_and_evaluations_never_share_a_scene():
    poses = []
    for purpose in Purpose:
        with task_named("bowl").reset(0, Setup.TRAINED, purpose) as episode:
            poses.append(episode.world.T_scene_item)
    assert np.abs(poses[0] - poses[1]).max() > 1e-3


def test_setups_differ_as_the_protocol_says():
    task = task_named("bottle")
    with task.reset(0, Setup.POSES) as lying:
        assert abs(lying.world.T_scene_item[2, 2]) < 0.6
        assert len(lying.world.supports) == 1
    with task.reset(0, Setup.DISTRACTORS) as busy:
        names = [busy.world.model.body(n).name for n in range(busy.world.model.nbody)]
        assert sum(name.startswith("distractor") for name in names) == 4
        assert busy.world.T_scene_item[2, 2] > 0.98
    with task.reset(0, Setup.INSTANCES) as other:
        assert other.world.item.thing.name.startswith("unseen")


@pytest.mark.parametrize("name", ONE_PART)
def test_objects_lie_in_poses_and_every_other_time_in_all(name):
    # Bowls right themselves unless a step holds their foot: once none of them ever lay.
    with TASKS[name].reset(3, Setup.POSES) as episode:
        assert abs(episode.world.T_scene_item[2, 2]) < 0.6
    upright = []
    for seed in range(8):
        with TASKS[name].reset(seed, Setup.ALL) as episode:
            upright.append(abs(episode.world.T_scene_item[2, 2]) > 0.6)
    assert 1 <= sum(upright) <= 7


def test_carrying_may_be_fixed_as_in_the_paper():
    task = task_named("bottle")
    with task.reset(3, Setup.TRAINED, fixed_carry=True) as episode:
        verdict = run_oracle(episode)
    assert verdict, verdict.reason


# --- the two-second test has teeth -------------------------------------------------------------


def test_a_bottle_in_the_middle_of_the_tray_succeeds():
    task = task_named("bottle")
    thing = UNSEEN_BOTTLES[0].thing()
    assert staged(task, thing, placed((0, 0, task.parts[0].what.tray.floor + 0.001))).success()


def test_a_bottle_on_the_edge_of_the_tray_fails():
    task = task_named("bottle")
    thing = UNSEEN_BOTTLES[0].thing()
    height = task.parts[0].what.tray.floor + task.parts[0].what.tray.lip + 0.001
    for reach in (0.0, 0.012):
        spot = (task.parts[0].what.tray.length / 2 + reach, 0.0, height)
        assert not staged(task, thing, placed(spot)).success()


def test_a_bottle_lying_on_the_tray_fails():
    task = task_named("bottle")
    thing = UNSEEN_BOTTLES[0].thing()
    verdict = staged(task, thing, placed((-0.06, 0, 0.08), tilt(np.pi / 2))).success()
    assert not verdict
    assert "tilted" in verdict.reason


def test_a_bottle_leaning_between_table_and_tray_fails():
    task = task_named("bottle")
    thing = UNSEEN_BOTTLES[0].thing()
    lying = placed((task.parts[0].what.tray.length / 2 - 0.004, 0.0, 0.07), tilt(np.pi / 2))
    episode = staged(task, thing, lying, 0.8)
    assert episode.world.touching(Role.OBJECT, Role.FURNITURE)
    assert not episode.success()


def test_a_mug_beside_the_arm_fails():
    task = task_named("mug")
    arm = task.parts[0].what.hanger.arm_point(0.06)
    beside = placed((arm[0], arm[1] + 0.08, arm[2]))
    assert not staged(task, DEFAULT_MUG.thing(), beside, 0.8).success()


def test_a_mug_on_the_foot_of_the_hanger_fails():
    task = task_named("mug")
    on_foot = placed((0.0, 0.055, task.parts[0].what.hanger.foot_height + 0.001))
    verdict = staged(task, DEFAULT_MUG.thing(), on_foot, 0.5).success()
    assert not verdict


def test_a_mug_wedged_between_table_and_post_fails():
    task = task_named("mug")
    wedged = placed((-0.105, 0.0, 0.02), tilt(0.6))
    assert not staged(task, DEFAULT_MUG.thing(), wedged, 0.8).success()


def test_an_object_still_in_the_hand_fails():
    with task_named("bottle").reset(1, Setup.TRAINED) as episode:
        assert oracle_does(episode, episode.task.task.step("pick"))
        assert not episode.success()


# --- verdicts ------------------------------------------------------------------------------------


def test_infeasible_poses_are_refused_with_a_reason():
    with task_named("mug").reset(1, Setup.TRAINED) as episode:
        pick, place = episode.task.task
        good = oracle_pose(episode, pick)
        assert episode.reach(pick, good)
        far = good.copy()
        far[0, 3] += 2.0
        assert "out of reach" in episode.reach(pick, far).reason
        sunk = good.copy()
        sunk[2, 3] -= 0.2
        assert "furniture" in episode.reach(pick, sunk).reason
        in_wall = good.copy()
        in_wall[:3, 3] += 0.042 * good[:3, 0]
        assert "object" in episode.reach(pick, in_wall).reason
        assert "not a pose" in episode.reach(pick, np.full((4, 4), np.nan)).reason
        assert not do(episode, pick, far)
        assert "nothing is held" in do(episode, place, good).reason


def test_a_grasp_of_thin_air_is_a_failed_pick():
    with task_named("mug").reset(1, Setup.TRAINED) as episode:
        step = episode.task.task.step("pick")
        pose = oracle_pose(episode, step)
        pose[2, 3] += 0.12
        verdict = do(episode, step, pose)
    assert not verdict
    assert "not in the hand" in verdict.reason


def test_an_oracle_that_finds_nothing_is_a_failed_step(monkeypatch):
    with task_named("mug").reset(1, Setup.TRAINED) as episode:
        monkeypatch.setattr(episode.checks, "can_pick", lambda pose: Verdict(False, "no"))
        episode.known_picks.clear()
        assert run_oracle(episode).reason.startswith("pick: the predictor proposed nothing")


def test_divergence_is_a_failed_episode_not_a_crash(monkeypatch):
    with task_named("mug").reset(1, Setup.TRAINED) as episode:
        step = episode.task.task.step("pick")
        pose = oracle_pose(episode, step)

        def explode(seconds):
            raise DivergedError("the physics diverged: speeds are not finite.")

        monkeypatch.setattr(episode.world, "advance", explode)
        verdict = do(episode, step, pose)
        assert not verdict
        assert "diverged" in verdict.reason
        assert "diverged" in episode.success().reason


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(OptionError, match="Did you mean 'bottle'"):
        task_named("botle")
    with pytest.raises(OptionError, match="Did you mean 'trained'"):
        Setup.named("train")
    with pytest.raises(OptionError, match="Did you mean 'lowvar'"):
        Variant.named("lowvr")
    with pytest.raises(OptionError, match="seed is -1"):
        task_named("mug").reset(-1)
