"""One demonstration is learned in a short training, and its poses are found, also when moved."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from handful.demos import DemoSet, make_sample
from handful.learning import recipe_for, train
from handful.learning.variation import ContextDropout, Variation
from handful.policy import Predictor

STEPS = {"pick": 60, "place": 40}
"""Optimiser steps: seconds. The demonstration is learned by heart, without any variation."""


@pytest.fixture(scope="module")
def demos() -> DemoSet:
    return make_sample(1, seed=4)


def learn(demos: DemoSet, name: str, steps: int) -> Predictor:
    recipe = recipe_for(demos, name, steps=steps)
    whole = ContextDropout(probability=0.0)
    by_heart = replace(recipe.objective, variation=Variation(context=whole, held_context=whole))
    training = replace(recipe.training, batch=1)
    return train(demos, replace(recipe, objective=by_heart, training=training))


@pytest.fixture(scope="module")
def learned(demos) -> dict[str, Predictor]:
    return {name: learn(demos, name, steps) for name, steps in STEPS.items()}


def errors(found: np.ndarray, target: np.ndarray, contact: np.ndarray) -> tuple[float, float]:
    """Distance at the contact point in metres, and angle in radians."""
    away = np.linalg.norm((found - target) @ np.append(contact, 1.0))
    turn = Rotation.from_matrix(found[:3, :3].T @ target[:3, :3]).magnitude()
    return float(away), float(turn)


def random_motion(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    motion = np.eye(4)
    motion[:3, :3] = Rotation.random(rng=rng).as_matrix()
    motion[:3, 3] = rng.uniform(-0.2, 0.2, 3)
    return motion


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_a_demonstration_is_learned_and_its_pose_found_wherever_it_is(learned, demos, name):
    step, predictor = demos[0].step(name), learned[name]
    contact = demos.gripper.T_gripper_contact[:3, 3]
    clouds = (step.scene, step.grasp) if step.action.holding else (step.scene,)
    target = step.targets[0]
    poses = predictor.sample(*clouds, n=10)
    assert poses.found
    away, turn = errors(poses.T_scene_gripper[0], target, contact)
    assert away < 0.01
    assert turn < 0.2
    motion = random_motion(3)
    moved = predictor.sample(clouds[0].transformed(motion), *clouds[1:], n=10)
    away, turn = errors(moved.T_scene_gripper[0], motion @ target, contact)
    assert away < 0.01
    assert turn < 0.2
    # The broken control: the pose that was right before the motion is not right any more.
    away, turn = errors(moved.T_scene_gripper[0], target, contact)
    assert away > 0.02 or turn > 0.4


@pytest.mark.slow
def test_an_untrained_model_does_not_find_it(demos):
    step = demos[0].step("pick")
    predictor = learn(demos, "pick", 1)
    found = predictor.sample(step.scene, n=1).T_scene_gripper[0]
    contact = demos.gripper.T_gripper_contact[:3, 3]
    away, turn = errors(found, step.targets[0], contact)
    assert away > 0.02 or turn > 0.4
