"""The predictor: clouds in, ranked gripper poses with energy and confidence out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float

from handful.answers import PoseAnswer
from handful.clouds import Box, CloudLike, PointCloud, as_cloud
from handful.demos import Gripper, TaskStep
from handful.errors import OptionError
from handful.geometry import pose_apply
from handful.models import EdfModel, MatchEnergy, QueryPoints
from handful.policy._confidence import SURE_ENOUGH, Confidence
from handful.policy._crossings import Crossings
from handful.policy._feasibility import Limits
from handful.policy._motion import PRE_DISTANCE
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
        crossings: How far what is held seems to go through the scene in the demonstrations.
    """

    step: TaskStep
    model: EdfModel
    trained_gripper: Gripper
    preparation: Preparation = field(default_factory=Preparation)
    search: SearchConfig = field(default_factory=SearchConfig)
    confidence: Confidence = field(default_factory=lambda: Confidence(0.0, 1.0))
    other_gripper: Gripper | None = None
    trained_on: CloudStatistics | None = None
    crossings: Crossings = field(default_factory=Crossings)

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
        if not isinstance(gripper, Gripper):
            raise OptionError(
                f"gripper is of type {type(gripper).__name__}: need a Gripper, for example "
                "gripper_named('franka-hand')."
            )
        return replace(self, other_gripper=gripper)

    def __repr__(self) -> str:
        hand = self.gripper.name or "a gripper of its own"
        return f"Predictor(step {self.step.name!r}, {self.step.action.value}, {hand})"

    def energy(
        self, scene: CloudLike, grasp: CloudLike | None = None, own_frames: bool = True
    ) -> tuple[MatchEnergy, PreparedClouds]:
        """The energy of poses between the frames of the prepared clouds; they are encoded here.

        Args:
            scene: Scene cloud, metres.
            grasp: What the gripper holds, in the frame of `gripper`.
            own_frames: False leaves the clouds where they are, for pictures.
        """
        seen, held = self._clouds(scene, grasp)
        clouds = self.preparation.clouds(seen, held, self.gripper, own_frames)
        with torch.no_grad():
            return self.model(clouds.scene, clouds.grasp), clouds

    def look(
        self,
        scene: CloudLike,
        grasp: CloudLike | None = None,
        workspace: Box | None = None,
    ) -> SceneView:
        """The scene, prepared to be sampled and rated many times; it is encoded once.

        Args:
            scene: Scene cloud, metres, of any size; see `handful.clouds.CloudLike`.
            grasp: As for `sample`.
            workspace: As for `sample`.
        """
        return SceneView(self, *self._clouds(scene, grasp), workspace)

    def _clouds(
        self, scene: CloudLike, grasp: CloudLike | None
    ) -> tuple[PointCloud, PointCloud | None]:
        """What was given, as clouds."""
        return as_cloud(scene, "scene"), None if grasp is None else as_cloud(grasp, "grasp")

    def answer(
        self,
        scene: CloudLike,
        grasp: CloudLike | None = None,
        *,
        limits: Limits | None = None,
        n: int = 100,
        seed: int = 0,
        least_confidence: float = SURE_ENOUGH,
        pre_distance: float = PRE_DISTANCE,
        frame: str = "scene",
        stamp: float | None = None,
        beside: bool = True,
    ) -> PoseAnswer:
        """Poses for a robot: judged, feasible ones first, with approach, retreat and finger widths.

        Poses are judged for the described hand against the scene cloud and by the limits. What lies
        too far from their workspace to matter is left out first. Where no pose that is sure enough
        is feasible, poses beside the good ones are rated, too (`PoseSelection`). Infeasible poses
        are in the answer with their reason.

        Args:
            scene: Scene cloud, metres; see `handful.clouds.CloudLike`.
            grasp: As for `sample`.
            limits: Workspace, directions of approach and so on.
            n: How many poses at most.
            seed: The same seed gives the same poses.
            least_confidence: Poses of lower confidence are never chosen.
            pre_distance: Between a pose and its pre-pose and retreat pose, metres.
            frame: Name of the scene's frame, for the answer.
            stamp: When the scene was observed, seconds since 1970, for the answer.
            beside: Where no pose that is sure enough is feasible, look beside the good ones.
        """
        from handful.policy._answer import answer_for  # which selects poses of predictors

        seen, held = self._clouds(scene, grasp)
        return answer_for(
            self, seen, held, limits=limits, n=n, seed=seed, least_confidence=least_confidence,
            pre_distance=pre_distance, frame=frame, stamp=stamp, beside=beside,
        )  # fmt: skip

    def sample(
        self,
        scene: CloudLike,
        grasp: CloudLike | None = None,
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
        scene: CloudLike,
        previous: RankedPoses | None,
        grasp: CloudLike | None = None,
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
        seen, held = self._clouds(scene, grasp)
        return track(self, seen, previous, held, n, budget, reach, workspace)

    def rate(
        self,
        T_scene_gripper: Float[np.ndarray, "poses 4 4"],
        scene: CloudLike,
        grasp: CloudLike | None = None,
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

    def unlike(self, scene: CloudLike) -> list[str]:
        """In what a scene is unlike those of training, with what to do; a sentence for each."""
        if self.trained_on is None:
            return []
        return self.trained_on.unlike(as_cloud(scene, "scene"), self.preparation.scene_voxel)

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

    @property
    def T_trained_gripper(self) -> Float[np.ndarray, "4 4"]:
        """From the gripper that is used to the frame that the model's poses are of.

        A model with query points from a grasp cloud has its poses in the frame of that cloud, which
        is the frame of the gripper that is used already.
        """
        if self.model.holding or self.other_gripper is None:
            return np.eye(4)
        return self.trained_gripper.T_gripper_other(self.gripper)


def crossings_of(predictor: object) -> Crossings:
    """What demonstrations showed a predictor; nothing for those of other methods."""
    return predictor.crossings if isinstance(predictor, Predictor) else Crossings()
