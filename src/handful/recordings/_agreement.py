"""Whether depth images fit the poses that were recorded of cameras and arm.

What one view shows, another view of the same things must show in the same place, unless something
hides it there. A view that sees through it contradicts. The described hand must likewise be where
the arm says in the views of what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from jaxtyping import Float

from handful.clouds import Box, Intrinsics, RgbdView, largest_plane
from handful.demos import Gripper
from handful.recordings._camera import Pose, RecordingCamera
from handful.render import surface_points

POINTS = 400
"""Of each view that are looked for in the others: half of them beside the largest plane, because a
table looks the same when it is shifted along itself."""
NEAR, ROUGH = 0.015, 0.008
"""Metres, and share of the distance: depths that differ by less are of one surface. Calibrations
are off by some millimetres, and depth cameras by half a percent."""
BESIDE = 0.012
"""Metres from the largest plane from which on a point is beside it."""
HIDDEN = 0.25
"""Weight of points of which nothing is known: behind something, or outside of the other image."""
POOR_SCENES, POOR_HAND = 0.5, 0.35
"""Shares below these are poor. In the example right poses give 0.81 and 0.61; wrong ones 0 to 0.46
of scenes and 0 to 0.21 of the hand."""
SEEN_LEAST = 30
"""Points that must have been compared for a share to mean anything."""
WIDTHS, AROUND = 5, 0.1
"""Widths of the fingers that are tried, and metres from the contact point within which the hand is
looked for."""
CLOSEST = 0.02
"""Metres in front of a camera from which on it sees anything."""

Points = Float[np.ndarray, "points 3"]
Arm = Callable[[Pose], Pose]


@dataclass(frozen=True, eq=False)
class PosedView:
    """One depth image, and what was recorded of where it was taken.

    Attributes:
        camera: Name of the camera.
        depth: Metres; 0 where nothing was seen.
        intrinsics: Of the depth image.
        T_camera_depth: From its optical frame to that whose pose was recorded.
        T_robot_gripper: Where the arm says the gripper was, or None.
    """

    camera: str
    depth: Float[np.ndarray, "rows columns"]
    intrinsics: Intrinsics
    T_camera_depth: Pose
    T_robot_gripper: Pose | None

    @classmethod
    def of(cls, camera: RecordingCamera, view: RgbdView, T_robot_gripper: Pose | None) -> PosedView:
        """What a camera saw (`RecordingCamera.view`) when the gripper was there."""
        T_camera_depth = np.eye(4) if camera.depth is None else camera.T_color_depth
        return cls(camera.name, view.metres, view.intrinsics, T_camera_depth, T_robot_gripper)

    @cached_property
    def points(self) -> Float[np.ndarray, "some 3"]:
        """Some of what it shows, in the optical frame of the depth image."""
        row, column = np.nonzero(self.depth > 0.0)
        every = max(1, len(row) // 6000)
        row, column = row[::every], column[::every]
        z = self.depth[row, column]
        ray = self.intrinsics.rays(column.astype(np.float64), row.astype(np.float64))
        points = np.concatenate([ray * z[:, None], z[:, None]], axis=1)
        plane = largest_plane(points)
        if plane is None:
            return _some(points, POINTS)
        beside = np.abs(points @ plane.normal - plane.offset) > BESIDE
        on = _some(points[~beside], POINTS - min(POINTS // 2, int(beside.sum())))
        return np.concatenate([on, _some(points[beside], POINTS // 2)])


@dataclass(frozen=True)
class Fit:
    """How well images fit poses.

    Attributes:
        scenes: Share of what one view shows that other views of the same scene show, too, weighted
            (see `HIDDEN`); None where no two views can be compared.
        hand: The same for the described hand around its contact point, in views of what it holds,
            at the width of its fingers that fits best; None without such views or a shape.
    """

    scenes: float | None
    hand: float | None

    @property
    def worst(self) -> float | None:
        """The share that is the least of what right poses give; below 1 it is poor.

        None where nothing could be measured.
        """
        both = ((self.scenes, POOR_SCENES), (self.hand, POOR_HAND))
        parts = [share / poor for share, poor in both if share is not None]
        return min(parts, default=None)

    def measures_less(self, other: Fit) -> bool:
        """Whether something could be measured of another one and not of this one."""
        return (self.scenes is None and other.scenes is not None) or (
            self.hand is None and other.hand is not None
        )


class Views:
    """Posed views that are compared under several assumptions of where cameras and hand were.

    Args:
        scenes: Views of the same things, together.
        held: Views of the hand with what it holds.
        gripper: Whose hand that is.
        workspace: Points of scenes outside of it are not compared; robot's frame, or None.
    """

    def __init__(
        self,
        scenes: Sequence[Sequence[PosedView]],
        held: Sequence[PosedView],
        gripper: Gripper,
        workspace: Box | None,
    ) -> None:
        self._scenes, self._held, self._workspace = scenes, held, workspace
        self._hands = _hand_points(gripper)

    def fit(self, cameras: Mapping[str, RecordingCamera], arm: Arm = lambda pose: pose) -> Fit:
        """How well the images fit.

        Args:
            cameras: With the poses that are assumed.
            arm: What is assumed of the arm's poses, from those that were recorded.
        """
        scenes = np.zeros(3)
        for views in self._scenes:
            posed = [(view, _pose(view, cameras, arm)) for view in views]
            for (one, T), (two, T_two) in permutations(posed, 2):
                if one.camera != two.camera or cameras[one.camera].on_wrist:
                    shown = one.points @ T[:3, :3].T + T[:3, 3]
                    scenes += self._compared(shown, two, T_two)
        held = [
            (view, _pose(view, cameras, arm), arm(view.T_robot_gripper))
            for view in self._held
            if view.T_robot_gripper is not None
        ]
        shares = []
        for hand in self._hands if held else ():
            counts = np.zeros(3)
            for view, T, T_hand in held:
                counts += _counts(hand @ T_hand[:3, :3].T + T_hand[:3, 3], view, T)
            shares.append(_share(counts))
        known = [share for share in shares if share is not None]
        return Fit(_share(scenes), max(known) if known else None)

    def _compared(self, shown: Points, other: PosedView, T: Pose) -> Float[np.ndarray, "3"]:
        """Counts for points in the robot's frame; those beside the workspace are unknown."""
        if self._workspace is None:
            return _counts(shown, other, T)
        inside = self._workspace.contains(shown)
        beside = np.array([0.0, 0.0, float((~inside).sum())])
        return _counts(shown[inside], other, T) + beside


def _pose(view: PosedView, cameras: Mapping[str, RecordingCamera], arm: Arm) -> Pose:
    """From the depth image's optical frame to the robot's, as it is assumed."""
    hand = None if view.T_robot_gripper is None else arm(view.T_robot_gripper)
    found: Pose = cameras[view.camera].pose(hand) @ view.T_camera_depth
    return found


def _counts(points: Points, view: PosedView, T: Pose) -> Float[np.ndarray, "3"]:
    """How many points a view shows, sees through, and knows nothing of."""
    local = (points - T[:3, 3]) @ T[:3, :3]
    rows, columns = view.depth.shape
    ahead = local[local[:, 2] > CLOSEST]
    at = np.rint(view.intrinsics.project(ahead)) if len(ahead) else np.zeros((0, 2))
    inside = (at >= 0).all(axis=1) & (at < (columns, rows)).all(axis=1)
    column, row = at[inside].astype(np.int64).T
    depth, z = view.depth[row, column], ahead[inside, 2]
    known = depth > 0.0
    gap, near = depth[known] - z[known], NEAR + ROUGH * z[known]
    shown, through = float((np.abs(gap) <= near).sum()), float((gap > near).sum())
    return np.array([shown, through, len(points) - shown - through])


def _share(counts: Float[np.ndarray, "3"]) -> float | None:
    if counts.sum() < SEEN_LEAST:
        return None
    shown, through, unknown = counts.tolist()
    return float(shown / (shown + through + HIDDEN * unknown))


def _hand_points(gripper: Gripper) -> list[Points]:
    """Points on the hand around its contact point, at several widths of its fingers.

    What is held is shown to a camera, and the rest of the hand may be out of its view.
    """
    if gripper.shape is None:
        return []
    found = []
    for width in np.linspace(0.0, gripper.opening, WIDTHS).tolist():
        shape = gripper.with_width(width).shape
        assert shape is not None
        triangles = np.concatenate([vertices[faces] for vertices, faces in shape.surfaces()])
        points = surface_points(triangles, 10 * POINTS)
        far = np.linalg.norm(points - gripper.T_gripper_contact[:3, 3], axis=1)
        found.append(_some(points[far <= AROUND], POINTS))
    return [points for points in found if len(points) >= SEEN_LEAST]


def _some(points: Points, count: int) -> Float[np.ndarray, "some 3"]:
    """Points spread over all of them."""
    if len(points) <= count:
        return points
    return points[np.linspace(0, len(points) - 1, count).astype(int)]
