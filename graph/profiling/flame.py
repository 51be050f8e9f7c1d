"""A flame graph: stacks with what each of them takes, as folded text (a line for each, as flamegraph.pl and speedscope read
it) and as a picture (SVG) without scripts, which shows the names and shares of its boxes where a mouse rests on them.

Widths are times, the root is at the top, and boxes stand in the order in which their calls run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from zlib import crc32

Stacks = Mapping[tuple[str, ...], float]  # stack, the outermost first -> seconds

_WIDTH, _ROW, _PAD, _LETTER = 1200, 18, 10, 6.6  # of the picture, in points; of a letter at 11 points
_LEAST = 0.4  # points: boxes that are narrower are left out
_HEAD = 34


def folded_text(stacks: Stacks) -> str:
    """Returns a line for each stack: its frames, and nanoseconds."""
    lines = (f"{';'.join(map(_plain, stack))} {round(seconds * 1e9)}" for stack, seconds in stacks.items())
    return "".join(f"{line}\n" for line in lines)


def _plain(frame: str) -> str:
    """A frame without what separates frames."""
    return frame.replace(";", ",").replace("\n", " ")


@dataclass
class FlameBox:
    """A box: what it and all above it take, and the boxes above it by name."""

    seconds: float = 0.0
    inner: dict[str, FlameBox] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Counts the rows from here on."""
        return 1 + max((one.depth for one in self.inner.values()), default=0)


def flame_svg(title: str, stacks: Stacks) -> str:
    """Returns the picture."""
    root = FlameBox()
    for stack, seconds in stacks.items():
        at = root
        at.seconds += seconds
        for name in stack:
            at = at.inner.setdefault(name, FlameBox())
            at.seconds += seconds
    height = _HEAD + root.depth * _ROW + _PAD
    boxes: list[str] = []
    _boxes(title, root, _PAD, 0, (_WIDTH - 2 * _PAD) / (root.seconds or 1.0), root.seconds, boxes)
    head = f"{title}: {root.seconds * 1e3:.3f} ms"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-family="monospace" font-size="11">\n<rect width="100%" height="100%" fill="#fffdf7"/>\n'
        f'<text x="{_PAD}" y="20" font-size="14">{escape(head)}</text>\n' + "\n".join(boxes) + "\n</svg>\n"
    )


def _boxes(name: str, frame: FlameBox, left: float, row: int, scale: float, whole: float, boxes: list[str]) -> None:
    width = frame.seconds * scale
    if width < _LEAST:
        return
    top = _HEAD + row * _ROW
    share = frame.seconds / whole if whole else 0.0
    told = escape(f"{name}: {frame.seconds * 1e6:.1f} us, {share:.1%}")
    letters = int((width - 4) / _LETTER)
    shown = name if len(name) <= letters else f"{name[: letters - 2]}.." if letters > 4 else ""
    boxes.append(
        f'<g><title>{told}</title><rect x="{left:.2f}" y="{top}" width="{width:.2f}" height="{_ROW - 1}" rx="1" '
        f'fill="{_colour(name)}"/><text x="{left + 3:.2f}" y="{top + 12}">{escape(shown)}</text></g>'
    )
    for inner_name, inner in frame.inner.items():
        _boxes(inner_name, inner, left, row + 1, scale, whole, boxes)
        left += inner.seconds * scale


def _colour(name: str) -> str:
    """A warm colour that a name has in every picture."""
    digits = crc32(name.encode())
    return f"hsl({digits % 50 + 10} 85% {68 + digits // 64 % 14}%)"
