"""Functions that LLVM has itself: each is one instruction wherever we compile to, or emit/rounding.py writes it out."""

from __future__ import annotations

INTRINSICS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "roundeven"}
