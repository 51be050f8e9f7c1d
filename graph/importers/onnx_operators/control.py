"""If, Loop and Scan whose course is known: the branch that is taken, or each step after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ....tensor.program import Tensor
from ...functions.function import NotCovered, axis_of
from ...functions.shape import select_axis, stack
from .registry import OnnxValue

BODIES = ("If", "Loop", "Scan")
STEPS = 512  # of a loop, each of which becomes stages of its own

RunBody = Callable[[Any, Sequence[Any]], list[Any]]  # (a graph, values of its inputs) -> its results
AsTensor = Callable[[OnnxValue], Tensor]


def bodies_in(node: Any) -> Iterator[Any]:
    """The graphs among a node's attributes."""
    for proto in node.attribute:
        if proto.HasField("g"):
            yield proto.g


def unrolled(
    operator: str, attributes: Mapping[str, Any], inputs: Sequence[Any], run: RunBody, tensor: AsTensor
) -> tuple[list[Any], list[Tensor]]:
    """(results, those of them that are new stages). Errors: NotCovered where the course depends on data."""
    if operator == "If":
        chosen = "then_branch" if bool(_known(inputs[0], "a branch")) else "else_branch"
        return run(attributes[chosen], []), []
    return (_loop if operator == "Loop" else _scan)(attributes, inputs, run, tensor)


def _known(value: Any, what: str) -> Any:
    if not isinstance(value, np.ndarray):
        raise NotCovered(f"control flow: {what} that depends on data")
    return value.reshape(-1)[0].item()


def _loop(
    attributes: Mapping[str, Any], inputs: Sequence[Any], run: RunBody, tensor: AsTensor
) -> tuple[list[Any], list[Tensor]]:
    body, carried = attributes["body"], list(inputs[2:])
    limit = None if inputs[0] is None else _known(inputs[0], "a number of steps")
    going = inputs[1] is None or _known(inputs[1], "a condition")
    steps: list[list[Any]] = []
    while going and (limit is None or len(steps) < limit):
        if len(steps) == STEPS:
            raise NotCovered(f"control flow: a loop of more than {STEPS} steps")
        results = run(body, [np.array(len(steps), np.int64), np.array(True), *carried])
        going = _known(results[0], "a condition")
        carried = results[1 : 1 + len(carried)]
        steps.append(results[1 + len(carried) :])
    if not steps and len(body.output) > 1 + len(carried):
        raise NotCovered("a loop without steps: a tensor without elements")
    gathered = [_together([step[n] for step in steps], 0, tensor) for n in range(len(body.output) - 1 - len(carried))]
    return [*carried, *gathered], [one for one in gathered if isinstance(one, Tensor)]


def _scan(
    attributes: Mapping[str, Any], inputs: Sequence[Any], run: RunBody, tensor: AsTensor
) -> tuple[list[Any], list[Tensor]]:
    body, count = attributes["body"], int(attributes["num_scan_inputs"])
    carried, scanned = list(inputs[: len(inputs) - count]), list(inputs[len(inputs) - count :])
    outputs = len(body.output) - len(carried)
    axes = [
        axis_of(a, len(x.shape)) for a, x in zip(attributes.get("scan_input_axes") or [0] * count, scanned, strict=True)
    ]
    backward = attributes.get("scan_input_directions") or [0] * count
    length = scanned[0].shape[axes[0]]
    if length > STEPS:
        raise NotCovered(f"control flow: a scan of more than {STEPS} steps", found=str(length))
    steps: list[list[Any]] = []
    for step in range(length):
        places = [length - 1 - step if back else step for back in backward]
        parts = [_part(x, axis, place) for x, axis, place in zip(scanned, axes, places, strict=True)]
        results = run(body, [*carried, *parts])
        carried = results[: len(carried)]
        steps.append(results[len(carried) :])
    turned = attributes.get("scan_output_directions") or [0] * outputs
    places = attributes.get("scan_output_axes") or [0] * outputs
    gathered = []
    for number in range(outputs):
        parts = [step[number] for step in steps]
        gathered.append(_together(parts[::-1] if turned[number] else parts, places[number], tensor))
    return [*carried, *gathered], [one for one in gathered if isinstance(one, Tensor)]


def _part(x: Any, axis: int, place: int) -> Any:
    if isinstance(x, np.ndarray):
        return np.take(x, place, axis)
    return select_axis(x, axis, place)


def _together(parts: Sequence[Any], axis: int, tensor: AsTensor) -> Any:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.stack(parts, axis)
    return stack([tensor(part) for part in parts], axis)
