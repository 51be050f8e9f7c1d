"""Writes a model in all the forms that the contenders read, with its inputs and what it computes in float64.

    python benchmarks/model_exports.py resnet18 FOLDER

ours/           the program and its constants (`Model.save`)
model.onnx      by torch's exporter
inputs.npz      the inputs, in order
reference.npz   the results in float64
facts.json      seconds of the import, stages, bytes of the constants; `failed`: why a form is missing
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from zoo.modules import example
from zoo.names import scheme_of
from zoo.narrow import narrow_onnx, narrow_ours

import tilesmith
from tilesmith.graph.model import Model


def write(name: str, folder: Path) -> None:
    """Writes all forms; one that fails is a fact."""
    folder.mkdir(parents=True, exist_ok=True)
    module, inputs = example(name.partition("@")[0])
    path = folder / "model.onnx"
    facts: dict[str, object] = {}
    failed: dict[str, str] = {}

    def attempt(form: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # whatever an exporter does is a result
            failed[form] = f"{type(error).__name__}: {error}"

    def in_float() -> Model:
        return tilesmith.from_torch(module, inputs)

    def ours() -> None:
        begin = time.perf_counter()
        model = narrow_ours(name, in_float, path) if scheme_of(name) else in_float()
        facts["import_seconds"] = time.perf_counter() - begin
        facts["stages"] = len(model.program.stages)
        facts["weight_bytes"] = sum(value.nbytes for value in model.constants.values())
        model.save(folder / "ours")

    def onnx() -> None:
        torch.onnx.export(module, inputs, str(path), dynamo=True, verbose=False)
        if scheme_of(name):
            narrow_onnx(name, path, [tensor.numpy() for tensor in inputs])

    attempt("onnx", onnx)
    attempt("ours", ours)
    np.savez(folder / "inputs.npz", *[tensor.numpy() for tensor in inputs])
    with torch.no_grad():
        wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
        results = module.double()(*wide)
    np.savez(folder / "reference.npz", *[t.numpy() for t in (results if isinstance(results, tuple) else (results,))])
    facts["failed"] = failed
    (folder / "facts.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
