"""Arguments that share memory: found among many as two at a time would tell."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesmith.codegen.artifact import BufferSpec
from tilesmith.common.errors import ArgumentError
from tilesmith.runtime.arguments import argument, check_apart, span_of

_MEMORY = np.zeros(40, np.uint8)
_SPANS = st.tuples(st.integers(0, 39), st.integers(1, 4)).map(lambda span: _MEMORY[span[0] : span[0] + span[1]])


@given(st.lists(_SPANS, max_size=5), st.lists(_SPANS, max_size=5))
def test_an_output_that_shares_memory_is_found(inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    shared = {
        number
        for number, output in enumerate(outputs)
        if any(np.shares_memory(output, other) for other in (*inputs, *outputs[:number], *outputs[number + 1 :]))
    }
    wanted = [argument(f"out {number}", BufferSpec("y", "u8", output.shape)) for number, output in enumerate(outputs)]
    with pytest.raises(ArgumentError) if shared else nullcontext() as refused:
        check_apart([span_of(array) for array in inputs], [span_of(array) for array in outputs], wanted)
    if refused is not None:
        assert any(str(refused.value).startswith(f"out {number} (y) shares memory") for number in shared)
