"""Training: one demonstration, changed at random, and what the network says of its yaw."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from handful.baselines.transporter._augmentation import ImageAugmentation
from handful.baselines.transporter._config import TransporterConfig
from handful.baselines.transporter._image import Points
from handful.baselines.transporter._loss import pose_loss
from handful.baselines.transporter._model import TransporterModel, turned_about
from handful.baselines.transporter._planar import yaw_number, yaw_of
from handful.demos import DemoSet, Gripper
from handful.learning import Loss
from handful.policy import without_hand

NEXT = 2
"""Yaws that are at most so many numbers from the right one are next to it."""


@dataclass(frozen=True, eq=False)
class TransporterExample:
    """A demonstrated step, ready to be drawn.

    Attributes:
        scene: The scene cloud.
        held: What the gripper holds, as `PlanarFrame.held` moves it; None for an empty gripper.
        T_scene_contact: Right poses of the contact frame.
    """

    scene: Points
    held: Points | None
    T_scene_contact: Float[np.ndarray, "targets 4 4"]


@dataclass(frozen=True)
class TransporterObjective:
    """The loss of a demonstration.

    Attributes:
        gripper: Of the demonstrations.
        augmentation: What is changed.
        near_yaws: How many of the yaws next to the right one compete with it in a step.
        far_yaws: How many of the others do; 0 for all yaws, near and far.
    """

    gripper: Gripper
    augmentation: ImageAugmentation
    near_yaws: int = 1
    far_yaws: int = 1

    def loss(
        self,
        model: TransporterModel,
        example: TransporterExample,
        rng: np.random.Generator,
        progress: float,
    ) -> Loss:
        """See `pose_loss`.

        Args:
            model: What is trained.
            example: The demonstration.
            rng: Of all that is drawn.
            progress: Not looked at.
        """
        config, change = model.config, self.augmentation
        pose = example.T_scene_contact[rng.integers(len(example.T_scene_contact))]
        motion = change.motion(pose[:2, 3], config.image, rng)
        scene = change.noisy(example.scene.moved(motion), rng)
        held = None if example.held is None else change.noisy(example.held, rng)
        pose = change.perturbed(motion @ pose, rng)
        T_scene_gripper = pose @ np.linalg.inv(self.gripper.T_gripper_contact)
        planar = config.poses.planar(T_scene_gripper, self.gripper)
        right = yaw_number(planar.yaw, config.yaws)
        numbers, weights = self._yaws(right, config.yaws, rng)
        scores = model(scene, held, numbers)
        target = (0, *_pixel(config, (planar.x, planar.y), right))
        loss = pose_loss(
            scores.logits, scores.rest, scores.valid, torch.tensor(weights), target,
            torch.from_numpy(planar.rest).float(), config.holding,
        )  # fmt: skip
        energy, others = -loss.target.item(), -loss.others.item()
        return Loss(loss.total, loss.likelihood.item(), energy, others, ())

    def _yaws(
        self, right: int, count: int, rng: np.random.Generator
    ) -> tuple[list[int], list[float]]:
        """The right yaw and some others, and for how many each stands."""
        others = [number for number in range(count) if number != right]
        if self.far_yaws == 0:
            return [right, *others], [1.0] * count
        near = [number for number in others if min((number - right) % count,
                                                   (right - number) % count) <= NEXT]  # fmt: skip
        far = [number for number in others if number not in near]
        numbers, weights = [right], [1.0]
        for group, few in ((near, self.near_yaws), (far, self.far_yaws)):
            if group:
                drawn = rng.choice(group, size=min(few, len(group)), replace=False).tolist()
                numbers += drawn
                weights += [len(group) / len(drawn)] * len(drawn)
        return numbers, weights


def _pixel(config: TransporterConfig, place: tuple[float, float], yaw: int) -> tuple[int, int]:
    """Row and column of a place in the images of a yaw, moved to the edge if it is outside."""
    if config.holding:
        frame, at = config.image, np.array(place)
    else:
        frame = config.turned
        at = turned_about(np.array(place), -yaw_of(yaw, config.yaws), config.center)
    row, column = frame.pixel_of(float(at[0]), float(at[1]))
    most = frame.pixels - 1
    return min(max(row, 0), most), min(max(column, 0), most)


def examples_of(demos: DemoSet, step: str, config: TransporterConfig) -> list[TransporterExample]:
    """The demonstrations of a step, ready to be drawn."""
    T_base_gripper = config.poses.held(demos.gripper)
    made = []
    for one in demos.steps(step):
        held = None
        if config.holding and one.grasp is not None:
            held = Points.of(without_hand(one.grasp, demos.gripper)).moved(T_base_gripper)
        contacts = one.targets @ demos.gripper.T_gripper_contact
        made.append(TransporterExample(Points.of(one.scene), held, contacts))
    return made


def fitted_config(demos: DemoSet, step: str, size: TransporterConfig) -> TransporterConfig:
    """A configuration whose image and poses fit the demonstrations of a step.

    The image is about the middle of the demonstrated scenes.
    """
    steps = demos.steps(step)
    contacts = np.concatenate([one.targets @ demos.gripper.T_gripper_contact for one in steps])
    boxes = [(one.scene.points.min(0) + one.scene.points.max(0)) / 2.0 for one in steps]
    center = np.round(np.median(boxes, axis=0)[:2].astype(float), 3)
    size = replace(size, center=tuple(center.tolist()))
    frame = size.poses.fitting(contacts)
    poses = [frame.planar(pose, demos.gripper)
             for one in steps for pose in one.targets]  # fmt: skip
    rest = np.array([pose.rest for pose in poses])
    roll = math.atan2(np.sin(rest[:, 1]).mean(), np.cos(rest[:, 1]).mean())
    middle = (float(rest[:, 0].mean()), roll, float(rest[:, 2].mean()))
    return replace(size, base=frame.base, middle=middle)
