"""What a builder child does: a job becomes an artifact, or a measurement that says why not."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from time import process_time

from ...common.errors import ScheduleError, TilesmithError, UserError
from ..result import Failure, Job, Measurement, Status
from .worker import Link

_WARM_UP = """\
input A: f32[64]
B[i: 64] = A[i] * A[i] + 1
return B
"""


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled job. `artifact` is pickled: whoever passes it on need not import what compiled it.

    `seconds` are of processor time: a builder may be stopped in the middle while a clock is read elsewhere.
    """

    artifact: bytes
    builder: str  # codegen and LLVM version
    seconds: float


class Builder:
    """Compiles jobs (a `worker.Handler`).

    The first compile of a process pays for starting LLVM, so one is made before the child says that it is ready.

    Args:
        target: the target's text; None leaves the start to the first job.
    """

    def __init__(self, target: str | None = None) -> None:
        from ...codegen.pipeline import build_candidate

        self._build = build_candidate
        if target is not None:
            build_candidate(_WARM_UP, "", {}, target, 1)

    def handle(self, request: Job, link: Link) -> Built | Measurement:
        """Builds one job."""
        link.stage("compile")
        start = process_time()
        try:
            artifact = self._build(request.program, request.sketch, request.config, request.target, request.threads)
            payload = pickle.dumps(artifact, protocol=pickle.HIGHEST_PROTOCOL)
            return Built(payload, artifact.builder, process_time() - start)
        except Exception as error:
            return failed_build(error, process_time() - start)


def failed_build(error: Exception, seconds: float) -> Measurement:
    """A candidate that could not be built: a broken rule of the schedule is `invalid`, all else is a compile error."""
    if isinstance(error, MemoryError):
        status, stage = Status.OUT_OF_MEMORY, "compile"
    elif isinstance(error, ScheduleError):
        status, stage = Status.INVALID, "lower"
    else:
        status, stage = Status.COMPILE_ERROR, "lower" if isinstance(error, UserError) else "compile"
    return Measurement(status, failure=Failure(stage, describe(error)), compile_seconds=seconds)


def describe(error: Exception) -> str:
    """The message of an error; with its kind and the innermost place when it is not one of ours."""
    if isinstance(error, TilesmithError):
        return str(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""
    return f"{type(error).__name__}: {error}{place}"
