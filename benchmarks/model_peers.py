"""A whole model in the way of one contender, in a process of its own (peers.py says why and how they talk).

A request is {model, way, folder (of model_exports.py), threads, trials, seconds, database, profile}; the answer has the largest
error against float64 relative to the largest value, the seconds until the first call could be made, the resident bytes
beyond the weights, and what ours tells of itself.
"""

from __future__ import annotations

import ctypes
import gc
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from peers import OURS
from zoo.forms import facts_of, read_arrays
from zoo.names import scheme_of

from tilesmith.measure.compare.contender import ContenderProcess, MissingContender
from tilesmith.measure.compare.serving import ReadyCall, aligned, serve, time_calls
from tilesmith.tuner.bench.calls import ModelWay
from tilesmith.tuner.bench.onnxruntime_calls import onnxruntime_model
from tilesmith.tuner.bench.openvino_calls import openvino_model
from tilesmith.tuner.bench.torch_calls import module_way

Arrays = list[np.ndarray]


class ModelPeer(ContenderProcess):
    """The parent's side. `about`: the last answer."""

    def __init__(self, name: str, threads: int) -> None:
        super().__init__(name, threads, __file__)
        self.about: dict[str, Any] = {}

    def prepare(self, model: str, folder: Path, **settings: object) -> None:
        """Prepares a model. Errors: MissingContender."""
        self.tell(
            {"prepare": {"model": model, "way": self.name, "folder": str(folder), "threads": self.threads, **settings}}
        )
        self.about = self.answer()


# the child


def _ours(request: dict[str, Any], inputs: Arrays, outputs: Arrays) -> ModelWay:
    import tilesmith
    from tilesmith.graph.executor.provenance import ModelProvenance

    threads, database, about = request["threads"], request["database"], {}
    model = tilesmith.load(Path(request["folder"]) / "ours")
    if request["trials"]:
        begin = time.perf_counter()
        tilesmith.tune(
            model, trials=request["trials"], seconds=request["seconds"], threads=threads, db=database, progress=False
        )
        about["tuning_seconds"] = time.perf_counter() - begin
    begin = time.perf_counter()
    kernel = tilesmith.compile(model, db=database, threads=threads)
    about["ready_seconds"] = time.perf_counter() - begin
    made = kernel.provenance
    calls = made.calls if isinstance(made, ModelProvenance) else ()
    about |= {"calls": max(1, len(calls)), "kernels": max(1, len({call.name for call in calls}))}
    about["served"] = sorted({str(call.provenance) for call in calls} or {str(made)})
    if request["profile"] and calls:
        about["profile"] = str(kernel.profile(*inputs))
    out = outputs[0] if len(outputs) == 1 else tuple(outputs)
    return ModelWay(lambda: kernel(*inputs, out=out), lambda: outputs, about)


def _torch(request: dict[str, Any], inputs: Arrays, outputs: Arrays, *, compiled: bool = False) -> ModelWay:
    from zoo.modules import example

    name, scheme = request["model"].partition("@")[0], scheme_of(request["model"])
    if scheme not in ("", "bf16"):
        raise MissingContender(f"torch has no form of it in {scheme}")
    module = example(name)[0]
    if scheme:
        from zoo.narrow import InBfloat16

        module = InBfloat16(module)
    return module_way(module, inputs, request["threads"], compiled=compiled)


def _onnxruntime(request: dict[str, Any], inputs: Arrays, outputs: Arrays) -> ModelWay:
    return onnxruntime_model(_onnx_file(request), inputs, outputs, request["threads"])


def _openvino(request: dict[str, Any], inputs: Arrays, outputs: Arrays) -> ModelWay:
    return openvino_model(_onnx_file(request), inputs, outputs, request["threads"])


WAYS: dict[str, Callable[[dict[str, Any], Arrays, Arrays], ModelWay]] = {
    OURS: _ours,
    "torch": _torch,
    "torch.compile": partial(_torch, compiled=True),
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}
_MODULES = {OURS: "tilesmith.tuner.apply.compile", "torch": "torch", "torch.compile": "torch"}


def _onnx_file(request: dict[str, Any]) -> str:
    path = Path(request["folder"]) / "model.onnx"
    if not path.exists():
        raise MissingContender("torch could not export the model as ONNX")
    return str(path)


def _resident() -> int:
    """Bytes of this process that lie in memory, without what the allocator merely keeps."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    found = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) * 1024


def prepare(request: dict[str, Any]) -> ReadyCall:
    """A model in one way; whatever its library cannot do is MissingContender."""
    folder = Path(request["folder"])
    inputs = [aligned(a.shape, a.dtype, a) for a in read_arrays(folder / "inputs.npz")]
    wanted = read_arrays(folder / "reference.npz")
    outputs = [aligned(a.shape, np.dtype(np.float32)) for a in wanted]
    __import__(_MODULES.get(request["way"], request["way"]))
    before, begin = _resident(), time.perf_counter()
    try:
        way = WAYS[request["way"]](request, inputs, outputs)
        way.call()
    except MissingContender:
        raise
    except Exception as error:  # whatever a library does is a result
        raise MissingContender(f"{type(error).__name__}: {error}") from error
    way.about.setdefault("ready_seconds", time.perf_counter() - begin)
    found = [np.array(array) for array in way.results()]
    way.about["error"] = _error(found, wanted)
    way.about["beyond_weights"] = _resident() - before - facts_of(folder).get("weight_bytes", 0)
    return partial(time_calls, way.call), way.about, (way, inputs, outputs)


def _error(found: Arrays, wanted: Arrays) -> float:
    """The largest difference of an element, of the largest value of its result; infinite for other shapes."""
    if [a.shape for a in found] != [a.shape for a in wanted]:
        return float("inf")
    return float(np.max([np.abs(a - b).max() / np.abs(b).max() for a, b in zip(found, wanted, strict=True)]))


if __name__ == "__main__":
    serve(prepare)
