"""The tasks on which searches are compared: rows of the suite that are cheap to try and unlike each other."""

from __future__ import annotations

from dataclasses import replace

from workloads import ROWS, Row

_NAMES = (
    "matmul 512x512x512",
    "matmul 197x768x768",
    "matmul 49x512x4608",
    "batch_matmul 12x128x128x64",
    "matmul_bias_gelu 128x3072x768",
    "conv2d 1x64x56x56x64 kernel=3 padding=1 layout=nchw (W constant)",
    "conv2d 1x256x14x14x256 kernel=3 padding=1 layout=nhwc (W constant)",
    "depthwise_conv2d 1x144x56x56 kernel=3 stride=2 padding=1 layout=nchw (W constant)",
    "softmax 4096x1024",
    "layer_norm 4096x768",
    "rms_norm 2048x4096",
    "transpose 4096x4096",
    "matmul_residual_layer_norm 128x768x768",
)
TASKS: dict[str, Row] = {name: next(row for row in ROWS if row.name == name) for name in _NAMES}
CLOCK = ("matmul 512x512x512", "conv2d 1x64x56x56x64 kernel=3 padding=1 layout=nchw (W constant)")
FEW = tuple(
    TASKS[name].name for name in (_NAMES[0], _NAMES[2], _NAMES[5], _NAMES[8])
)  # where each run costs more thought


def short(name: str) -> str:
    """A name for tables and plots."""
    words = [word for word in name.split(" ") if not word.startswith(("padding", "kernel", "(", "constant"))]
    return " ".join(words).replace("layout=", "")


def donors(row: Row) -> tuple[Row, Row]:
    """Two other shapes of a task's family: all sizes that tell how much there is to do, once smaller and once larger."""
    return _scaled(row, 3, 4), _scaled(row, 5, 4)


def _scaled(row: Row, above: int, below: int) -> Row:
    fixed = ("kernel", "stride", "padding", "dilation", "groups", "n")
    keep = fixed if "layout" in row.sizes else fixed[:-1]
    sizes = {
        name: size if name in keep or not isinstance(size, int) or size < 16 else size * above // below
        for name, size in row.sizes.items()
    }
    return replace(row, sizes=sizes)
