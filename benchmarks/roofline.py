"""The roofline plot of the suite as an SVG: python benchmarks/roofline.py [--threads 2] [--out docs/roofline.svg]

Every row that benchmarks/cpu.py has kept in benchmarks/results/ is a point: operations per byte that must move (the least that
the program needs, not what a kernel really moves) against operations per second. The roof is that of the machine, for working
sets in each cache and past them: no point can lie above the roof of its own working set. Best peers are hollow.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from xml.sax.saxutils import escape

import typer
from results_folder import results_folder
from workloads import Row

from tilesmith.targets.ceilings import Ceilings
from tilesmith.tuner.roofline import program_work

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 960, 560, 70, 50, 40, 230
TURN = 137.5  # degrees from one colour to the next: the golden angle keeps any number of them apart
SETS = ((32 << 10, "32 KB"), (1 << 20, "1 MB"), (16 << 20, "16 MB"), (512 << 20, "512 MB"))  # roofs that are drawn


@dataclass(frozen=True, slots=True)
class Point:
    """A row: operations per byte, operations per second of ours and of the best peer (0: none)."""

    name: str
    group: str
    intensity: float
    ours: float
    peer: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Logarithmic axes. Values are operations per byte and operations per second."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Pixels."""
        across = (math.log(x) - math.log(self.x[0])) / (math.log(self.x[1]) - math.log(self.x[0]))
        up = (math.log(y) - math.log(self.y[0])) / (math.log(self.y[1]) - math.log(self.y[0]))
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - BOTTOM - TOP)


def points(documents: Sequence[dict[str, Any]]) -> list[Point]:
    """All rows of some result files that have our kernel."""
    found = []
    for document in documents:
        for row in document["rows"]:
            seconds = {name: sorted(times)[len(times) // 2] for name, times in row["seconds"].items()}
            if "tilesmith" not in seconds:
                continue
            work = program_work(Row("", row["operator"], row["sizes"], constants=tuple(row["constants"])).program())
            operations = max(work.flops, 1)
            peer = operations / seconds[row["best_peer"]] if row["best_peer"] else 0.0
            intensity = operations / work.bytes
            found.append(Point(row["name"], document["group"], intensity, operations / seconds["tilesmith"], peer))
    return found


def roof(ceilings: Ceilings, set_: int, scale: Scale) -> list[tuple[float, float]]:
    """The corners of the roof for a working set, in pixels."""
    slope, flat = ceilings.bandwidth_at(set_), ceilings.flops["f32"]
    ridge = flat / slope
    left = max(scale.x[0], scale.y[0] / slope)
    return [scale.at(left, slope * left), scale.at(ridge, flat), scale.at(scale.x[1], flat)]


def drawing(found: Sequence[Point], ceilings: Ceilings, title: str) -> str:
    """The SVG."""
    speeds = [speed for p in found for speed in (p.ours, p.peer) if speed]
    low_x, high_x = min(p.intensity for p in found) / 2, max(p.intensity for p in found) * 2
    scale = Scale((low_x, max(high_x, 300.0)), (min(speeds) / 2, ceilings.flops["f32"] * 1.5))
    groups = list(dict.fromkeys(p.group for p in found))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
        *_axes(scale),
        *_roofs(ceilings, scale),
    ]
    for number, group in enumerate(groups):
        color = f"hsl({number * TURN % 360:.0f},65%,{32 + 12 * (number % 3)}%)"
        y = TOP + 20 * number + 10
        lines.append(f'<circle cx="{WIDTH - RIGHT + 20}" cy="{y}" r="5" fill="{color}"/>')
        lines.append(f'<text x="{WIDTH - RIGHT + 32}" y="{y + 4}">{escape(group)}</text>')
        for point in (p for p in found if p.group == group):
            lines += _dots(point, scale, color)
    y = TOP + 20 * len(groups) + 10
    lines.append(f'<circle cx="{WIDTH - RIGHT + 20}" cy="{y}" r="4" fill="none" stroke="#666"/>')
    lines.append(f'<text x="{WIDTH - RIGHT + 32}" y="{y + 4}">the best peer of a row</text>')
    return "\n".join([*lines, "</svg>", ""])


def _dots(point: Point, scale: Scale, color: str) -> Iterator[str]:
    x, y = scale.at(point.intensity, point.ours)
    label = f"{point.name}: {point.ours / 1e9:.1f} GFLOP/s"
    if point.peer:
        below = scale.at(point.intensity, point.peer)[1]
        yield f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{below:.1f}" stroke="{color}" stroke-opacity="0.5"/>'
        yield f'<circle cx="{x:.1f}" cy="{below:.1f}" r="4" fill="none" stroke="{color}"/>'
        label += f", best peer {point.peer / 1e9:.1f}"
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{color}"><title>{escape(label)}</title></circle>'


def _roofs(ceilings: Ceilings, scale: Scale) -> Iterator[str]:
    for set_, name in SETS:
        corners = roof(ceilings, set_, scale)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        yield f'<polyline points="{path}" fill="none" stroke="#999" stroke-width="1.2"/>'
        (x0, y0), (x1, y1) = corners[0], corners[1]
        angle = math.degrees(math.atan2(y1 - y0, x1 - x0))
        x, y = x0 + 0.12 * (x1 - x0), y0 + 0.12 * (y1 - y0) - 5
        text = f"{name}: {ceilings.bandwidth_at(set_) / 1e9:.0f} GB/s"
        yield f'<text x="{x:.1f}" y="{y:.1f}" transform="rotate({angle:.1f} {x:.1f} {y:.1f})" fill="#777">{text}</text>'
    x, y = scale.at(scale.x[1], ceilings.flops["f32"])
    peak = f"f32: {ceilings.flops['f32'] / 1e9:.0f} GFLOP/s"
    yield f'<text x="{x - 4:.1f}" y="{y - 6:.1f}" text-anchor="end" fill="#777">{peak}</text>'


def _axes(scale: Scale) -> Iterator[str]:
    (x0, y0), (x1, y1) = scale.at(scale.x[0], scale.y[0]), scale.at(scale.x[1], scale.y[1])
    yield f'<rect x="{x0}" y="{y1}" width="{x1 - x0}" height="{y0 - y1}" fill="none" stroke="#333"/>'
    for power in range(math.ceil(math.log10(scale.x[0])), math.floor(math.log10(scale.x[1])) + 1):
        x, _ = scale.at(10.0**power, scale.y[0])
        yield f'<line x1="{x:.1f}" y1="{y0}" x2="{x:.1f}" y2="{y1}" stroke="#eee"/>'
        yield f'<text x="{x:.1f}" y="{y0 + 16}" text-anchor="middle">{10.0**power:g}</text>'
    for power in range(math.ceil(math.log10(scale.y[0])), math.floor(math.log10(scale.y[1])) + 1):
        _, y = scale.at(scale.x[0], 10.0**power)
        yield f'<line x1="{x0}" y1="{y:.1f}" x2="{x1}" y2="{y:.1f}" stroke="#eee"/>'
        yield f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0 ** (power - 9):g}</text>'
    yield f'<text x="{(x0 + x1) / 2}" y="{HEIGHT - 12}" text-anchor="middle">operations per byte that must move</text>'
    middle = (y0 + y1) / 2
    yield f'<text x="18" y="{middle}" transform="rotate(-90 18 {middle})" text-anchor="middle">GFLOP/s</text>'


def main(
    threads: Annotated[int, typer.Option(min=1)] = 2,
    out: Annotated[Path, typer.Option()] = Path(__file__).parent.parent / "docs" / "roofline.svg",
) -> None:
    """Draws what benchmarks/results/ has for so many threads."""
    files = sorted(results_folder().glob(f"cpu-*-{threads}t.json"))
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    found = points(documents)
    if not found:
        raise SystemExit(f"no results for {threads} threads in {results_folder()}: run benchmarks/cpu.py first")
    newest = max(documents, key=lambda document: document["when"])
    ceilings = Ceilings.from_json(json.dumps(newest["ceilings"]))
    out.write_text(drawing(found, ceilings, f"The suite on {threads} threads, {newest['when'][:10]}"), encoding="utf-8")
    print(f"{len(found)} rows of {len(files)} files in {out}")


if __name__ == "__main__":
    typer.run(main)
