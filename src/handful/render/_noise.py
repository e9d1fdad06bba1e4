"""What real depth cameras add to a picture: noise models, named after the sensors they imitate."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from scipy.ndimage import convolve1d, maximum_filter, minimum_filter

from handful.clouds import RgbdView
from handful.errors import OptionError, unknown_name_message

EDGE = 0.01
"""Metres by which depth bends at an edge, from one pixel to the next."""


@dataclass(frozen=True)
class DepthNoise:
    """What a real depth camera adds.

    The error of a pixel at depth z is normal with the standard deviation

        std(z) = floor + sigma * max(z - start, 0)^2.

    A share `correlated` of its variance is smooth over the picture: stereo cameras match windows
    of pixels, and neighbours share most of theirs. The correlation of two pixels that are d apart
    is `correlated * exp(-d^2 / (2 * correlation^2))`. At depth edges some pixels see nothing, and
    some see a mixture of both sides: a flying pixel, anywhere between the nearest and the farthest
    depth of the 3 x 3 pixels around it.

    Attributes:
        sigma: Growth of the standard deviation, metres per square metre; with `floor` and `start`
            zero, the standard deviation at a distance of one metre.
        edge_drop: Share of the pixels at depth edges that see nothing.
        floor: Standard deviation up to the distance `start`, metres.
        start: Where the standard deviation begins to grow, metres.
        correlated: Share of the variance that is correlated over the picture, 0 to 1.
        correlation: Length of that correlation, pixels.
        flying: Share of the pixels at depth edges that see a mixture of both sides.
    """

    sigma: float = 0.0
    edge_drop: float = 0.0
    floor: float = 0.0
    start: float = 0.0
    correlated: float = 0.0
    correlation: float = 2.0
    flying: float = 0.0

    def __post_init__(self) -> None:
        limits = {
            "sigma": (0.0, 0.1), "edge_drop": (0.0, 1.0), "floor": (0.0, 0.1), "start": (0.0, 10.0),
            "correlated": (0.0, 1.0), "correlation": (0.1, 50.0), "flying": (0.0, 1.0),
        }  # fmt: skip
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if not (np.isfinite(value) and least <= value <= most):
                raise OptionError(f"DepthNoise.{name} is {value}: need {least:g} to {most:g}.")
        if self.edge_drop + self.flying > 1.0:
            raise OptionError(
                f"DepthNoise loses {self.edge_drop} of the edge pixels and lets {self.flying} fly: "
                "need shares that add up to 1 or less."
            )

    def std(self, depth: Float[np.ndarray, "*size"]) -> Float[np.ndarray, "*size"]:
        """Standard deviation at some depths, metres."""
        return self.floor + self.sigma * np.maximum(depth - self.start, 0.0) ** 2

    def applied(self, view: RgbdView, rng: np.random.Generator) -> RgbdView:
        """The view as a noisy camera would have taken it."""
        depth = np.asarray(view.depth, dtype=np.float64)
        seen = depth > 0
        noise = rng.standard_normal(depth.shape)
        if self.correlated > 0.0:
            smooth = smooth_noise(depth.shape, self.correlation, rng)
            noise = np.sqrt(1.0 - self.correlated) * noise + np.sqrt(self.correlated) * smooth
        edges, fate = _edges(depth), rng.uniform(size=depth.shape)
        lost = edges & (fate < self.edge_drop)
        clean = depth
        if self.flying > 0.0:
            flying = edges & seen & ~lost & (fate < self.edge_drop + self.flying)
            clean = np.where(flying, _mixed(depth, rng.uniform(size=depth.shape)), depth)
        noisy = clean + self.std(clean) * noise
        return replace(view, depth=np.where(seen & ~lost, noisy, 0.0))


@dataclass(frozen=True)
class NoiseModel:
    """A noise model with a name.

    Attributes:
        noise: What it adds.
        about: What it imitates.
        source: Where its numbers come from, and which of them are our own.
    """

    noise: DepthNoise
    about: str
    source: str


NO_NOISE = DepthNoise()

NOISES = {
    "none": NoiseModel(NO_NOISE, "no noise", "exact depth, as in the paper's simulation"),
    "usual": NoiseModel(
        DepthNoise(sigma=0.003, edge_drop=0.5),
        "a usual depth camera, in two numbers",
        "our own: 3 mm at 1 m, each pixel by itself, half of the edge pixels lost; what this "
        "project's results with a noisy camera are measured with",
    ),
    "realsense-d435": NoiseModel(
        DepthNoise(
            sigma=0.0038, edge_drop=0.5, correlated=0.8, correlation=2.0, flying=0.25
        ),
        "Intel RealSense D435, active stereo",
        "Intel, 'Tuning depth cameras for best performance': depth RMS error = distance^2 * "
        "subpixel / (focal length * baseline), with 848 columns over 90 degrees (424 px), 50 mm, "
        "and the subpixel of 0.08 that its author advises (librealsense, issue 3904): 3.8 mm at "
        "1 m. Correlation and shares at edges are our own: none are published",
    ),
    "azure-kinect": NoiseModel(
        DepthNoise(sigma=0.0014, edge_drop=0.5, flying=0.25),
        "Microsoft Azure Kinect, time of flight",
        "Microsoft's specification of the random error, 17 mm or less, which Tölgyessy et al. "
        "(Sensors 21, 413, 2021) confirm up to 3.5 m; it grows with the distance. Taken as 17 mm "
        "at 3.5 m and a growth with the square of the distance: 1.4 mm at 1 m, an upper bound. "
        "Pixels at edges hold signals of both sides and are invalidated where that is noticed "
        "(Microsoft, 'Azure Kinect DK depth camera'); the shares are our own",
    ),
    "kinect-v1": NoiseModel(
        DepthNoise(
            sigma=0.0019, edge_drop=0.5, floor=0.0012, start=0.4, correlated=0.5, correlation=2.0,
            flying=0.1,
        ),
        "Microsoft Kinect (2010), structured light",
        "Nguyen, Izadi and Lovell, 'Modeling Kinect sensor noise for improved 3D reconstruction "
        "and tracking' (3DIMPVT 2012), axial noise of surfaces that face the camera: 1.2 mm + "
        "1.9 mm (z - 0.4)^2, z in metres: 1.9 mm at 1 m. Correlation and shares at edges are our "
        "own",
    ),
}  # fmt: skip
"""Noise models by name; add your own. Correlation lengths are in pixels of the simulated cameras,
one of which covers about two of a D435's along each side."""


def noise_named(name: str) -> DepthNoise:
    """The noise of that name.

    Raises:
        OptionError: There is none.
    """
    if name not in NOISES:
        raise OptionError(unknown_name_message("noise", name, NOISES))
    return NOISES[name].noise


def smooth_noise(
    size: tuple[int, ...], correlation: float, rng: np.random.Generator
) -> Float[np.ndarray, "h w"]:
    """Normal noise of variance 1 with the correlation exp(-d^2 / (2 correlation^2)).

    White noise, convolved with a Gaussian of the standard deviation correlation / sqrt(2). The
    weights' squares add up to 1, and the picture is taken as a torus: so the variance is 1
    everywhere.

    Args:
        size: Rows and columns.
        correlation: Pixels.
        rng: For the white noise.
    """
    reach = int(np.ceil(3.0 * correlation))
    weights = np.exp(-((np.arange(-reach, reach + 1) / correlation) ** 2))
    weights /= np.sqrt((weights**2).sum())
    noise = rng.standard_normal(size)
    for axis in (0, 1):
        noise = convolve1d(noise, weights, axis=axis, mode="wrap")
    return noise


def _edges(depth: Float[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """Pixels where depth bends by more than `EDGE`; a slanted plane does not bend."""
    around = np.pad(depth, 1, mode="edge")
    across = around[1:-1, 2:] + around[1:-1, :-2] - 2.0 * depth
    along = around[2:, 1:-1] + around[:-2, 1:-1] - 2.0 * depth
    return np.maximum(np.abs(across), np.abs(along)) > EDGE


def _mixed(
    depth: Float[np.ndarray, "h w"], share: Float[np.ndarray, "h w"]
) -> Float[np.ndarray, "h w"]:
    """Depths between the nearest and the farthest that the 3 x 3 pixels around saw."""
    seen = depth > 0
    near = minimum_filter(np.where(seen, depth, np.inf), size=3, mode="nearest")
    far = maximum_filter(np.where(seen, depth, 0.0), size=3, mode="nearest")
    near = np.where(np.isfinite(near), near, 0.0)
    return near + share * (far - near)
