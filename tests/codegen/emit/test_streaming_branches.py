"""Streaming stores at the ends of both arms of a branch stay streaming stores."""

from __future__ import annotations

from tilesmith.codegen.pipeline import build
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

SKETCH = """
    sketch by hand
    step split(t0.a0, 2)
    step split(t0.a1, 4, lanes(f32))
    step reorder(t0.a0.p0, t0.a1.p0, t0.a0.p1, t0.a1.p1, t0.a1.p2)
    step unroll(t0.a0.p1, t0.a1.p1)
    step vectorize(t0.a1.p2)
    step streaming(t0, 1)
    """


def test_both_arms_store_past_the_caches() -> None:
    """The arms are a block inside of all borders and one at a border, which end by a store to the same place."""
    program = parse("""
        input x: f32[64, 256]
        y[i: 64, j: 256] = x[max(i - 1, 0), j] + x[i, j] * 2 + x[min(i + 1, 63), j]
        return y
        """)
    texts = build(canonical(program), parse_sketch(SKETCH), {}, parse_target("x86:avx2"), 1, texts=True).texts
    meant = texts["llvm"].count("!nontemporal")
    assert meant >= 16
    assert texts["asm"].count("vmovntps") == meant
