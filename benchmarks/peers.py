"""A contender for rows of single operators, in a process of its own (tilesmith.measure.compare says how they talk).

A request is {library, operator, sizes, constants, threads, database}; the answer is {"sample": [values of the output at fixed
points], "provenance": ...}. `python benchmarks/peers.py` is the child. Arrays are drawn from the same seed in every child, so
the samples must agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from ceiling import CEILING, ceiling_of
from libraries import LIBRARIES
from narrow.attention import attention_call
from narrow.convolutions import convolution_call
from narrow.products import product_call
from weights import weights_call
from workloads import Row

from tilesmith.measure.compare.contender import ContenderProcess, MissingContender
from tilesmith.measure.compare.serving import PlainCall, ReadyCall, aligned, serve, time_calls
from tilesmith.tuner.bench.sampling import chosen_points, sample

OURS = "tilesmith"
BESIDE = "beside"  # our kernel of the row that another row is measured beside
SAMPLES = 64


class Peer(ContenderProcess):
    """A contender for rows of single operators.

    `library`: whose way of computing it is; the contender's name unless given. Errors: MissingContender (by `prepared`),
    RuntimeError when the child fails.
    """

    def __init__(self, name: str, threads: int, library: str | None = None) -> None:
        super().__init__(name, threads, __file__)
        self.library = library or name
        self.sample: list[float] = []
        self.truth: list[float] = []  # the definition's, of sums of bytes
        self.provenance = ""

    def prepare(self, row: Row, database: str | None = None) -> None:
        """Begins to prepare a row; `prepared` waits until that is done."""
        request = {
            "library": self.library,
            "operator": row.operator,
            "sizes": dict(row.sizes),
            "constants": list(row.constants),
            "threads": self.threads,
            "database": database,
        }
        self.tell({"prepare": request})

    def prepared(self) -> None:
        """Waits until the row is prepared. Errors: MissingContender."""
        answer = self.answer()
        self.sample, self.truth = answer["sample"], answer.get("truth", [])
        self.provenance = answer["provenance"]


# the child


def prepare(request: dict[str, Any]) -> ReadyCall:
    """A row of a single operator: the answer is a sample of its output, and where it comes from."""
    from tilesmith.tensor.oracle.random_inputs import Magnitudes, random_inputs

    row = Row("", request["operator"], request["sizes"], constants=tuple(request["constants"]))
    program, threads = row.program(), request["threads"]
    if request["library"] == CEILING:
        run, provenance = ceiling_of(program, threads)
        return run, {"sample": [], "provenance": provenance}, None
    values = random_inputs(program, seed=1, sizes=Magnitudes.WHOLE)  # of small bytes nobody's sums would saturate
    arrays = {
        item.tensor.name: aligned(value.shape, value.dtype, value)
        for item, value in zip(program.inputs, values, strict=True)
    }
    tensors = [program.tensors[name] for name in program.outputs]
    outputs = [aligned(t.shape, t.dtype.numpy) for t in tensors]
    if request["library"] == OURS:
        call, provenance = _our_call(program, arrays, outputs, threads, request["database"])
    else:
        found = _peer_call(request["library"], row, arrays, outputs, threads)
        if found is None:
            raise MissingContender(f"{request['library']} has no {row.operator} here")
        call, provenance = found, request["library"]
    answer = {"sample": sample(call, outputs[:1], [tensors[0].dtype], SAMPLES)[0], "provenance": provenance}
    if row.of_bytes and request["library"] == OURS:
        answer["truth"] = _truth(program, values)
    return partial(time_calls, call), answer, (arrays, outputs)


def _truth(program: Any, values: Sequence[np.ndarray]) -> list[float]:
    """The definition at the points of a sample."""
    from tilesmith.tensor.oracle.reference import evaluate_at

    shape = program.tensors[program.outputs[0]].shape
    points = np.stack(np.unravel_index(chosen_points(prod(shape), SAMPLES), shape), axis=1)
    return [float(value) for value in evaluate_at(program, values, program.outputs[0], points)]


def _peer_call(
    library: str, row: Row, arrays: dict[str, np.ndarray], outputs: list[np.ndarray], threads: int
) -> PlainCall | None:
    if row.operator == "weights":
        return weights_call(library, arrays, outputs, threads, row.sizes)
    if row.operator == "product":
        return product_call(library, arrays, outputs, threads, row.constants, row.sizes)
    if row.operator == "convolution":
        return convolution_call(library, arrays, outputs, threads, row.sizes)
    if row.operator == "bf16_attention":
        return attention_call(library, arrays, threads, row.sizes)
    return LIBRARIES[library](row.operator, arrays, outputs, threads, row.constants, row.sizes)


def _our_call(
    program: Any, arrays: dict[str, np.ndarray], outputs: list[np.ndarray], threads: int, database: str | None
) -> tuple[PlainCall, str]:
    import tilesmith

    fixed = {t.name: arrays[t.name] for t in program.constant_inputs}
    kernel = tilesmith.compile(program, db=database, threads=threads, constants=fixed or None)
    inputs = [arrays[t.name] for t in program.dynamic_inputs]
    out = outputs[0] if len(outputs) == 1 else tuple(outputs)
    return (lambda: kernel(*inputs, out=out)), str(kernel.provenance)


if __name__ == "__main__":
    serve(prepare)
