"""A training step in the way of one contender, in a process of its own (peers.py says why and how they talk).

A request is {model, way, threads}; the answer has the largest error of a gradient against eager float64, relative to the
largest value of all, the same of eager float32, and the seconds until the first step was done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from peers import OURS
from zoo.training import Step, steps_of

from tilesmith.measure.compare.contender import ContenderProcess, MissingContender
from tilesmith.measure.compare.serving import ReadyCall, serve, time_calls


class TrainingPeer(ContenderProcess):
    """The parent's side. `about`: the last answer."""

    def __init__(self, name: str, threads: int) -> None:
        super().__init__(name, threads, __file__)
        self.about: dict[str, Any] = {}

    def prepare(self, model: str) -> None:
        """Prepares a step of a model. Errors: MissingContender."""
        self.tell({"prepare": {"model": model, "way": self.name, "threads": self.threads}})
        self.about = self.answer()


# the child


def _ours(module: torch.nn.Module, threads: int) -> Any:
    return torch.compile(module, backend="tilesmith", options={"threads": threads})


WAYS: dict[str, Callable[[torch.nn.Module, int], Any]] = {
    OURS: _ours,
    "torch": lambda module, threads: module,
    "torch.compile": lambda module, threads: torch.compile(module),
}


def _gradients(step: Step, call: Any) -> list[torch.Tensor]:
    """Forward and backward; the gradients of all parameters."""
    step.module.zero_grad(set_to_none=True)
    step.loss(call(*step.inputs)).backward()
    return [p.grad for p in step.module.parameters() if p.grad is not None]


def prepare(request: dict[str, Any]) -> ReadyCall:
    """A step in one way; whatever its library cannot do is MissingContender."""
    torch.set_num_threads(request["threads"])
    step = steps_of(request["model"])
    wanted = _gradients(exact := step.double(), exact.module)
    eager = _error(_gradients(step, step.module), wanted)
    begin = time.perf_counter()
    try:
        call = WAYS[request["way"]](step.module, request["threads"])
        found = [gradient.clone() for gradient in _gradients(step, call)]
    except Exception as error:  # whatever a library does is a result
        raise MissingContender(f"{type(error).__name__}: {error}") from error
    about = {"ready_seconds": time.perf_counter() - begin, "error": _error(found, wanted), "eager_error": eager}
    return partial(time_calls, partial(_gradients, step, call)), about, (step, call)


def _error(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    """The largest difference of an element, of the largest value of all gradients."""
    if len(found) != len(wanted):
        return float("inf")
    largest = max(float(b.abs().max()) for b in wanted)
    return max(float((a.double() - b).abs().max()) for a, b in zip(found, wanted, strict=True)) / largest


if __name__ == "__main__":
    serve(prepare)
