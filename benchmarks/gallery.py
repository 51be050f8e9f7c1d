"""Writes docs/gallery.md: pipelines with what they see and make, how they are scheduled, and how fast they are.

    python benchmarks/gallery.py

Pictures are small ones; outlines and milliseconds are of the whole size (benchmarks/pipelines.py, whose results are read).
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from peers import OURS
from pipeline.images import IMAGES
from pipeline.pictures import given

import tilesmith

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "avx2" / "pipelines-tuned-2t.json"
HEIGHT, WIDTH = 160, 272
SHOWN: dict[str, dict[str, int]] = {
    "bilateral grid": {},
    "local Laplacian": {"pyramid": 5},
    "interpolate": {"levels": 6},
    "non-local means": {"height": HEIGHT + 12, "width": WIDTH + 12},
    "max of a disc": {"height": HEIGHT + 10, "width": WIDTH + 10, "radius": 5},
    "recursive blur": {},
    "camera": {"height": HEIGHT + 24, "width": WIDTH + 32},
}
LINES = 24  # of an outline
CUT = 0xF8  # bits of a byte that are shown: noise in the others would make files large

HEAD = """# Gallery of pipelines

Programs of several stages, as [benchmarks/pipeline/images.py](../benchmarks/pipeline/images.py) writes them: what each sees
and makes of a small picture that is drawn; how its first kernels are scheduled at the size of Halide's apps where nothing was
tuned; and milliseconds after 256 trials on two threads of an EPYC of family 25, model 1 (Zen 3, AVX2), from
`benchmarks/results/avx2/pipelines-tuned-2t.json`. `python benchmarks/gallery.py` writes this page anew.
"""


def png(array: np.ndarray[Any, Any]) -> bytes:
    """Eight bits of grey [height, width] or colours [3, height, width] as a file."""
    colours = array.ndim == 3
    rows = np.ascontiguousarray(array.transpose(1, 2, 0) if colours else array)
    lines = b"".join(b"\0" + row.tobytes() for row in rows)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", rows.shape[1], rows.shape[0], 8, 2 if colours else 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def visible(name: str, array: np.ndarray[Any, Any], largest: float) -> np.ndarray[Any, Any]:
    """The values of a picture as bytes. What is missing is black."""
    values = array[:3] * array[3] if array.ndim == 3 and len(array) == 4 else array
    return (np.clip(values / largest, 0, 1) * 255).astype(np.uint8) & CUT


def largest_of(name: str, dtype: np.dtype[Any]) -> float:
    """Returns the value of white."""
    if name == "camera" and dtype != np.uint8:
        return 1023
    return float(np.iinfo(dtype).max) if np.issubdtype(dtype, np.integer) else 1


def pictures(name: str, folder: Path) -> None:
    """Writes the picture that a program sees and the one that it makes."""
    program = tilesmith.parse(IMAGES[name](**({"height": HEIGHT, "width": WIDTH} | SHOWN[name])))
    source = program.inputs[0].tensor
    array = given(name, source.shape, source.dtype.numpy)
    made = np.asarray(tilesmith.compile(program)(array))
    for what, shown in (("in", array), ("out", made)):
        path = folder / f"{name.replace(' ', '-').lower()}-{what}.png"
        path.write_bytes(png(visible(name, shown, largest_of(name, shown.dtype))))


def section(name: str, rows: dict[str, Any]) -> str:
    """Returns what the page says of a program."""
    meaning = (IMAGES[name].__doc__ or "").strip().splitlines()[0]
    outline = tilesmith.compile(tilesmith.parse(IMAGES[name]())).text("outline").splitlines()
    shown = [line for line in outline if not line.startswith("# x")]
    rest = len(shown) - LINES
    lines = shown if rest <= 0 else [*shown[:LINES], f"... and {rest} lines more"]
    file = name.replace(" ", "-").lower()
    parts = [f"## {name[0].upper()}{name[1:]}\n", f"{meaning}\n",
             f"![What it sees](gallery/{file}-in.png) ![What it makes](gallery/{file}-out.png)\n"]  # fmt: skip
    if name in rows:
        seconds = rows[name]["seconds"]
        parts += ["| | ms |", "|---|---|"]
        parts += [
            f"| {'here' if who == OURS else who} | {1e3 * float(np.median(seconds[who])):.1f} |" for who in seconds
        ]
        parts.append("")
    return "\n".join([*parts, "```text", *lines, "```", ""])


def main() -> None:
    """Writes the pictures and the page."""
    folder = ROOT / "docs" / "gallery"
    folder.mkdir(exist_ok=True)
    rows = json.loads(RESULTS.read_text())["rows"]
    for name in SHOWN:
        pictures(name, folder)
    (ROOT / "docs" / "gallery.md").write_text("\n".join([HEAD, *(section(name, rows) for name in SHOWN)]))


if __name__ == "__main__":
    main()
