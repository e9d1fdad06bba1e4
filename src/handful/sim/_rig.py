"""How the world is seen: how many cameras, how noisy, and whether the arm is in their way."""

from __future__ import annotations

from dataclasses import dataclass

from handful.errors import OptionError
from handful.render import DepthNoise, noise_named

MOST_CAMERAS, MOST_VIEWS = 3, 6


@dataclass(frozen=True)
class CameraRig:
    """The depth cameras of a world.

    Attributes:
        cameras: On the scene, 1 to 3: the first stands across from the robot, beside its line of
            sight, the second to the robot's left, the third behind its right side.
        grasp_views: Pictures of the hand and of what it holds, 1 to 6.
        noise: Name of a noise model, one of `NOISES`.
        arm_in_view: The robot and what it holds are in the scene cameras' pictures. The robot
            drives home before it looks, and drops the points that are its own by its known shape
            and joint angles (`without_robot`).
    """

    cameras: int = MOST_CAMERAS
    grasp_views: int = MOST_VIEWS
    noise: str = "none"
    arm_in_view: bool = False

    def __post_init__(self) -> None:
        for name, most in (("cameras", MOST_CAMERAS), ("grasp_views", MOST_VIEWS)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise OptionError(f"CameraRig.{name} is {value!r}: need a number from 1 to {most}.")
        noise_named(self.noise)

    @property
    def depth_noise(self) -> DepthNoise:
        """What every camera adds."""
        return noise_named(self.noise)

    @property
    def words(self) -> str:
        """All of it in words, for tables and files of results."""
        words = [
            f"{self.cameras} camera{'s' if self.cameras > 1 else ''}",
            f"{self.grasp_views} grasp view{'s' if self.grasp_views > 1 else ''}",
            f"noise {self.noise}",
        ]
        return ", ".join(words + (["arm in view"] if self.arm_in_view else []))

    @property
    def special(self) -> str:
        """The same; empty for the default rig, which results and files do not name."""
        return "" if self == DEFAULT_RIG else self.words


DEFAULT_RIG = CameraRig()
"""Three cameras, six views of the hand, no noise, no arm: as in the paper."""
