"""The predictor: clouds in, ranked gripper poses with energy and confidence out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float

from handful.clouds import Box, PointCloud
from handful.demos import Gripper, TaskStep
from handful.geometry import pose_apply
from handful.models import EdfModel, MatchEnergy, QueryPoints
from handful.policy._confidence import Confidence
from handful.policy._preparation import Preparation, PreparedClouds
from handful.policy._ranked import RankedPoses
from handful.policy._search import SearchConfig
from handful.policy._track import BUDGET, REACH, Tracked, track
from handful.policy._unlike import CloudStatistics
from handful.policy._view import SceneView
from handful.sampling import Sampler


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained model of one step with all that using it needs.

    Attributes:
        step: Name and action of the step.
        model: The network.
        trained_gripper: The gripper of the demonstrations.
        preparation: How clouds are prepared.
        search: How poses are looked for.
        confidence: From energies.
        other_gripper: Another gripper that is used instead (see `for_gripper`), or None.
        trained_on: What the scenes of the demonstrations are like; None in files of before.
    """

    step: TaskStep
    model: EdfModel
    trained_gripper: Gripper
    preparation: Preparation = field(default_factory=Preparation)
    search: SearchConfig = field(default_factory=SearchConfig)
    confidence: Confidence = field(default_factory=lambda: Confidence(0.0, 1.0))
    other_gripper: Gripper | None = None
    trained_on: CloudStatistics | None = None

    @property
    def gripper(self) -> Gripper:
        """The gripper that is used: poses and grasp clouds are in its frame."""
        return self.trained_gripper if self.other_gripper is None else self.other_gripper

    def for_gripper(self, gripper: Gripper) -> Predictor:
        """The same predictor for another gripper, without training.

        Two grippers that hold a thing alike have the same contact frame in the scene, so poses of
        a model for an empty gripper are moved by the two contact frames. A model for a gripper that
        holds something needs nothing: its poses are relative to the grasp cloud, whatever the frame
        of that cloud (the paper's right equivariance), and the hand is cut out of the cloud.
        """
        return replace(self, other_gripper=gripper)

    def energy(
        self, scene: PointCloud, grasp: PointCloud | None = None, own_frames: bool = True
    ) -> tuple[MatchEnergy, PreparedClouds]:
        """The energy of poses between the frames of the prepared clouds; they are encoded here.

        Args:
            scene: Scene cloud, metres.
            grasp: What the gripper holds, in the frame of `gripper`.
            own_frames: False leaves the clouds where they are, for pictures.
        """
        clouds = self.preparation.clouds(scene, grasp, self.gripper, own_frames)
        with torch.no_grad():
            return self.model(clouds.scene, clouds.grasp), clouds

    def look(
        self,
        scene: PointCloud,
        grasp: PointCloud | None = None,
        workspace: Box | None = None,
    ) -> SceneView:
        """The scene, prepared to be sampled and rated many times; it is encoded once.

        Args:
            scene: Scene cloud, metres, of any size.
            grasp: As for `sample`.
            workspace: As for `sample`.
        """
        return SceneView(self, scene, grasp, workspace)

    def sample(
        self,
        scene: PointCloud,
        grasp: PointCloud | None = None,
        n: int = 100,
        seed: int = 0,
        sampler: Sampler | None = None,
        workspace: Box | None = None,
    ) -> RankedPoses:
        """The distinct best poses in a scene, at most n.

        Args:
            scene: Scene cloud, metres. A scene that is too large to be encoded at once is cut into
                tiles (`SceneView`).
            grasp: What the gripper holds, in the gripper frame; only steps with something in the
                gripper take it.
            n: How many poses at most.
            seed: The same seed gives the same poses.
            sampler: Instead of the exhaustive search, for example `PaperSchedule()`.
            workspace: Where the contact point may go, scene frame. What lies too far from it to
                matter is never encoded. None for everywhere.
        """
        start = time.perf_counter()
        found = self.look(scene, grasp, workspace).sample(n, seed, sampler)
        return replace(found, seconds=time.perf_counter() - start)

    def track(
        self,
        scene: PointCloud,
        previous: RankedPoses | None,
        grasp: PointCloud | None = None,
        n: int = 1,
        budget: float | None = BUDGET,
        reach: float = REACH,
        workspace: Box | None = None,
    ) -> Tracked:
        """The best poses in the next frame of a stream, starting from the last answer.

        What is near the last pose is encoded, and the search begins there. If its confidence falls,
        the surroundings are searched; and the whole scene or parts of it, one after the other from
        frame to frame, as far as time allows. An answer of low confidence says that the target was
        not found in what was looked at in this frame.

        The budget is kept by what the same work took in earlier frames: work that would not be
        done in time is not begun. Three things are done whatever the budget: preparing the cloud;
        one look near the last pose or, where the target is lost, at one part of the scene; and the
        look at the whole scene with which a stream begins.

        Args:
            scene: Scene cloud, metres.
            previous: The answer to the frame before, or poses of `sample`. None begins a stream.
            grasp: As for `sample`.
            n: How many poses at most; the first is the one that is followed.
            budget: Seconds for this frame, or None for no limit.
            reach: How far the query points may move between two frames, metres.
            workspace: As for `sample`. What lies too far from it costs next to no time.
        """
        return track(self, scene, previous, grasp, n, budget, reach, workspace)

    def rate(
        self,
        T_scene_gripper: Float[np.ndarray, "poses 4 4"],
        scene: PointCloud,
        grasp: PointCloud | None = None,
    ) -> RankedPoses:
        """Poses from elsewhere with their energies and confidences, the best first.

        Args:
            T_scene_gripper: The poses.
            scene: Scene cloud, metres.
            grasp: As for `sample`.

        Raises:
            GeometryError: They are no poses.
        """
        start = time.perf_counter()
        rated = self.look(scene, grasp).rate(T_scene_gripper)
        return replace(rated, seconds=time.perf_counter() - start)

    def unlike(self, scene: PointCloud) -> list[str]:
        """In what a scene is unlike those of training, with what to do; a sentence for each."""
        if self.trained_on is None:
            return []
        return self.trained_on.unlike(scene, self.preparation.scene_voxel)

    def queries_of_gripper(self, energy: MatchEnergy) -> QueryPoints:
        """The query points of an energy in the frame of the gripper that is used, for pictures.

        Args:
            energy: From `energy` with `own_frames=False`.
        """
        T_gripper_trained = torch.from_numpy(np.linalg.inv(self.T_trained_gripper))
        moved = pose_apply(T_gripper_trained.to(energy.queries.positions), energy.queries.positions)
        rotation = T_gripper_trained[:3, :3].to(energy.queries.descriptors)
        turned = energy.types.rotated(energy.queries.descriptors, rotation)
        return QueryPoints(moved, energy.queries.weights, turned)

    def evidence(
        self, energy: MatchEnergy, energies: Float[np.ndarray, "poses"]
    ) -> Float[np.ndarray, "poses"]:
        """Energies as shares of what the query descriptors would cost against nothing at all.

        Weights and descriptors differ from one held object to the next. Only these shares can be
        compared between scenes, and confidence is a function of them.
        """
        return energies / max(energy.of_nothing(), 1e-12)

    @property
    def T_trained_gripper(self) -> Float[np.ndarray, "4 4"]:
        """From the gripper that is used to the frame that the model's poses are of.

        A model with query points from a grasp cloud has its poses in the frame of that cloud, which
        is the frame of the gripper that is used already.
        """
        if self.model.holding or self.other_gripper is None:
            return np.eye(4)
        return self.trained_gripper.T_gripper_other(self.gripper)
