"""A picture for the programs of images.py, drawn: soft light, discs with sharp edges, stripes, some noise."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
NOISE = 0.02
SEEN = 0.2  # share of the pixels that are not missing, where some are


def picture(height: int, width: int, seed: int = 1) -> Array:
    """Three colours of 0 to 1, f32[3, height, width]."""
    random = np.random.default_rng(seed)
    i, j = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    light = 0.45 + 0.3 * np.sin(2.2 * i + 0.4) * np.cos(3.1 * j)
    colours = np.stack([light * (0.75 + 0.25 * np.cos(4 * j + n)) for n in range(3)])
    for _ in range(24):
        y, x, radius = random.random(), random.random(), 0.02 + 0.08 * random.random()
        inside = (i - y) ** 2 + ((j - x) * width / height) ** 2 < radius**2
        colours[:, inside] = 0.4 * colours[:, inside] + 0.6 * random.random((3, 1))
    stripes = (np.sin(260 * j) > 0) & (abs(i - 0.85) < 0.06)
    colours[:, stripes] *= 0.5
    noisy = colours + NOISE * random.standard_normal(colours.shape)
    return np.asarray(np.clip(noisy, 0, 1), np.float32)


def given(name: str, shape: tuple[int, ...], dtype: Any, seed: int = 1) -> Array:
    """The picture as a program's input: of its colours, brightness, mosaic or with most of it missing."""
    seen = picture(shape[-2], shape[-1], seed)
    if name == "interpolate":
        alpha = np.random.default_rng(seed).random(shape[1:]) < SEEN
        return np.concatenate([seen, alpha[None].astype(np.float32)])
    if name == "camera":
        raw = seen[1].copy()  # green where nothing else is
        raw[0::2, 1::2], raw[1::2, 0::2] = seen[0, 0::2, 1::2], seen[2, 1::2, 0::2]
        return (raw * 1023).astype(dtype)
    values = seen if len(shape) == 3 else seen.mean(0)
    largest = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 1
    return (values * np.float32(largest)).astype(dtype)
