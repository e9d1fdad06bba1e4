"""Charts as SVG text, drawn by hand: lines, and success rates with their intervals."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from handful._names import printable
from handful.bench.report._statistics import Summary

_INK, _SOFT, _LINE = "#1d2430", "#5b6677", "#e2e7ee"
COLORS = (
    "#2b6be4", "#e07b39", "#0f9d7a", "#a44fc4", "#c23b5a", "#7a8b1f", "#2aa5c9", "#8a5a3b",
)  # fmt: skip
"""Of the lines of a chart, in order; a chart with more lines begins anew, with dashes."""
_Spot = Callable[[float, float], str]
_FONT = 'font-family="system-ui, sans-serif"'
_LEGEND_ROW = 18.0
"""Pixels from one row of a legend to the next."""
MOST = 1e12
"""Values beyond this in size are not drawn: an axis that holds them shows nothing else."""


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a chart.

    Attributes:
        name: For the legend.
        x: Where.
        y: What; values that are not finite, or larger than `MOST`, are left out.
        low: Lower ends of intervals, if there are any.
        high: Upper ends.
        smooth: Draw the values faintly and their running median over this many strongly.
        dashed: Dashes.
    """

    name: str
    x: Float[np.ndarray, "values"]
    y: Float[np.ndarray, "values"]
    low: Float[np.ndarray, "values"] | None = None
    high: Float[np.ndarray, "values"] | None = None
    smooth: int = 0
    dashed: bool = False


def line_chart(
    lines: Sequence[Line],
    title: str,
    x_label: str,
    y_range: tuple[float, float] | None = None,
    size: tuple[int, int] = (520, 300),
) -> str:
    """Lines over a common axis.

    Args:
        lines: At least one with a finite value.
        title: Over the chart.
        x_label: Under it.
        y_range: Lowest and highest value shown; what suits the lines if not given.
        size: Width and height, pixels.
    """
    width, height = size
    left, right = 56.0, width - 14.0
    legend = _legend([line.name for line in lines], left, right)
    top = 44.0 + _LEGEND_ROW * max(row for _, row in legend)
    height += round(top - 44.0)
    bottom = height - 44.0
    every_x = np.concatenate([line.x for line in lines])
    low_x, high_x = float(every_x.min()), float(every_x.max())
    high_x = high_x if high_x > low_x else low_x + 1.0
    low_y, high_y = y_range or _robust_range(lines)

    def spot(x: float, y: float) -> str:
        across = left + (x - low_x) / (high_x - low_x) * (right - left)
        clipped = min(max(y, low_y), high_y)
        down = bottom - (clipped - low_y) / (high_y - low_y) * (bottom - top)
        return f"{across:.1f},{down:.1f}"

    parts = [_text(left, 18, title, 14, _INK, weight=600)]
    for tick in _ticks(low_y, high_y):
        y = spot(low_x, tick).split(",")[1]
        parts.append(_rule(left, float(y), right, float(y)))
        parts.append(_text(left - 8, float(y) + 4, f"{tick:g}", 11, _SOFT, "end"))
    for tick in _ticks(low_x, high_x):
        x = float(spot(tick, low_y).split(",")[0])
        parts.append(_text(x, bottom + 18, f"{tick:g}", 11, _SOFT, "middle"))
    parts.append(_text((left + right) / 2, height - 8, x_label, 12, _SOFT, "middle"))
    for number, (line, (along, row)) in enumerate(zip(lines, legend, strict=True)):
        color = COLORS[number % len(COLORS)]
        parts += _drawn(line, color, spot, dashed=line.dashed or number >= len(COLORS))
        at = 32 + _LEGEND_ROW * row
        parts.append(f'<circle cx="{along + 5:.1f}" cy="{at:.0f}" r="4.5" fill="{color}"/>')
        parts.append(_text(along + 14, at + 4, line.name, 12, _SOFT))
    return _svg(width, height, parts)


def _legend(names: Sequence[str], left: float, right: float) -> list[tuple[float, int]]:
    """Where each name begins, pixels, and in which row of the legend it stands."""
    places, along, row = [], left, 0
    for name in names:
        wide = 32 + 6.6 * len(name)
        if along > left and along + wide > right:
            along, row = left, row + 1
        places.append((along, row))
        along += wide
    return places


def success_chart(rows: Sequence[tuple[str, Summary]], width: int = 1000) -> str:
    """Total success of what each label names: a bar, its 95% interval, and the paper's value."""
    line, top = 30, 34
    left, right = 220.0, width - 150.0
    height = top + line * len(rows) + 34
    parts = [
        _text(left, 18, "Total success", 14, _INK, weight=600),
        _text(left + 120, 18, "bar: ours, whisker: 95% interval, diamond: the paper", 12, _SOFT),
    ]

    def at(share: float) -> float:
        return left + share * (right - left)

    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(_rule(at(tick), top, at(tick), height - 28))
        parts.append(_text(at(tick), height - 10, f"{tick:g}", 11, _SOFT, "middle"))
    for number, (label, row) in enumerate(rows):
        y = top + line * number + 6
        middle = y + 9
        parts.append(_text(left - 12, middle + 4, label, 13, _INK, "end"))
        if row.total.value is None:
            continue
        low, high = row.total.interval
        parts.append(
            f'<rect x="{left}" y="{y}" width="{at(row.total.value) - left:.1f}" height="18" rx="3" '
            f'fill="{COLORS[0]}" fill-opacity="0.85"/>'
        )
        parts.append(
            f'<path d="M{at(low):.1f},{middle} H{at(high):.1f} M{at(low):.1f},{middle - 4} v8 '
            f'M{at(high):.1f},{middle - 4} v8" stroke="{_INK}" stroke-width="1.5" fill="none"/>'
        )
        if row.paper is not None:
            x = at(row.paper.total)
            parts.append(
                f'<path d="M{x:.1f},{middle - 7} l7,7 l-7,7 l-7,-7 z" fill="{COLORS[1]}" '
                f'stroke="#fff" stroke-width="1.5"/>'
            )
        beside = f"{row.total.successes} of {row.total.trials}"
        parts.append(_text(right + 18, middle + 4, beside, 13, _INK))
    return _svg(width, height, parts)


def _drawn(line: Line, color: str, spot: _Spot, dashed: bool) -> list[str]:
    keep = _drawable(line)
    xs, ys = line.x[keep], line.y[keep]
    parts = []
    if line.low is not None and line.high is not None:
        for x, low, high in zip(line.x, line.low, line.high, strict=True):
            a, b = spot(float(x), float(low)), spot(float(x), float(high))
            parts.append(f'<path d="M{a} L{b}" stroke="{color}" stroke-width="1.5"/>')
        for x, y in zip(xs, ys, strict=True):
            across, down = spot(float(x), float(y)).split(",")
            parts.append(f'<circle cx="{across}" cy="{down}" r="4" fill="{color}"/>')
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    if line.smooth > 1 and len(ys) > line.smooth:
        parts.append(_path(xs, ys, spot, color, 'stroke-width="1" stroke-opacity="0.28"'))
        ys = _running_median(ys, line.smooth)
    parts.append(_path(xs, ys, spot, color, f'stroke-width="2"{dashes}'))
    return parts


def _path(xs: np.ndarray, ys: np.ndarray, spot: _Spot, color: str, style: str) -> str:
    points = " L".join(spot(float(x), float(y)) for x, y in zip(xs, ys, strict=True))
    return f'<path d="M{points}" fill="none" stroke="{color}" {style} stroke-linejoin="round"/>'


def _running_median(
    values: Float[np.ndarray, "values"], window: int
) -> Float[np.ndarray, "values"]:
    half = window // 2
    return np.array(
        [np.median(values[max(0, n - half) : n + half + 1]) for n in range(len(values))]
    )


def _drawable(line: Line) -> Bool[np.ndarray, "values"]:
    return np.abs(np.nan_to_num(line.y, nan=np.inf)) <= MOST


def has_values(line: Line) -> bool:
    """Whether a line has anything to draw."""
    return bool(_drawable(line).any())


def _robust_range(lines: Sequence[Line]) -> tuple[float, float]:
    """The range of the values without the wildest hundredth."""
    values = np.concatenate([line.y[_drawable(line)] for line in lines])
    if not len(values):
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(values, [0.5, 99.0]))
    room = max(0.05 * (high - low), 1e-6 + 1e-3 * abs(high))
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers in a range."""
    rough = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(step * size for step in (1, 2, 2.5, 5, 10) if step * size >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 10) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"{''.join(parts)}</svg>"
    )


def _text(
    x: float, y: float, text: str, size: int, color: str, anchor: str = "start", weight: int = 400
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" {_FONT} font-weight="{weight}" '
        f'fill="{color}" text-anchor="{anchor}">{html.escape(printable(text))}</text>'
    )


def _rule(x0: float, y0: float, x1: float, y1: float) -> str:
    return (
        f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{_LINE}" '
        'stroke-width="1"/>'
    )
