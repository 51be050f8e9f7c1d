"""Seconds and bytes as people read them."""

from __future__ import annotations


def time_text(seconds: float) -> str:
    """`1.234 ms`: four digits in the unit that suits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns"


def size_text(size: float) -> str:
    """`1.5 MB`: three digits in the unit that suits."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} B"
