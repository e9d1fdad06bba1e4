"""Curves of a training: how the loss falls, and how far energies come apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw

from handful.errors import OptionError
from handful.render import Color, write_caption

SIZE = (360, 190)
"""Width and height, pixels."""
_SMOOTHING = 0.9
"""Of the strong line; the faint one is what was measured."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 26, 22
_PAPER, _LINES = (250, 250, 252), (222, 224, 230)


@dataclass(frozen=True, eq=False)
class Curve:
    """One line of a chart.

    Attributes:
        name: For the legend.
        values: One for each step; NaN where there is none.
        color: Of the line.
    """

    name: str
    values: Sequence[float]
    color: Color


def picture_of_curves(
    curves: Sequence[Curve], steps: int, title: str = "", size: tuple[int, int] = SIZE
) -> Image.Image:
    """A chart of one or more curves over the steps of a training.

    Args:
        curves: The lines; they share the axes.
        steps: How many steps the training has: the width of the chart.
        title: Over it.
        size: Width and height, pixels.
    """
    if not curves:
        raise OptionError("picture_of_curves got no curve: give one or more.")
    image = Image.new("RGB", size, _PAPER)
    draw = ImageDraw.Draw(image)
    every = np.concatenate([np.asarray(curve.values, dtype=np.float64) for curve in curves])
    finite = every[np.isfinite(every)]
    low, high = np.percentile(finite, [1.0, 99.0]) if len(finite) else (0.0, 1.0)
    margin = 0.08 * max(float(high - low), 1e-6)
    low, high = float(low) - margin, float(high) + margin
    width, height = size[0] - _LEFT - _RIGHT, size[1] - _TOP - _BOTTOM
    for share in (0.0, 0.5, 1.0):
        y = _TOP + (1.0 - share) * height
        draw.line([(_LEFT, y), (size[0] - _RIGHT, y)], fill=_LINES)
        draw.text((4, y - 6), f"{low + share * (high - low):.3g}", fill=(90, 90, 96))
    for share in (0.0, 0.5, 1.0):
        text = f"{round(share * steps)}"
        draw.text((_LEFT + share * width - 3 * len(text), size[1] - 16), text, fill=(90, 90, 96))
    for number, curve in enumerate(curves):
        values = np.asarray(curve.values, dtype=np.float64)
        strong = tuple(round(255 * part) for part in curve.color)
        faint = tuple(round(255 - 0.3 * (255 - part)) for part in strong)
        for line, color, wide in ((values, faint, 1), (smoothed(values), strong, 2)):
            x = _LEFT + (np.arange(len(line)) + 1) / max(steps, 1) * width
            down = _TOP + (1.0 - (line - low) / (high - low)).clip(0.0, 1.0) * height
            shown = np.isfinite(down)
            if shown.sum() > 1:
                points = list(zip(x[shown].tolist(), down[shown].tolist(), strict=True))
                draw.line(points, fill=color, width=wide)
        draw.text((_LEFT + 8 + 120 * number, _TOP - 16), curve.name, fill=strong)
    if title:
        write_caption(image, title)
    return image


def smoothed(values: Float[np.ndarray, "steps"]) -> Float[np.ndarray, "steps"]:
    """Running means that forget; NaN is passed over."""
    means, total, weight = np.full(len(values), np.nan), 0.0, 0.0
    for index, value in enumerate(values):
        if np.isfinite(value):
            total = _SMOOTHING * total + (1.0 - _SMOOTHING) * value
            weight = _SMOOTHING * weight + (1.0 - _SMOOTHING)
        if weight > 0.0:
            means[index] = total / weight
    return means
