"""Answers for a robot: poses that are judged, with approach, retreat and finger widths."""

from __future__ import annotations

import time

import numpy as np
import torch
from jaxtyping import Float

from handful._checks import (
    MAX_DERIVED_SEED,
    MAX_POSES,
    check_seed,
    real_number,
    shown,
    whole_number,
)
from handful.answers import AnsweredPose, PoseAnswer, Tracking
from handful.clouds import PointCloud
from handful.errors import OptionError
from handful.geometry import check_pose
from handful.policy._confidence import SURE_ENOUGH, check_least_confidence
from handful.policy._feasibility import Feasibility, Limits
from handful.policy._interfaces import TrainedPredictor
from handful.policy._motion import PRE_DISTANCE
from handful.policy._predictor import Predictor, crossings_of
from handful.policy._ranked import RankedPoses
from handful.policy._selection import PoseSelection
from handful.policy._track import Tracked
from handful.policy._verdict import Verdict
from handful.policy._width import width_between

MOST_BACK = 2.0
"""Metres between a pose and its pre-pose, at most: no arm backs off farther."""
LATEST = 1e11
"""Seconds since 1970 of a stamp, at most: a thousand years and more."""


def answer_for(
    predictor: TrainedPredictor,
    scene: PointCloud,
    grasp: PointCloud | None = None,
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
    """Poses of a predictor of any method for a robot; see `Predictor.answer`."""
    start = time.perf_counter()
    check_least_confidence(least_confidence)
    _check_said(pre_distance, frame, stamp)
    n = whole_number("n", n, 1, MAX_POSES)
    check_seed(seed, MAX_DERIVED_SEED)
    judge = _Judge(predictor, scene, grasp, limits)
    workspace = None if limits is None else limits.workspace
    if not beside:
        if isinstance(predictor, Predictor):
            ranked = predictor.look(scene, grasp, workspace).sample(n, seed)
        else:
            ranked = predictor.sample(scene, grasp, n, seed)
        return _answered(
            predictor, ranked, judge, scene, least_confidence=least_confidence,
            pre_distance=pre_distance, frame=frame, stamp=stamp, start=start,
        )  # fmt: skip
    selection = PoseSelection(
        predictor, predictor.gripper, scene, grasp, judge, n, seed, workspace, least_confidence,
        at_once=True,
    )  # fmt: skip
    if not len(selection.proposed) and selection.refusal is not None:
        raise selection.refusal
    kept = list(range(min(n, len(selection.proposed))))
    if selection.chosen is not None:
        kept = [selection.chosen, *(number for number in kept if number != selection.chosen)][:n]
    return _answered(
        predictor, selection.proposed.chosen(kept), judge, scene, least_confidence=least_confidence,
        pre_distance=pre_distance, frame=frame, stamp=stamp, start=start,
    )  # fmt: skip


def _answered(
    predictor: TrainedPredictor,
    ranked: RankedPoses,
    judge: _Judge,
    scene: PointCloud,
    *,
    least_confidence: float,
    pre_distance: float,
    frame: str,
    stamp: float | None,
    start: float,
) -> PoseAnswer:
    """Ranked poses, each judged and completed, feasible ones first.

    Args:
        predictor: That they come from.
        ranked: The poses.
        judge: Of poses.
        scene: What was seen.
        least_confidence: Poses of lower confidence are not chosen.
        pre_distance: Between a pose and its pre-pose and retreat pose, metres.
        frame: Name of the scene's frame.
        stamp: When the scene was observed.
        start: `time.perf_counter()` when the question was asked.
    """
    holding, opening = predictor.step.action.holding, predictor.gripper.opening
    poses = []
    for index, pose in enumerate(ranked.T_scene_gripper):
        motion, verdict = ranked.motion(index, pre_distance), judge(pose)
        between = opening if holding else width_between(scene.points, pose, predictor.gripper)
        poses.append(
            AnsweredPose(
                motion.T_scene_pre,
                motion.T_scene_gripper,
                motion.T_scene_retreat,
                width_before=None if holding else opening,
                width_after=between,
                energy=float(ranked.energy[index]),
                confidence=float(ranked.confidence[index]),
                feasible=bool(verdict),
                reason="" if verdict else verdict.reason or "no reason given",
            )
        )
    poses.sort(key=lambda pose: not pose.feasible)  # the order among each stays
    chosen, reason = _chosen(poses, least_confidence)
    return PoseAnswer(
        step=predictor.step.name,
        action=predictor.step.action.value,
        gripper=predictor.gripper.name,
        opening=opening,
        found=bool((ranked.confidence >= SURE_ENOUGH).any()),
        chosen=chosen,
        reason=reason,
        least_confidence=least_confidence,
        poses=tuple(poses),
        seconds=time.perf_counter() - start,
        frame=frame,
        stamp=stamp,
        warnings=tuple(predictor.unlike(scene)) if isinstance(predictor, Predictor) else (),
        tracking=Tracking(ranked.near, ranked.whole, ranked.parts)
        if isinstance(ranked, Tracked)
        else None,
    )


def _check_said(pre_distance: float, frame: str, stamp: float | None) -> None:
    """Refuse what a robot cannot use.

    Raises:
        OptionError: One is out of range, or of another type.
    """
    real_number("pre_distance", pre_distance, 0.0, MOST_BACK)
    if not isinstance(frame, str):
        raise OptionError(f"frame is {shown(frame)}: need its name, as text.")
    if stamp is not None:
        real_number("stamp", stamp, 0.0, LATEST)


def _chosen(poses: list[AnsweredPose], least_confidence: float) -> tuple[int | None, str]:
    """Number of the pose to execute, or why there is none."""
    if not poses:
        return None, "the model proposes nothing in this scene"
    for number, pose in enumerate(poses):
        if pose.feasible and pose.confidence >= least_confidence:
            return number, ""
    sure = [pose for pose in poses if pose.confidence >= least_confidence]
    if not sure:
        best = max(pose.confidence for pose in poses)
        return None, f"the best confidence is {best:.2f}: need at least {least_confidence:.2f}"
    return None, f"of {len(sure)} poses that are sure enough none is feasible: {sure[0].reason}"


class _Judge:
    """Judges each pose once.

    Args:
        predictor: Whose step and gripper.
        scene: Scene cloud.
        grasp: Grasp cloud, or None.
        limits: The user's.
    """

    def __init__(
        self,
        predictor: TrainedPredictor,
        scene: PointCloud,
        grasp: PointCloud | None,
        limits: Limits | None,
    ) -> None:
        if limits is not None and not isinstance(limits, Limits):
            raise OptionError(f"limits is {shown(limits)}: need Limits(...), or None.")
        crossings = crossings_of(predictor)
        self._feasible = Feasibility(
            predictor.step, predictor.gripper, scene, grasp, limits, crossings=crossings
        )
        self._known: dict[bytes, Verdict] = {}

    def __call__(self, T_scene_gripper: np.ndarray) -> Verdict:
        mark = T_scene_gripper.tobytes()
        if mark not in self._known:
            self._known[mark] = self._feasible(T_scene_gripper)
        return self._known[mark]


def rated_answer(
    predictor: Predictor,
    T_scene_gripper: Float[np.ndarray, "poses 4 4"],
    scene: PointCloud,
    grasp: PointCloud | None = None,
    *,
    limits: Limits | None = None,
    least_confidence: float = SURE_ENOUGH,
    pre_distance: float = PRE_DISTANCE,
    frame: str = "scene",
    stamp: float | None = None,
) -> PoseAnswer:
    """Poses from elsewhere, rated by the model and judged as those of `Predictor.answer`.

    Args:
        predictor: That rates them.
        T_scene_gripper: The poses.
        scene: Scene cloud.
        grasp: As for `Predictor.answer`.
        limits: The user's.
        least_confidence: Poses of lower confidence are not chosen.
        pre_distance: Between a pose and its pre-pose and retreat pose, metres.
        frame: Name of the scene's frame.
        stamp: When the scene was observed.
    """
    start = time.perf_counter()
    check_pose(torch.tensor(T_scene_gripper), name="poses")
    workspace = None if limits is None else limits.workspace
    rated = predictor.look(scene, grasp, workspace).rate(T_scene_gripper)
    judge = _Judge(predictor, scene, grasp, limits)
    return _answered(
        predictor, rated, judge, scene, least_confidence=least_confidence,
        pre_distance=pre_distance, frame=frame, stamp=stamp, start=start,
    )  # fmt: skip


def answer_to_track(
    predictor: Predictor,
    scene: PointCloud,
    tracked: Tracked,
    grasp: PointCloud | None = None,
    *,
    limits: Limits | None = None,
    least_confidence: float = SURE_ENOUGH,
    pre_distance: float = PRE_DISTANCE,
    frame: str = "scene",
    stamp: float | None = None,
) -> PoseAnswer:
    """The answer to one frame of a stream, from what `Predictor.track` found in it.

    Args:
        predictor: That was asked.
        scene: The frame.
        tracked: What was found in it.
        grasp: As for `Predictor.track`.
        limits: The user's.
        least_confidence: Poses of lower confidence are not chosen.
        pre_distance: Between a pose and its pre-pose and retreat pose, metres.
        frame: Name of the scene's frame.
        stamp: When the scene was observed.
    """
    start = time.perf_counter() - tracked.seconds
    judge = _Judge(predictor, scene, grasp, limits)
    return _answered(
        predictor, tracked, judge, scene, least_confidence=least_confidence,
        pre_distance=pre_distance, frame=frame, stamp=stamp, start=start,
    )  # fmt: skip
