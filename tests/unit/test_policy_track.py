"""Tracking: energies near the last pose are exact, lost targets are found, time is kept."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from clock import Clock
from handful.clouds import Box, PointCloud, concatenate, voxel_filter
from handful.demos import Action, DemoSet, gripper_named
from handful.errors import EmptyCloudError, GeometryError, OptionError
from handful.geometry import pose_exp
from handful.models import EdfModel, EncoderConfig, Field
from handful.policy import Confidence, Predictor, Preparation, RankedPoses, Tracked
from handful.policy import _track as track_module
from handful.policy._track import REACH, SIDES, WORTH_MOVING
from handful.policy._view import encoded_field
from samples import mug_sample
from small_training import COARSE, THIN, small_recipe

STEPS = {"pick": Action.PICK, "place": Action.PLACE}
PER_POINT = 1e-4
"""Seconds that encoding a point takes by the clock of these tests."""


@pytest.fixture(scope="module")
def demos() -> DemoSet:
    return mug_sample(1)


@pytest.fixture(scope="module")
def predictors(demos) -> dict[str, Predictor]:
    """Predictors that have learned nothing, and are sure of everything: the laws hold for all."""
    torch.manual_seed(0)
    recipes = [small_recipe(name, action) for name, action in STEPS.items()]
    return {
        recipe.step.name: Predictor(
            recipe.step,
            EdfModel(recipe.model),
            demos.gripper,
            THIN,
            COARSE,
            Confidence(100.0, 1.0),
        )
        for recipe in recipes
    }


@pytest.fixture(scope="module")
def exact(predictors) -> dict[str, Predictor]:
    """Predictors that thin no cloud: rounding changes nothing but the last digits then."""
    found = {}
    for name, predictor in predictors.items():
        config = predictor.model.config
        model = EdfModel(replace(config, encoder=replace(config.encoder, voxel_size=None)))
        model.load_state_dict(predictor.model.state_dict())
        fine = Preparation(scene_voxel=1e-4, grasp_voxel=THIN.grasp_voxel)
        search = replace(COARSE, refine_steps=20)
        found[name] = replace(predictor, model=model, preparation=fine, search=search)
    return found


@pytest.fixture
def encoded(monkeypatch) -> list[int]:
    """Points of each cloud that a frame encodes."""
    sizes: list[int] = []

    def counting(model: EdfModel, cloud: PointCloud) -> Field:
        sizes.append(len(cloud))
        return encoded_field(model, cloud)

    monkeypatch.setattr(track_module, "encoded_field", counting)
    return sizes


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """Time passes with the points that are encoded, and not otherwise."""
    clock = Clock()
    clock.install(monkeypatch, track_module)

    def slow(model: EdfModel, cloud: PointCloud) -> Field:
        clock.now += PER_POINT * len(cloud)
        return encoded_field(model, cloud)

    monkeypatch.setattr(track_module, "encoded_field", slow)
    return clock


def clouds_of(demos: DemoSet, name: str) -> tuple[PointCloud, PointCloud | None]:
    step = demos[0].step(name)
    return step.scene, step.grasp if step.action.holding else None


def thin_clouds(demos: DemoSet, name: str) -> tuple[PointCloud, PointCloud | None]:
    scene, grasp = clouds_of(demos, name)
    return voxel_filter(scene, 0.025), grasp


def alone(found: RankedPoses) -> RankedPoses:
    """The poses without any knowledge of time: only what is near is looked at."""
    return RankedPoses(found.T_scene_gripper, found.energy, found.confidence, 0.0, found.gripper)


def contact_of(found: RankedPoses) -> np.ndarray:
    return (found.T_scene_gripper[0] @ found.gripper.T_gripper_contact)[:3, 3]


def row_of_scenes(scene: PointCloud, count: int = 3) -> PointCloud:
    """The scene, several times, 0.9 m apart."""
    parts, motion = [], np.eye(4)
    for number in range(count):
        motion[0, 3] = 0.9 * number
        parts.append(scene.transformed(motion))
    return concatenate(parts)


def moved_by(*twist: float) -> np.ndarray:
    return pose_exp(torch.tensor(twist, dtype=torch.float64)).numpy()


def known(found: RankedPoses) -> Tracked:
    """An answer whose work took as long as the clock of these tests says."""
    pace = track_module.Pace(PER_POINT, PER_POINT)
    return Tracked(
        found.T_scene_gripper, found.energy, found.confidence, found.seconds, found.gripper,
        pace=pace,
    )  # fmt: skip


# --- energies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STEPS)
def test_energies_near_the_last_pose_are_those_of_the_whole_scene(predictors, demos, name, encoded):
    predictor, (scene, grasp) = predictors[name], clouds_of(demos, name)
    scene = row_of_scenes(scene)
    first = predictor.sample(scene, grasp, n=1)
    moved = replace(
        first, T_scene_gripper=moved_by(0.05, 0, 0.05, 0.008, 0, 0)[None] @ first.T_scene_gripper
    )
    found = predictor.track(scene, replace(moved, seconds=0.0), grasp)
    assert (found.near, found.whole, found.parts) == (True, False, 0)
    assert len(encoded) == 1
    assert encoded[0] < 0.5 * predictor.look(scene, grasp).points
    rated = predictor.rate(found.T_scene_gripper, scene, grasp)
    np.testing.assert_allclose(found.energy, rated.energy, rtol=1e-4)
    np.testing.assert_allclose(found.confidence, rated.confidence, atol=1e-4)


def test_too_few_points_near_the_last_pose_change_energies(predictors, demos, monkeypatch):
    """The control of the law above."""
    predictor, (scene, _) = predictors["pick"], clouds_of(demos, "pick")
    first = replace(predictor.sample(scene, n=1), seconds=0.0)
    monkeypatch.setattr(EncoderConfig, "receptive_radius", 0.02)
    found = predictor.track(scene, first, reach=0.01)
    assert found.near
    rated = predictor.rate(found.T_scene_gripper, scene)
    assert abs(found.energy[0] / rated.energy[0] - 1.0) > 2e-4


# --- following ----------------------------------------------------------------------------------


def test_a_pose_goes_with_a_scene_that_moves_a_little(exact, demos):
    """With an empty gripper: the untrained energy of a full one is too flat to hold a pose."""
    predictor, (scene, _) = exact["pick"], thin_clouds(demos, "pick")
    answer = predictor.track(scene, None)
    assert answer.whole
    for _ in range(3):  # Until the pose is where the energy is lowest.
        answer = predictor.track(scene, alone(answer))
    start, motion = contact_of(answer), np.eye(4)
    for _ in range(3):
        motion = moved_by(0.01, 0.0, 0.02, 0.006, -0.004, 0.0) @ motion
        answer = predictor.track(scene.transformed(motion), alone(answer))
        assert (answer.near, answer.whole, answer.parts) == (True, False, 0)
    there = motion[:3, :3] @ start + motion[:3, 3]
    assert np.linalg.norm(there - start) > 0.01
    assert np.linalg.norm(there - contact_of(answer)) < 0.003
    everywhere = predictor.sample(scene, n=1)
    assert answer.energy[0] < 1.001 * everywhere.energy[0]


@pytest.mark.parametrize(("share", "stays"), [(0.5, True), (2.0, False)])
def test_the_followed_pose_is_kept_unless_another_is_worth_it(exact, demos, share, stays):
    predictor, (scene, _) = exact["pick"], thin_clouds(demos, "pick")
    some = predictor.sample(scene, n=20)
    poor = predictor.rate(some.T_scene_gripper[-1:], scene)
    settled = predictor.track(scene, alone(poor))
    apart = float(settled.energy[0] - some.energy[0])
    assert apart > 0
    # The temperature makes the difference of the two energies a share of what is worth moving.
    config = replace(predictor.model.config, temperature=apart / (share * WORTH_MOVING))
    model = EdfModel(config)
    model.load_state_dict(predictor.model.state_dict())
    found = replace(predictor, model=model).track(scene, settled, budget=None)
    assert found.whole
    assert (np.linalg.norm(contact_of(found) - contact_of(settled)) < 0.01) == stays


def test_more_poses_are_the_followed_one_and_then_the_best(exact, demos):
    predictor, (scene, _) = exact["pick"], thin_clouds(demos, "pick")
    found = predictor.track(scene, predictor.track(scene, None), n=5, budget=None)
    assert 2 <= len(found) <= 5
    assert (np.diff(found.energy[1:]) >= 0).all()
    assert found.energy[0] <= found.energy[1:].min() + WORTH_MOVING


# --- losing and finding -------------------------------------------------------------------------


@pytest.mark.parametrize("name", STEPS)
def test_a_target_that_jumped_is_found_again(exact, demos, name):
    predictor, (scene, grasp) = exact[name], thin_clouds(demos, name)
    first = predictor.track(scene, None, grasp)
    jump = moved_by(0.0, 0.0, 0.4, 1.2, 0.0, 0.0)
    found = predictor.track(scene.transformed(jump), first, grasp, budget=None)
    assert found.whole
    assert not found.near
    assert found.energy[0] < 1.02 * first.energy[0]
    stale = predictor.rate(first.T_scene_gripper, scene.transformed(jump), grasp)
    assert stale.energy[0] > 1.02 * first.energy[0]


def test_where_time_is_short_all_parts_are_looked_at_one_after_the_other(
    exact, demos, clock, monkeypatch
):
    monkeypatch.setattr(track_module, "SIDES", (0.4, 0.25))
    predictor, (scene, _) = exact["pick"], thin_clouds(demos, "pick")
    best = predictor.sample(scene, n=1)
    jumped = scene.transformed(moved_by(0.0, 0.0, 0.4, 1.2, 0.0, 0.0))
    quick = replace(predictor.search, refine_steps=2, starts=1)
    lost = replace(predictor, confidence=Confidence(-1.0, 0.01), search=quick)  # Never sure.
    answer, lowest, seen = known(best), np.inf, []
    for _ in range(200):
        answer = lost.track(jumped, answer, budget=1e-9)
        assert not answer.found
        assert answer.parts == 1
        seen.append(answer.next_part)
        lowest = min(lowest, float(answer.energy.min(initial=np.inf)))
        if answer.next_part == 0:
            break
    assert len(seen) > 4
    assert seen[:-1] == list(range(1, len(seen)))
    assert lowest < 1.05 * best.energy[0]


@pytest.mark.parametrize("budget", [None, 0.02])
def test_what_is_gone_is_not_answered_with_the_old_confidence(exact, demos, clock, budget):
    predictor, (scene, _) = exact["pick"], thin_clouds(demos, "pick")
    predictor = replace(predictor, model=copy.deepcopy(predictor.model))
    predictor.model.verifier = None  # It has learned nothing: energies shall tell.
    first = predictor.sample(scene, n=1)
    view = predictor.look(scene)
    framed = view.clouds.between_frames(first.T_scene_gripper)
    judged = view.judge(torch.from_numpy(framed).to(view.energy(0).queries.positions))
    evidence = float(judged.evidence[0])
    strict = replace(predictor, confidence=Confidence(evidence + 0.02, 0.001))
    first = known(strict.rate(first.T_scene_gripper, scene))
    assert first.found
    contact = contact_of(first)
    away = np.linalg.norm(scene.points - contact, axis=1)
    emptied = scene.selected(away > 0.12)
    answer: RankedPoses = first
    for _ in range(3):
        answer = strict.track(emptied, answer, budget=budget)
        for number, pose in enumerate(answer.T_scene_gripper):
            rated = strict.rate(pose[None], emptied)
            assert answer.confidence[number] == pytest.approx(rated.confidence[0], abs=1e-2)
        stays = len(answer) > 0 and np.linalg.norm(contact_of(answer) - contact) < REACH
        assert not (stays and answer.found)


# --- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [0.03, 0.1, 0.3])
def test_the_budget_is_kept(exact, demos, clock, budget):
    predictor, (scene, _) = exact["pick"], thin_clouds(demos, "pick")
    scene = row_of_scenes(scene)
    answer, parts = known(predictor.sample(scene, n=1)), 0
    for _ in range(4):
        answer = predictor.track(scene, answer, budget=budget)
        assert answer.near
        assert answer.seconds <= budget
        parts += answer.parts
    assert parts > 0 or budget < 0.05


def test_with_time_enough_the_whole_scene_is_looked_at(exact, demos, clock):
    predictor, (scene, _) = exact["pick"], thin_clouds(demos, "pick")
    last = known(predictor.sample(scene, n=1))
    assert predictor.track(scene, last, budget=1000.0).whole
    assert predictor.track(scene, last, budget=None).whole
    assert not predictor.track(scene, last, budget=0.001).whole


def test_work_that_got_slower_is_expected_to_be_slow(exact, demos, clock):
    predictor, (scene, _) = exact["pick"], thin_clouds(demos, "pick")
    fast = replace(known(predictor.sample(scene, n=1)), pace=track_module.Pace(1e-9, 1e-9))
    second = predictor.track(scene, fast, budget=0.05)
    assert second.seconds > 0.05  # It could not know.
    assert second.pace.search == pytest.approx(PER_POINT)
    third = predictor.track(scene, second, budget=0.05)
    assert third.seconds <= 0.05


# --- the boundary -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STEPS)
def test_the_same_frames_give_the_same_answers(exact, demos, name):
    predictor, (scene, grasp) = exact[name], thin_clouds(demos, name)
    answers = []
    for _ in range(2):
        answer = predictor.track(scene, None, grasp)
        answers.append(predictor.track(scene, answer, grasp, budget=None).T_scene_gripper)
    np.testing.assert_array_equal(*answers)


def test_a_workspace_bounds_the_answer(exact, demos):
    predictor, (scene, _) = exact["pick"], thin_clouds(demos, "pick")
    low, high = (corner.tolist() for corner in scene.bounds)
    middle = 0.5 * (low[0] + high[0])
    for box in (Box((low[0], *low[1:]), (middle, *high[1:])), Box((middle, *low[1:]), tuple(high))):
        found = predictor.track(scene, predictor.track(scene, None), workspace=box, budget=None)
        contact = (found.T_scene_gripper @ demos.gripper.T_gripper_contact)[:, :3, 3]
        assert box.contains(contact).all()
    with pytest.raises(EmptyCloudError, match="nothing of the scene is within"):
        predictor.track(scene, None, workspace=Box((50.0, 0.0, 0.0), (51.0, 1.0, 1.0)))


def test_what_cannot_be_tracked_is_one_sentence(exact, demos):
    predictor, (scene, _) = exact["pick"], thin_clouds(demos, "pick")
    last = predictor.sample(scene, n=1)
    for budget in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(OptionError, match="budget is"):
            predictor.track(scene, last, budget=budget)
    with pytest.raises(OptionError, match="reach is nan m"):
        predictor.track(scene, last, reach=np.nan)
    with pytest.raises(OptionError, match="n is 0"):
        predictor.track(scene, last, n=0)
    with pytest.raises(OptionError, match="another gripper"):
        predictor.for_gripper(gripper_named("franka-hand")).track(scene, last)
    with pytest.raises(GeometryError):
        predictor.track(scene, replace(last, T_scene_gripper=np.full((1, 4, 4), np.nan)))
    with pytest.raises(OptionError, match="no grasp cloud"):
        predictor.track(scene, last, demos[0].step("place").grasp)


def test_another_gripper_is_tracked_at_its_contact_frame(exact, demos):
    predictor, (scene, _) = exact["pick"], thin_clouds(demos, "pick")
    other = gripper_named("franka-hand")
    one = predictor.track(scene, predictor.track(scene, None), budget=None)
    retargeted = predictor.for_gripper(other)
    two = retargeted.track(scene, retargeted.track(scene, None), budget=None)
    np.testing.assert_allclose(
        two.T_scene_gripper @ other.T_gripper_contact,
        one.T_scene_gripper @ demos.gripper.T_gripper_contact,
        atol=1e-4,
    )


def test_a_stream_may_begin_with_nothing(exact, demos):
    predictor, (scene, _) = exact["pick"], thin_clouds(demos, "pick")
    found = predictor.track(scene, RankedPoses.nothing(predictor.gripper))
    assert found.whole
    assert len(found) == 1
    assert 0 < REACH < min(SIDES)
