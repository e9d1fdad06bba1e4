"""Tracking: the last answer starts the search in the next frame, and a budget of time is kept."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float

from handful.clouds import Box, PointCloud
from handful.errors import OptionError
from handful.geometry import check_pose
from handful.models import MatchEnergy
from handful.policy._confidence import SURE_ENOUGH
from handful.policy._evidence import Judged
from handful.policy._ranked import RankedPoses
from handful.policy._tiles import Tile
from handful.policy._view import SceneView, encoded_field
from handful.sampling import NothingToSearch

if TYPE_CHECKING:
    from handful.policy._predictor import Predictor

BUDGET = 0.1
"""Seconds for a frame: a camera of 10 Hz."""
REACH = 0.03
"""Metres that the query points may move between two frames: 0.3 m/s at 10 Hz."""
FOLLOW_STEPS = 6
"""Most steps of refinement from the last pose, which is near: less than a search needs."""
STARTS = 6
"""Minima of a lattice that are refined, at least, where time is limited."""
WORTH_MOVING = 1.0
"""Energy by which another pose must be lower than the followed one to take its place: the odds of
the two, exp(-E), then differ by a factor e."""
SIDES = (0.4, 0.2, 0.1)
"""Metres: the scene is looked at in cubes of the largest of these sides that time allows."""
SLOWER = 1.25
"""Work is expected to take this multiple of what it took before."""
FORGET = 0.2
"""Share of the difference by which a pace falls when work was faster than expected."""


@dataclass(frozen=True)
class Pace:
    """How long work took in earlier frames, in seconds for each encoded point; None is unknown.

    Attributes:
        follow: To encode what is near the last pose, and to go to the minimum there.
        search: To encode all of the scene or a part of it, and to search it.
    """

    follow: float | None = None
    search: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Tracked(RankedPoses):
    """Poses in one frame of a stream, and what the next frame needs to know of this one.

    The first pose is the followed one. Others have a lower energy only if by less than
    `WORTH_MOVING`; they are sorted among themselves.

    Attributes:
        near: Whether what is near the last pose was looked at.
        whole: Whether all of the scene was looked at.
        parts: How many parts of the scene were looked at beside that.
        next_part: Number of the part that is looked at next.
        pace: How long the work took.
    """

    near: bool = False
    whole: bool = False
    parts: int = 0
    next_part: int = 0
    pace: Pace = Pace()


def track(
    predictor: Predictor,
    scene: PointCloud,
    previous: RankedPoses | None,
    grasp: PointCloud | None,
    n: int,
    budget: float | None,
    reach: float,
    workspace: Box | None,
) -> Tracked:
    """See `Predictor.track`."""
    start = time.perf_counter()
    if budget is not None and not (math.isfinite(budget) and budget > 0):
        raise OptionError(f"budget is {budget} s: need a positive number, or None for no limit.")
    if not (math.isfinite(reach) and 0 < reach < 1):
        raise OptionError(f"reach is {reach} m: need more than 0 and less than 1.")
    if n < 1:
        raise OptionError(f"n is {n}: need at least 1 pose.")
    if previous is not None and previous.gripper != predictor.gripper:
        raise OptionError("the previous poses are of another gripper: give poses of this one.")
    frame = Frame(predictor, scene, grasp, workspace, previous, n, reach)
    deadline = math.inf if budget is None or previous is None else start + budget
    if previous is not None and previous.found:
        frame.follow()
        if frame.worse_than(previous) or n > 1:
            frame.search_near(deadline)
    frame.search_elsewhere(deadline)
    return replace(frame.answer(), seconds=time.perf_counter() - start)


class Frame(SceneView):
    """One frame of a stream: prepared as a whole, encoded only where it is looked at.

    The scene is thinned as for `Predictor.sample`, and all points that the key field can depend on
    within reach of the last pose are encoded: energies are those of the whole scene.

    Args:
        predictor: Whose model and search are used.
        scene: Scene cloud, metres.
        grasp: What the gripper holds, in the gripper frame, or None.
        workspace: Where the contact point may go, scene frame; None for everywhere.
        previous: The answer to the frame before, or None.
        n: How many poses are answered at most.
        reach: How far from its last place the center of the query points is looked for, metres.
    """

    def __init__(
        self,
        predictor: Predictor,
        scene: PointCloud,
        grasp: PointCloud | None,
        workspace: Box | None,
        previous: RankedPoses | None,
        n: int,
        reach: float,
    ) -> None:
        super().__init__(predictor, scene, grasp, workspace)
        self._n, self._reach = n, reach
        nothing = self._queries.positions.new_zeros(0, 4, 4)
        self._found = Judged(nothing, nothing[:, 0, 0], nothing[:, 0, 0])
        self._followed = False  # The first of the poses is the followed one.
        self._near: MatchEnergy | None = None
        self._whole, self._parts, self._next_part, self._pace = False, 0, 0, Pace()
        self._last = nothing
        if isinstance(previous, Tracked):
            self._next_part, self._pace = previous.next_part, previous.pace
        elif previous is not None and previous.seconds > 0:
            self._pace = Pace(search=previous.seconds / self.points)
        if previous is not None and len(previous):
            T_scene_gripper = previous.T_scene_gripper[:1]
            check_pose(torch.tensor(T_scene_gripper))
            T_gripper_trained = np.linalg.inv(predictor.T_trained_gripper)
            framed = self._clouds.between_frames(T_scene_gripper @ T_gripper_trained)
            self._last = torch.from_numpy(framed).to(self._queries.positions)

    def worse_than(self, previous: RankedPoses) -> bool:
        """Whether the followed pose is lost, or its energy rose by enough to look for another."""
        if self._lost:
            return True
        return bool(float(self._found.energies.min()) > previous.energy[0] + WORTH_MOVING)

    # --- looking ---------------------------------------------------------------------------

    def follow(self) -> None:
        """Encode what is near the last pose, and go from there to the minimum of the energy."""
        start = time.perf_counter()
        tile = self._near_tile()
        if len(tile.points) < 2:  # Whatever was there is gone.
            return
        self._near = self._energy_of(tile)
        search = self._search(self._near)
        search = replace(search, refine_steps=min(search.refine_steps, FOLLOW_STEPS))
        self._add(self._judged(self._near, *search.refined(self._near, tile.core, self._last)))
        self._followed = True
        pace = _pace_after(self._pace.follow, time.perf_counter() - start, len(tile.points))
        self._pace = replace(self._pace, follow=pace)

    def search_near(self, deadline: float) -> None:
        """Search within reach of the last pose, unless that takes too long."""
        tile = self._near_tile()
        if self._near is not None and self._time(tile) <= deadline - time.perf_counter():
            self._add(self._searched(self._near, tile.core))

    def search_elsewhere(self, deadline: float) -> None:
        """Search all of the scene, or parts of it, as time allows.

        If nothing good was found so far, at least one part is searched, whatever the time; what
        nothing is known about yet is searched as a whole then.

        Args:
            deadline: Value of `time.perf_counter()` before which it must be done.
        """
        if deadline == math.inf or (self._pace.search is None and self._lost):
            self._search_whole()
            return
        must = self._lost
        while not self._whole and self._pace.search is not None:
            left = deadline - time.perf_counter()
            part, count = self._part(left)
            if not must and self._time(part) > left:
                return
            self._timed(part)
            self._parts += 1
            self._next_part = (self._next_part + 1) % count
            self._whole = self._parts == count
            must = False

    def _search_whole(self) -> None:
        """Search as `Predictor.sample` does, however long it takes."""
        start, generator = time.perf_counter(), torch.Generator().manual_seed(0)
        if len(self.tiles) == 1:
            starts = self._predictor.search.starts
            self._add(self._searched(self.energy(0), self._domain, starts))
        else:
            self._add(self._sampled_by_tile(self._n, generator))
        pace = _pace_after(self._pace.search, time.perf_counter() - start, self.points)
        self._pace = replace(self._pace, search=pace)
        self._whole, self._next_part = True, 0

    def _timed(self, part: Tile) -> None:
        """Search a part, and remember how long it took."""
        start = time.perf_counter()
        if len(part.points) >= 2:
            self._add(self._searched(self._energy_of(part), part.core))
        pace = _pace_after(self._pace.search, time.perf_counter() - start, len(part.points))
        self._pace = replace(self._pace, search=pace)

    def _searched(self, energy: MatchEnergy, box: Box, starts: int = STARTS) -> Judged:
        """The minima of a lattice in a box, refined."""
        search = replace(self._search(energy), starts=starts)
        generator = torch.Generator().manual_seed(0)
        try:
            minima, energies = search.candidates(energy, box, self._n, generator)
        except NothingToSearch:
            return self._found.selected(torch.arange(0))
        if len(minima):
            minima, energies = search.refined(energy, box, minima, self._n)
        return self._judged(energy, minima, energies)

    def _energy_of(self, tile: Tile) -> MatchEnergy:
        model = self._predictor.model
        cloud = self._points
        if len(tile.points) < len(cloud):
            cloud = cloud.selected(tile.points)
        return model.energy(encoded_field(model, cloud), self._queries)

    def _add(self, more: Judged) -> None:
        self._found = Judged.joined([self._found, more])

    # --- answering -------------------------------------------------------------------------

    def answer(self) -> Tracked:
        """The best poses of all looks."""
        judged, rank = self._found, self._found.energies.clone()
        if self._followed and float(self._sure()[0]) >= SURE_ENOUGH:
            rank[0] -= WORTH_MOVING
        if self._workspace is not None:
            fine = self._in_workspace(judged.poses)
            judged, rank = judged.selected(fine), rank[fine]
        best = self._predictor.search.rules().distinct(self._centred(judged.poses), rank, self._n)
        found = self._ranked(judged.selected(best), time.perf_counter())
        return Tracked(
            found.T_scene_gripper, found.energy, found.confidence, found.seconds, found.gripper,
            self._near is not None, self._whole, self._parts, self._next_part, self._pace,
        )  # fmt: skip

    @property
    def _lost(self) -> bool:
        """Whether no good pose has been found in this frame so far."""
        return len(self._found) == 0 or float(self._sure().max()) < SURE_ENOUGH

    def _sure(self) -> Float[np.ndarray, "poses"]:
        return self._predictor.confidence.of(self._found.evidence.double().numpy())

    # --- parts of the scene ----------------------------------------------------------------

    def _time(self, tile: Tile) -> float:
        """Seconds that searching a tile is expected to take; unknown is too long."""
        pace = self._pace.search
        return math.inf if pace is None else SLOWER * pace * len(tile.points)

    def _near_tile(self) -> Tile:
        """What matters to poses within reach of the last one."""
        if len(self._last) == 0:
            return Tile(self._domain, np.zeros(0, dtype=np.int64))
        center = self._centred(self._last)[0, :3, 3].double().numpy()
        return self._tile(center, self._reach)

    def _part(self, seconds: float) -> tuple[Tile, int]:
        """The next part of the scene, and how many there are.

        Parts are the cubes with points in them, and around each as much as the lattices of
        neighbouring parts must overlap. Their side is the largest with which the next part can be
        searched in a time, or the smallest.
        """
        part, count = Tile(self._domain, np.arange(self.points)), 1
        if len(self.tiles) == 1 and self._time(part) <= seconds:
            return part, count
        low = self._points.points.min(axis=0)
        around = self._overlap + self._spread
        for side in SIDES:
            cells = np.unique(np.floor((self._points.points - low) / side), axis=0)
            cell, count = cells[self._next_part % len(cells)], len(cells)
            part = self._tile(low + side * (cell + 0.5), 0.5 * side + around)
            if self._time(part) <= seconds:
                break
        return part, count

    def _tile(self, center: Float[np.ndarray, "3"], half: float) -> Tile:
        """A cube with all points that the key field at query points can depend on in it."""
        radius = self._sight + self._predictor.model.config.encoder.receptive_radius
        beside = np.maximum(np.abs(self._points.points - center) - half, 0.0)
        near = np.flatnonzero((beside**2).sum(axis=1) <= radius**2)
        low, high = (center - half).tolist(), (center + half).tolist()
        return Tile(Box((low[0], low[1], low[2]), (high[0], high[1], high[2])), near)


def _pace_after(old: float | None, seconds: float, points: int) -> float:
    """A pace that rises at once when work gets slower, and falls slowly when it gets faster."""
    new = seconds / max(points, 1)
    return new if old is None or new > old else old + FORGET * (new - old)
