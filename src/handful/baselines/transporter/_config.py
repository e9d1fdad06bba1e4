"""The configuration of a Transporter Network, and its two sizes."""

from __future__ import annotations

from dataclasses import dataclass

from handful._checks import real_number, whole_number
from handful.baselines.transporter._image import ImageFrame
from handful.baselines.transporter._planar import PlanarFrame
from handful.errors import OptionError

LOWEST_HELD = -0.2
"""Lowest height below the contact point of what is held that is drawn, metres."""


@dataclass(frozen=True)
class TransporterConfig:
    """One model.

    Attributes:
        holding: Whether it is for a gripper that holds something: transport instead of attention.
        center: x and y of the middle of the image, metres, scene frame.
        base: Of the poses (`PlanarFrame`).
        middle: Middle of the demonstrated z, roll and pitch; what is regressed is relative to it.
        pixels: Along each side of the image; a multiple of 8.
        pixel_size: Metres.
        splat: Pixels that a point covers besides its own, on each side.
        turned_pixels: Along each side of the turned images of attention; a multiple of 8. More
            than `pixels`, since corners stand out.
        kernel_pixels: Along each side of the images of what is held; a multiple of 8.
        yaws: How many, evenly spaced.
        width: Channels of the networks as a share of the original's.
        blocks: Bottlenecks of each stage; the original has two.
        embedding: Channels that the heads of attention read.
        kernels: Kernels of transport; the heads read the match of each.
        kernel_channels: Channels of each kernel.
    """

    holding: bool
    center: tuple[float, ...] = (0.0, 0.0)
    base: str = "down"
    middle: tuple[float, ...] = (0.0, 0.0, 0.0)
    pixels: int = 104
    pixel_size: float = 0.005
    splat: int = 0
    turned_pixels: int = 128
    kernel_pixels: int = 48
    yaws: int = 36
    width: float = 0.25
    blocks: int = 1
    embedding: int = 20
    kernels: int = 10
    kernel_channels: int = 10

    def __post_init__(self) -> None:
        for name in ("pixels", "turned_pixels", "kernel_pixels"):
            value = whole_number(f"transporter {name}", getattr(self, name), 16, 384)
            if value % 8:
                raise OptionError(f"transporter {name} is {value}: need a multiple of 8.")
        real_number("transporter pixel_size", self.pixel_size, 1e-4, 0.1)
        real_number("transporter width", self.width, 1e-2, 1.5)
        whole_number("transporter blocks", self.blocks, 1, 4)
        whole_number("transporter yaws", self.yaws, 1, 72)
        whole_number("transporter splat", self.splat, 0, 8)
        for name in ("embedding", "kernels", "kernel_channels"):
            whole_number(f"transporter {name}", getattr(self, name), 1, 32)
        if len(self.center) != 2 or len(self.middle) != 3:
            raise OptionError(
                f"transporter center has {len(self.center)} and middle {len(self.middle)} numbers: "
                "need two and three."
            )
        for number in (*self.center, *self.middle):
            real_number("transporter center and middle", number, -1000.0, 1000.0)
        PlanarFrame(self.base)

    @property
    def poses(self) -> PlanarFrame:
        """How poses become planar ones."""
        return PlanarFrame(self.base)

    @property
    def image(self) -> ImageFrame:
        """The image of the scene."""
        return ImageFrame.around(self.center, self.pixels, self.pixel_size, self.splat)

    @property
    def turned(self) -> ImageFrame:
        """The images of the scene that attention turns about the middle."""
        return ImageFrame.around(self.center, self.turned_pixels, self.pixel_size, self.splat)

    @property
    def kernel(self) -> ImageFrame:
        """The images of what is held."""
        return ImageFrame.about_origin(self.kernel_pixels, self.pixel_size, LOWEST_HELD, self.splat)
