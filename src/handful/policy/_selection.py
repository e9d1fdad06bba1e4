"""Pose selection: the best feasible pose of a predictor, with its second and third tries."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from handful.clouds import Box, PointCloud
from handful.demos import Gripper
from handful.errors import HandfulError
from handful.policy._confidence import LEAST_CONFIDENCE, SURE_ENOUGH
from handful.policy._contact import check_same_contact
from handful.policy._interfaces import PosePredictor, RatingPredictor
from handful.policy._lookahead import LookedAhead, Outlook, Prospect
from handful.policy._perturb import perturbed
from handful.policy._predictor import Predictor
from handful.policy._ranked import RankedPoses
from handful.policy._verdict import Verdict
from handful.policy._view import SceneView

GOOD = 0.5
"""Good poses have at least this share of the best one's confidence, or the predictor is sure."""
WORSE_ODDS = 10.0
"""Odds of the best pose to be right over those of a good one, at most, by their confidences and by
their energies, exp(-E). Where the best poses are out of reach, poses beside them are better than
others that are much less likely: those are mostly on something else."""
FIRST = 16
"""How many poses a predictor is asked for first: mostly one of them is executed."""
ATTEMPTS = 3
"""How often a predictor is asked, at most, if the robot can execute none of its good poses."""
PERTURBED, PERTURBATIONS = 8, 256
"""How many of the best poses are perturbed, and how many poses are made of them."""
_SEEDS_APART = 1_000_003


class PoseSelection:
    """The first feasible pose of a predictor, in the order of its ranking.

    The predictor is asked for `FIRST` poses. Where none of the good ones is feasible, it is asked
    for all `samples`, which begin with the first ones. Where none of these is feasible, it rates
    perturbed ones, and then it is asked again with other random numbers, since more good poses
    might be feasible. Poses that are not good are tried last, and poses that are not sure enough
    not at all.

    With an outlook on the next step, the first feasible pose stands back if the next step could not
    follow from it, and for the first one from which it could. Where there is none, or nothing can
    be told, the order of the predictor stands.

    Args:
        predictor: Asked for poses.
        gripper: What executes them.
        scene: Scene cloud X.
        grasp: Grasp cloud Y, for steps with something in the gripper.
        feasible: Judges a pose T_scene_gripper.
        samples: Poses that the predictor is asked for, at most.
        seed: The same seed gives the same selection.
        workspace: Where the contact point may go, scene frame; a `Predictor` encodes nothing that
            is too far from it to matter. None for everywhere.
        least_confidence: Poses of lower confidence are never chosen.
        outlook: On the next step; None if there is nothing to look ahead to.
        at_once: Ask for all `samples` poses at once, and not for the `FIRST` before them.

    A `Predictor` encodes the clouds once, however often it is asked.

    Attributes:
        proposed: All poses that the predictor proposed or rated. An answer of `samples` poses
            takes the place of that of the `FIRST`.
        chosen: Which of them is to be executed; None if none is feasible and sure enough.
        skipped: How many poses were found infeasible before that one, by reason.
        seconds: Time that the predictor took.
        looked_ahead: What the outlook brought; None if there is none, or nothing was feasible.
        refusal: The error with which the predictor last refused to answer, if it did.
    """

    def __init__(
        self,
        predictor: PosePredictor,
        gripper: Gripper,
        scene: PointCloud,
        grasp: PointCloud | None,
        feasible: Callable[[np.ndarray], Verdict],
        samples: int,
        seed: int,
        workspace: Box | None = None,
        least_confidence: float = LEAST_CONFIDENCE,
        outlook: Outlook | None = None,
        at_once: bool = False,
    ) -> None:
        self._predictor, self._scene, self._grasp = predictor, scene, grasp
        self._workspace = workspace
        self._view: SceneView | None = None
        self._gripper, self._feasible = gripper, feasible
        self._samples, self._seed = samples, seed
        self._least, self._outlook = least_confidence, outlook
        self.refusal: HandfulError | None = None
        self.skipped: Counter[str] = Counter()
        self.seconds = 0.0
        self.proposed = RankedPoses.nothing(gripper)
        self.chosen: int | None = None
        self.looked_ahead: LookedAhead | None = None
        self._choose(at_once)

    @property
    def T_scene_gripper(self) -> Float[np.ndarray, "4 4"] | None:
        """The pose to execute."""
        return None if self.chosen is None else self.proposed.T_scene_gripper[self.chosen]

    @property
    def why_none(self) -> str:
        """Why no pose was chosen, for people."""
        if not len(self.proposed):
            return str(self.refusal or "the predictor proposed nothing")
        sure = int((self.proposed.confidence >= self._least).sum())
        which = f"none of {sure} poses"
        if sure < len(self.proposed):
            which += f" that are sure enough, of {len(self.proposed)}"
        most = ", ".join(f"{reason} ({times})" for reason, times in self.skipped.most_common(2))
        return f"{which}: {most}" if most else which

    def _choose(self, at_once: bool) -> None:
        if self._samples > FIRST and not at_once:
            self._try_first()
        good, tried = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        best = RankedPoses.nothing(self._gripper)
        for attempt in range(ATTEMPTS):
            if self.chosen is not None:
                return
            more = self._asked(attempt, self.proposed.T_scene_gripper[good[:PERTURBED]])
            best = more.chosen([0]) if attempt == 0 and len(more) else best
            good = len(self.proposed) + self._good(more, best)
            tried = np.concatenate([tried, good])
            self.proposed = self.proposed.followed_by(more)
            self.chosen = self._first_feasible(good)
            if attempt == 0 and len(good) == 0:
                break
        if self.chosen is None:
            by_energy = np.argsort(self.proposed.energy, kind="stable")
            left = by_energy[~np.isin(by_energy, tried)]
            sure = self.proposed.confidence[left] >= self._least
            self.chosen = self._first_feasible(left[sure])

    def _try_first(self) -> None:
        """Choose among few poses; forget them if no good one is feasible."""
        few = self._timed(lambda: self._sampled(FIRST, self._seed))
        if not len(few):
            return
        self.proposed = few
        self.chosen = self._first_feasible(self._good(few, few.chosen([0])))
        if self.chosen is None:
            self.proposed = RankedPoses.nothing(self._gripper)
            self.skipped.clear()

    def _asked(self, attempt: int, T_scene_good: Float[np.ndarray, "good 4 4"]) -> RankedPoses:
        """What the predictor answers the first, second or third time; nothing if it refuses."""
        seed = self._seed + attempt * _SEEDS_APART
        if attempt == 1 and isinstance(self._predictor, RatingPredictor):
            rng = np.random.default_rng(seed)
            return self._timed(
                lambda: self._rated(perturbed(T_scene_good, PERTURBATIONS, self._gripper, rng))
            )
        return self._timed(lambda: self._sampled(self._samples, seed))

    def _timed(self, question: Callable[[], RankedPoses]) -> RankedPoses:
        """What the predictor answers, or nothing if it refuses; its time is added up."""
        start = time.perf_counter()
        try:
            answer = question()
        except HandfulError as error:
            self.refusal = error
            answer = RankedPoses.nothing(self._gripper)
        self.seconds += time.perf_counter() - start
        check_same_contact(answer.gripper, self._gripper)
        return answer

    def _sampled(self, count: int, seed: int) -> RankedPoses:
        if isinstance(self._predictor, Predictor):
            return self._looked(self._predictor).sample(count, seed)
        return self._predictor.sample(self._scene, self._grasp, n=count, seed=seed)

    def _rated(self, T_scene_gripper: Float[np.ndarray, "poses 4 4"]) -> RankedPoses:
        if isinstance(self._predictor, Predictor):
            return self._looked(self._predictor).rate(T_scene_gripper)
        assert isinstance(self._predictor, RatingPredictor)
        return self._predictor.rate(T_scene_gripper, self._scene, self._grasp)

    def _looked(self, predictor: Predictor) -> SceneView:
        """The scene, encoded once for all questions."""
        if self._view is None:
            self._view = predictor.look(self._scene, self._grasp, self._workspace)
        return self._view

    def _first_feasible(self, numbers: Int[np.ndarray, "poses"]) -> int | None:
        """The first feasible pose, or one that the outlook prefers to it."""
        first: int | None = None
        before_first: Counter[str] = Counter()
        skipped: Counter[str] = Counter()
        chosen = None
        for number in numbers.tolist():
            if first is not None and (self._outlook is None or self._outlook.is_over):
                break
            pose = self.proposed.T_scene_gripper[number]
            verdict = self._feasible(pose)
            if not verdict:
                skipped[verdict.reason or "no reason given"] += 1
                continue
            if first is None:
                first, before_first = number, skipped.copy()
            prospect = Prospect.UNKNOWN if self._outlook is None else self._outlook(pose)
            if prospect is Prospect.FEASIBLE:
                chosen = number
                break
            if prospect is Prospect.UNKNOWN and number == first:
                break
        self.skipped += skipped if first is None or chosen is not None else before_first
        chosen = first if chosen is None else chosen
        if self._outlook is not None and chosen is not None:
            self.looked_ahead = self._outlook.record(changed=chosen != first)
        return chosen

    def _good(self, answer: RankedPoses, best: RankedPoses) -> Int[np.ndarray, "good"]:
        """Numbers of the good poses of an answer, told from the best pose there is, if any."""
        if not len(best):
            return np.flatnonzero(answer.confidence >= max(SURE_ENOUGH, self._least))
        sure = float(best.confidence[0])
        as_likely = sure / (sure + WORSE_ODDS * (1.0 - sure))
        enough = max(self._least, min(SURE_ENOUGH, GOOD * sure), as_likely)
        likely = answer.energy <= best.energy[0] + np.log(WORSE_ODDS)
        return np.flatnonzero((answer.confidence >= enough) & likely)
