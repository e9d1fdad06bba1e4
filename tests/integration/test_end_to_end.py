"""One demonstration is learned in a short training, and its poses are found, also when moved."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from handful.demos import Demonstration, DemoSet, Step, make_sample
from handful.learning import GraspQueryObjective, recipe_for, train
from handful.learning.variation import ContextDropout, Variation, focus_of
from handful.policy import Predictor

STEPS = 80
"""Optimiser steps: seconds. The demonstration is learned by heart, without any variation."""

AROUND = 0.15
"""Metres of the scene that are shown around its target: steps cost as much as there are points."""

NEAR, LIKE = 0.015, 0.35
"""Metres and radians: a pose that is found differs from the demonstrated one by less."""


@pytest.fixture(scope="module")
def demos() -> DemoSet:
    whole = make_sample(1, seed=4)
    contact = whole.gripper.T_gripper_contact[:3, 3]

    def cropped(step: Step) -> Step:
        away = np.linalg.norm(step.scene.points - focus_of(step, contact), axis=1)
        return step.changed(scene=step.scene.selected(away < AROUND))

    (demo,) = whole
    cut = Demonstration(demo.name, tuple(cropped(step) for step in demo.steps))
    return DemoSet((cut,), whole.gripper)


def learn(demos: DemoSet, name: str, steps: int) -> Predictor:
    recipe = recipe_for(demos, name, steps=steps)
    whole = ContextDropout(probability=0.0)
    by_heart = replace(recipe.objective, variation=Variation(context=whole, held_context=whole))
    coarse = replace(by_heart.negatives, spacing=0.03, rotations=200)
    by_heart = replace(by_heart, negatives=coarse)
    if isinstance(by_heart, GraspQueryObjective):
        by_heart = replace(by_heart, candidates=4, strongest=4)
    training = replace(recipe.training, batch=1)
    return train(demos, replace(recipe, objective=by_heart, training=training))


def touching_point(demos: DemoSet, name: str) -> np.ndarray:
    """Where the gripper, or what it holds, touches the scene; gripper frame."""
    step = demos[0].step(name)
    focus = focus_of(step, demos.gripper.T_gripper_contact[:3, 3])
    return (np.linalg.inv(step.targets[0]) @ np.append(focus, 1.0))[:3]


def errors(found: np.ndarray, target: np.ndarray, point: np.ndarray) -> tuple[float, float]:
    """Distance in metres at a point of the gripper frame, and angle in radians."""
    away = np.linalg.norm((found - target) @ np.append(point, 1.0))
    turn = Rotation.from_matrix(found[:3, :3].T @ target[:3, :3]).magnitude()
    return float(away), float(turn)


def random_motion(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    motion = np.eye(4)
    motion[:3, :3] = Rotation.random(rng=rng).as_matrix()
    motion[:3, 3] = rng.uniform(-0.2, 0.2, 3)
    return motion


@pytest.mark.slow(seconds=20)
@pytest.mark.parametrize("name", ["pick", "place"])
def test_a_demonstration_is_learned_and_its_pose_found_wherever_it_is(demos, name):
    step, predictor = demos[0].step(name), learn(demos, name, STEPS)
    point = touching_point(demos, name)
    clouds = (step.scene, step.grasp) if step.action.holding else (step.scene,)
    target = step.targets[0]
    poses = predictor.sample(*clouds, n=10)
    assert poses.found
    away, turn = errors(poses.T_scene_gripper[0], target, point)
    assert away < NEAR
    assert turn < LIKE
    motion = random_motion(3)
    moved = predictor.sample(clouds[0].transformed(motion), *clouds[1:], n=10)
    away, turn = errors(moved.T_scene_gripper[0], motion @ target, point)
    assert away < NEAR
    assert turn < LIKE
    # The broken control: the pose that was right before the motion is not right any more.
    away, turn = errors(moved.T_scene_gripper[0], target, point)
    assert away > NEAR or turn > LIKE


@pytest.mark.slow
def test_an_untrained_model_does_not_find_it(demos):
    step = demos[0].step("pick")
    predictor = learn(demos, "pick", 1)
    found = predictor.sample(step.scene, n=1).T_scene_gripper[0]
    away, turn = errors(found, step.targets[0], touching_point(demos, "pick"))
    assert away > NEAR or turn > LIKE
