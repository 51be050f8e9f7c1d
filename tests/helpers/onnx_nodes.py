"""ONNX's own tests of its operators (`onnx.backend.test`), each imported and held against its data by the oracle."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tilesmith.common.errors import TilesmithError
from tilesmith.graph.importers.onnx import from_onnx
from tilesmith.graph.importers.onnx_file import array_of, dtype_named, stored
from tilesmith.graph.model import Model
from tilesmith.tensor.oracle.reference import bounded, evaluate

Array = np.ndarray[Any, Any]
REFUSED, PASSED = "refused", "passed"


@dataclass(frozen=True)
class Outcome:
    """What became of a test: passed, refused (why), or wrong (how)."""

    kind: str
    why: str = ""
    model: Model | None = None


@cache
def cases() -> list[Any]:
    """All tests of operators, in their order."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return list(load_model_tests(kind="node"))


def operator_of(case: Any) -> str:
    """The operator that a test is about; of expanded tests that of the whole."""
    nodes = case.model.graph.node
    if len(nodes) == 1:
        return str(nodes[0].op_type)
    return str(case.name).removeprefix("test_").partition("_expanded")[0].partition("_")[0] + " (expanded)"


def outcome(case: Any) -> Outcome:
    """Imports a test and evaluates it. Inputs that say shapes are given as initializers, where the test has them as inputs."""
    sets = [tuple([_array(one) for one in part] for part in pair) for pair in case.data_sets]
    try:
        model, left = _imported(case.model, sets[0][0])
    except TilesmithError as error:
        return Outcome(REFUSED, f"{error.problem}: {error.found}")
    for given, wanted in sets:
        arrays = [array for number, array in enumerate(given) if number in left]
        problem = _wrong(model, arrays, wanted, case.rtol, case.atol)
        if problem:
            return Outcome("wrong", problem, model)
    return Outcome(PASSED, model=model)


def _imported(proto: Any, given: Sequence[Any]) -> tuple[Model, set[int]]:
    """(the model, numbers of the inputs that it takes): inputs that say shapes become initializers, as few as serve."""
    try:
        return from_onnx(proto), {n for n in range(len(given)) if _has_elements(given[n])}
    except TilesmithError as error:
        first = error
    names = [one.name for one in proto.graph.input]
    small = {n for n, array in enumerate(given) if _shapes(array)}
    whole = {n for n in small if given[n].dtype.kind in "iub"}
    for said in ({n for n in small if f"the data of {names[n]}" in str(first)}, whole, small):
        if said:
            try:
                model = from_onnx(_with_initializers(proto, given, said))
            except TilesmithError:
                continue
            return model, {n for n in range(len(given)) if n not in said and _has_elements(given[n])}
    raise first


def _array(one: Any) -> Any:
    """What a test gives: an array, a number, or a proto."""
    from onnx import TensorProto

    if isinstance(one, TensorProto):
        return array_of(one)
    return one if isinstance(one, list | str | bytes) or one is None else np.asarray(one)


def _has_elements(array: Any) -> bool:
    return not isinstance(array, np.ndarray) or array.size > 0


def _shapes(array: Any) -> bool:
    """Whether an input may say a shape: few numbers in a row, or one."""
    return isinstance(array, np.ndarray) and array.ndim <= 1 and array.size <= 16 and array.dtype.kind in "iufbV"


def _with_initializers(proto: Any, given: Sequence[Any], said: set[int]) -> Any:
    from onnx import numpy_helper

    made = type(proto)()
    made.CopyFrom(proto)
    inputs = list(made.graph.input)
    for number in said:
        made.graph.initializer.append(numpy_helper.from_array(given[number], inputs[number].name))
    del made.graph.input[:]
    made.graph.input.extend(one for number, one in enumerate(inputs) if number not in said)
    return made


def _wrong(model: Model, given: Sequence[Any], wanted: Sequence[Any], rtol: float, atol: float) -> str:
    arrays = iter([stored(array) for array in given])
    inputs = [model.constants[i.tensor.name] if i.constant else next(arrays) for i in model.program.inputs]
    found = evaluate(model.program, inputs)
    for name, got, truth in zip(model.program.outputs, found, wanted, strict=True):
        want = np.asarray(truth)
        dtype = dtype_named(want.dtype.name)
        if dtype is None or model.program.tensors[name].dtype != dtype:
            return f"{name} is {model.program.tensors[name].dtype}, not {want.dtype}"
        if got.shape != want.shape:
            return f"{name} has the shape {got.shape}, not {want.shape}"
        value = got.astype(want.dtype) if want.dtype.kind != "b" else got
        close = max(rtol, 2 * dtype.eps)
        finite = np.abs(want[np.isfinite(want)].astype(np.float64)) if dtype.is_float else np.zeros(0)
        least = atol + dtype.eps * finite.max(initial=0.0)  # the data of a test were rounded too
        if not np.allclose(value.astype(np.float64), want.astype(np.float64), close, least, equal_nan=True):
            if _within(model, inputs, name, want):
                continue
            apart = np.abs(value.astype(np.float64) - want.astype(np.float64))
            return f"{name} is off by up to {np.nanmax(apart)}: {value.ravel()[:4]} not {want.ravel()[:4]}"
    return ""


def _within(model: Model, inputs: Sequence[Array], name: str, want: Array) -> bool:
    """Whether an answer is one that a kernel may give: roundings may fall the other way."""
    value, most = bounded(model.program, inputs)[model.program.outputs.index(name)]
    return bool(np.all(np.abs(value.astype(np.float64) - want.astype(np.float64)) <= most))


def table(found: dict[str, list[Outcome]]) -> str:
    """Coverage by operator: passed of all."""
    lines = []
    for operator, outcomes in sorted(found.items()):
        counts = Counter(one.kind for one in outcomes)
        why = next((one.why for one in outcomes if one.kind != PASSED), "")
        lines.append(f"{operator:32} {counts[PASSED]:4} of {len(outcomes):4}  {why[:90]}")
    return "\n".join(lines)


__all__ = ["PASSED", "REFUSED", "Outcome", "cases", "operator_of", "outcome", "table"]
