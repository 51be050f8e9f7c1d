"""The process of one contender: `python -m tilesmith.tuner.bench.child`, which only race.py starts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...graph.executor.provenance import ModelProvenance
from ...measure.compare.contender import MissingContender
from ...measure.compare.serving import ReadyCall, aligned, serve, time_calls
from .calls import Array, ModelWay
from .libraries import LIBRARIES, OURS
from .sampling import POINTS, sample, values_at
from .subject import MODULE, Subject, arrays_of


def prepare(request: dict[str, Any]) -> ReadyCall:
    """Gets ready to run what lies in a folder, in the way of one library. The answer has a sample of what it computes."""
    folder, name, threads = Path(request["folder"]), request["library"], request["threads"]
    _check_installed(name)
    subject = Subject.read(folder)
    arrays = {key: aligned(value.shape, value.dtype, value) for key, value in arrays_of(folder).items()}
    tensors = [subject.program.tensors[one] for one in subject.program.outputs]
    outputs = [aligned(tensor.shape, tensor.dtype.numpy) for tensor in tensors]
    begin = time.perf_counter()
    try:
        if name == OURS:
            way, how = _ours(subject, arrays, outputs, threads, request["database"])
        else:
            way, how = _of_library(subject, folder, name, arrays, outputs, threads)
        found = _sample(way, outputs, [tensor.dtype for tensor in tensors])
    except MissingContender:
        raise
    except Exception as error:  # whatever a library does is a result
        raise MissingContender(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}") from error
    answer = {"sample": found, "how": how, "ready": time.perf_counter() - begin}
    call = way.call if isinstance(way, ModelWay) else way
    return partial(time_calls, call), answer, (way, arrays, outputs)


def _check_installed(name: str) -> None:
    if name == OURS:
        return
    peer = LIBRARIES[name]
    missing = [module for module in peer.needs if find_spec(module) is None]
    if missing:
        raise MissingContender(f"not installed: {peer.install}")


def _ours(
    subject: Subject, arrays: dict[str, Array], outputs: Sequence[Array], threads: int, database: str | None
) -> tuple[Any, str]:
    from ..apply.compile import compile as compile_program

    fixed = {t.name: arrays[t.name] for t in subject.program.constant_inputs} if subject.model is None else None
    kernel = compile_program(subject.model or subject.program, db=database, threads=threads, constants=fixed or None)
    inputs = [arrays[tensor.name] for tensor in subject.program.dynamic_inputs]
    out = outputs[0] if len(outputs) == 1 else tuple(outputs)
    return (lambda: kernel(*inputs, out=out)), _served(kernel.provenance)


def _served(provenance: object) -> str:
    """Says which records serve; of a model how many kernels each tier serves."""
    if not isinstance(provenance, ModelProvenance):
        return str(provenance)
    tiers = Counter(str(call.provenance).partition(":")[0] for call in provenance.calls)
    return "kernels: " + ", ".join(f"{count} {tier}" for tier, count in tiers.most_common())


def _of_library(
    subject: Subject, folder: Path, name: str, arrays: dict[str, Array], outputs: Sequence[Array], threads: int
) -> tuple[Any, str]:
    peer = LIBRARIES[name]
    if subject.model is None:
        found = peer.program(subject, arrays, outputs, threads)
        if found is None:
            raise MissingContender(f"{name} has no way of computing this that is known here")
        return found
    if peer.model is None:
        raise MissingContender(f"{name} runs no models")
    path = folder / MODULE if peer.form == MODULE else Path(subject.onnx or folder / peer.form)
    if not path.exists():
        raise MissingContender(subject.reasons.get(peer.form, "there is no form of this model that it reads"))
    inputs = [arrays[tensor.name] for tensor in subject.program.dynamic_inputs]
    return peer.model(str(path), inputs, outputs, threads), ""


def _sample(way: Any, outputs: Sequence[Array], dtypes: Sequence[Any]) -> list[list[float]]:
    if not isinstance(way, ModelWay):
        return sample(way, outputs, dtypes)
    way.call()
    found = list(way.results())
    for array, out in zip(found, outputs, strict=False):
        if array.shape != out.shape:
            raise ValueError(f"it gave an array of shape {array.shape}, not {out.shape}")
    return [values_at(array, dtype, POINTS) for array, dtype in zip(found, dtypes, strict=False)]


if __name__ == "__main__":
    serve(prepare)
