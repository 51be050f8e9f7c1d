"""Rewrites: programs to programs that compute the same. The registry by which sketches name them."""

from __future__ import annotations

from .normalise import normalise

__all__ = ["normalise"]
