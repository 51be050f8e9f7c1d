"""Plots as SVG: best-so-far curves with bands, and predicted against measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from xml.sax.saxutils import escape

import numpy as np

from searching.quality import LABELS, TRIALS, Shares
from searching.rank import timed
from searching.store import Store
from searching.tasks import TASKS, short

COLORS = ("#1b6ca8", "#c8553d", "#588b3c")
ACROSS, WIDTH, HEIGHT, GAP, TOP = 4, 240, 170, 34, 40
LOW = 0.4  # share of the best known at the foot of a panel
POINTS = sorted({round(2 ** (step / 4)) for step in range(29)})

Point = tuple[float, float]


@dataclass(frozen=True)
class Panel:
    """A panel's frame in pixels. Places inside are given as shares of its width and height, from the lower left."""

    left: float
    top: float

    def at(self, point: Point) -> str:
        """A point as SVG wants it."""
        x, y = (min(max(value, 0.0), 1.0) for value in point)
        return f"{self.left + x * WIDTH:.1f},{self.top + (1 - y) * HEIGHT:.1f}"

    def line(self, points: Sequence[Point], style: str) -> str:
        """A polyline or, where it is filled, a polygon."""
        return f'<polyline points="{" ".join(map(self.at, points))}" {style}/>'

    def text(self, x: float, y: float, words: str, style: str = "") -> str:
        """Words at a place inside."""
        return f'<text x="{self.left + x * WIDTH:.1f}" y="{self.top + (1 - y) * HEIGHT:.1f}" {style}>{escape(words)}</text>'


def panels(names: Sequence[str]) -> Iterator[tuple[str, Panel, list[str]]]:
    """A frame with its name for each."""
    for number, name in enumerate(names):
        panel = Panel(50 + (number % ACROSS) * (WIDTH + GAP), TOP + 20 + (number // ACROSS) * (HEIGHT + 2 * GAP))
        frame = f'<rect x="{panel.left}" y="{panel.top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>'
        yield name, panel, [frame, panel.text(0, 1.03, short(name))]


def picture(title: str, names: Sequence[str], lines: Sequence[str]) -> str:
    """The SVG."""
    width = 60 + ACROSS * (WIDTH + GAP)
    height = TOP + 40 + math.ceil(len(names) / ACROSS) * (HEIGHT + 2 * GAP)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">'
    back = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([head, back, f'<text x="50" y="22" font-size="15">{escape(title)}</text>', *lines, "</svg>", ""])


def curves(store: Store) -> str:
    """The mean over the runs of each search, and the band from the worst to the best of them."""
    shares = Shares(store)
    names = [task for task in TASKS if shares.runs[task]]
    lines: list[str] = []
    for task, panel, frame in panels(names):
        lines += frame
        for level in (0.6, 0.8, 1.0):
            y = (level - LOW) / (1.05 - LOW)
            lines += [panel.line([(0, y), (1, y)], 'stroke="#ddd"'), panel.text(-0.13, y - 0.02, f"{level:.0%}")]
        for mark in (1, 8, 32, 128):
            lines.append(panel.text(math.log2(mark) / 7 - 0.02, -0.09, str(mark)))
        for label, color in zip(LABELS, COLORS, strict=True):
            found = [(math.log2(n) / 7, shares.of(task, label, TRIALS, n)) for n in POINTS]
            found = [(x, [(value - LOW) / (1.05 - LOW) for value in values]) for x, values in found if values]
            if found:
                band = [(x, max(v)) for x, v in found] + [(x, min(v)) for x, v in reversed(found)]
                lines.append(panel.line(band, f'fill="{color}" fill-opacity="0.15" stroke="none"'))
                lines.append(
                    panel.line([(x, fmean(v)) for x, v in found], f'fill="none" stroke="{color}" stroke-width="1.6"')
                )
    for number, (label, color) in enumerate(zip(LABELS, COLORS, strict=True)):
        lines.append(f'<text x="{560 + 110 * number}" y="22" fill="{color}" font-size="13">{label}</text>')
    return picture("best of the first trials, share of the best known", names, lines)


def scatter(store: Store) -> str:
    """Predicted (across) against measured (up) seconds of random candidates, both on the same logarithmic scale."""
    held = timed(store)
    names = [task for task in TASKS if task in held]
    lines: list[str] = []
    for task, panel, frame in panels(names):
        predicted, measured = held[task].predicted, held[task].fastest
        ok = np.isfinite(measured)
        low = math.log(min(predicted[ok].min(), measured[ok].min()))
        high = math.log(np.quantile(np.concatenate([predicted[ok], measured[ok]]), 0.98))
        lines += [*frame, panel.line([(0, 0), (1, 1)], 'stroke="#bbb"')]
        for x, y in zip(np.log(predicted[ok]), np.log(measured[ok]), strict=True):
            place = panel.at(((x - low) / (high - low), (y - low) / (high - low))).split(",")
            lines.append(f'<circle cx="{place[0]}" cy="{place[1]}" r="1.4" fill="{COLORS[0]}" fill-opacity="0.6"/>')
        ends = (
            panel.text(0, -0.09, f"{math.exp(low) * 1e6:.3g} us"),
            panel.text(0.8, -0.09, f"{math.exp(high) * 1e6:.3g} us"),
        )
        lines += ends
    return picture("seconds of random candidates: predicted (across) against measured (up)", names, lines)
