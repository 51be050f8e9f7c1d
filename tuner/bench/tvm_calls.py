"""Apache TVM: ONNX models by its relax importer, tuned by its own search (MetaSchedule) before they run.

Code that TVM has not tuned is far from what it can do, and would be no peer.
"""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ...measure.compare.serving import PlainCall
from .calls import Array, ModelWay, NamedArrays, Sizes, TensorNames
from .images import ReturnedElsewhere, channels_first, onnx_shape, seen_back
from .onnx_models import onnx_model

TRIALS = 64  # of MetaSchedule, for each kernel


def tvm_call(
    operator: str, arrays: NamedArrays, outputs: Sequence[Array], threads: int, constants: TensorNames, sizes: Sizes
) -> PlainCall | None:
    """An operator as an ONNX model of one or some nodes."""
    arrays, shape = channels_first(operator, sizes, arrays), onnx_shape(operator, sizes, outputs[0])
    model = onnx_model(operator, arrays, shape, constants, sizes)
    if model is None:
        return None
    given = [array for name, array in arrays.items() if name not in constants]
    run = _tuned(model, given, threads)

    def call() -> Any:
        found = run()
        return ReturnedElsewhere(lambda: seen_back(operator, sizes, found[0].numpy(), outputs[0]), arrays)

    return call


def tvm_model(path: str, inputs: Sequence[Array], outputs: Sequence[Array], threads: int) -> ModelWay:
    """An ONNX file."""
    import onnx

    run = _tuned(onnx.load(path), inputs, threads)
    last: list[Any] = []

    def call() -> None:
        last[:] = [run()]

    return ModelWay(call, lambda: [np.asarray(one.numpy()) for one in last[0]])


def _tuned(model: Any, inputs: Sequence[Array], threads: int) -> Any:
    """A call that gives all results of a model."""
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu(), "num-cores": threads})
    module = from_onnx(model, keep_params_in_input=False)
    with TemporaryDirectory() as folder, target, tvm.transform.PassContext(opt_level=3):
        pipeline = relax.get_pipeline("static_shape_tuning", target=target, total_trials=TRIALS, work_dir=folder)
        built = tvm.compile(pipeline(module), target)
    machine = relax.VirtualMachine(built, tvm.cpu())
    given = [tvm.runtime.tensor(array) for array in inputs]

    def call() -> list[Any]:
        found = machine["main"](*given)
        return [found] if hasattr(found, "numpy") else list(found)

    return call
