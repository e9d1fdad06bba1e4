"""The predictor: poses at which the descriptors are those of the demonstrations."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float

from handful._checks import MAX_POSES, whole_number
from handful.baselines.ndf._demonstrated import above_table
from handful.baselines.ndf._model import NdfModel
from handful.baselines.ndf._registration import standing_pose
from handful.baselines.ndf._search import low_poses
from handful.clouds import CloudLike, PointCloud, as_cloud
from handful.demos import Gripper, TaskStep
from handful.errors import OptionError
from handful.policy import RankedPoses, Segmentation, Segments, without_hand


@dataclass(eq=False)
class _LastAnswer:
    """The poses of the clouds that were asked about last; robots ask again about the same ones."""

    scene: object = None
    grasp: object = None
    poses: RankedPoses | None = None


@dataclass(frozen=True, eq=False)
class NdfPredictor:
    """Neural Descriptor Fields of one step.

    They cannot find an object among others: somebody must say which points are the object's
    (`told`). If nobody does, everything in sight is taken for it. Nor can they find the target:
    where it stands is found by its known cloud among the points that are said to be its.

    The method knows no confidence: all poses have confidence 1.

    Attributes:
        step: Name and action of the step.
        model: The model.
        trained_gripper: The gripper of the demonstrations.
        other_gripper: Another gripper that is used instead, or None.
        segmentation: Says which points are the object's and the target's; None if nobody does.
    """

    step: TaskStep
    model: NdfModel
    trained_gripper: Gripper
    other_gripper: Gripper | None = None
    segmentation: Segmentation | None = None
    _last: _LastAnswer = field(default_factory=_LastAnswer, repr=False)

    @property
    def gripper(self) -> Gripper:
        """The gripper that is used."""
        return self.trained_gripper if self.other_gripper is None else self.other_gripper

    def for_gripper(self, gripper: Gripper) -> NdfPredictor:
        """The same predictor for another gripper: its contact frame goes where the old one would.

        For a full gripper nothing changes: fields are of what is held, whatever holds it.
        """
        return replace(self, other_gripper=gripper, _last=_LastAnswer())

    def told(self, segmentation: Segmentation) -> NdfPredictor:
        """The same predictor with somebody who says which points are the object's."""
        return replace(self, segmentation=segmentation, _last=_LastAnswer())

    def sample(
        self, scene: CloudLike, grasp: CloudLike | None = None, n: int = 100, seed: int = 0
    ) -> RankedPoses:
        """The ends of the descents, the lowest energy first.

        Args:
            scene: Scene cloud, metres.
            grasp: What the gripper holds, in the gripper frame.
            n: How many poses at most.
            seed: Not looked at: starts are those of the model's own seed, as in the original, which
                searches once.
        """
        whole_number("n", n, 1, MAX_POSES)
        last = self._last
        if last.poses is None or last.scene is not scene or last.grasp is not grasp:
            last.poses = self._searched(scene, grasp)
            last.scene, last.grasp = scene, grasp
        found = last.poses
        return RankedPoses(
            found.T_scene_gripper[:n], found.energy[:n], found.confidence[:n], found.seconds,
            self.gripper,
        )  # fmt: skip

    def _searched(self, scene: CloudLike, grasp: CloudLike | None) -> RankedPoses:
        start = time.perf_counter()
        if (grasp is not None) != self.model.config.holding:
            raise OptionError(
                f"the gripper {'is empty' if grasp is not None else 'holds something'} in the step "
                f"{self.step.name!r}: give {'no' if grasp is not None else 'a'} grasp cloud."
            )
        held = None if grasp is None else as_cloud(grasp, "grasp")
        segments = self._segments(as_cloud(scene, "scene"), held)
        energy = self.model.energy(segments.object)
        poses, energies = low_poses(
            energy, self.model.queries.mean(0), energy.field.center, self.model.config.search
        )
        T_scene_gripper = self._gripper_poses(poses.double().numpy(), segments)
        seconds = time.perf_counter() - start
        ones = np.ones(len(energies))
        return RankedPoses(T_scene_gripper, energies.double().numpy(), ones, seconds, self.gripper)

    def _segments(self, scene: PointCloud, grasp: PointCloud | None) -> Segments:
        if self.segmentation is not None:
            return self.segmentation(scene, grasp)
        whole = scene if grasp is None else without_hand(grasp, self.gripper)
        return Segments(whole, above_table(scene))

    def _gripper_poses(
        self, found: Float[np.ndarray, "poses 4 4"], segments: Segments
    ) -> Float[np.ndarray, "poses 4 4"]:
        """T_scene_gripper from poses of the query points in the frame of the object's cloud."""
        if self.model.config.holding:
            known = self.model.target.numpy()
            return standing_pose(known, segments.target.points) @ np.linalg.inv(found)
        contact = self.trained_gripper.T_gripper_contact
        return found @ contact @ np.linalg.inv(self.gripper.T_gripper_contact)


def learn_poses(
    model: NdfModel,
    objects: list[PointCloud],
    poses: list[Float[np.ndarray, "4 4"]],
    queries: Float[np.ndarray, "queries 3"],
) -> None:
    """Give a model its query points and the mean of their descriptors over demonstrations.

    Args:
        model: The model, with its network trained.
        objects: The object of each demonstration.
        poses: Of the query points in the frame of the object's cloud.
        queries: The query points.
    """
    found = []
    with torch.no_grad():
        for cloud, pose in zip(objects, poses, strict=True):
            where = queries @ pose[:3, :3].T + pose[:3, 3]
            found.append(model.field(cloud)(torch.from_numpy(where).float()))
        model.queries.copy_(torch.from_numpy(queries))
        model.descriptors.copy_(torch.stack(found).mean(0))
