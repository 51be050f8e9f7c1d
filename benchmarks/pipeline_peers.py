"""A pipeline in the way of one contender, in a process of its own (peers.py says why and how they talk)."""

from __future__ import annotations

import time
from functools import partial
from threading import Timer
from typing import Any

import numpy as np
from peers import OURS, SAMPLES
from pipeline.images import IMAGES
from pipeline.pictures import given as pictured
from pipeline.programs import PROGRAMS

from tilesmith.measure.compare.contender import ContenderProcess, MissingContender
from tilesmith.measure.compare.serving import ReadyCall, aligned, serve, time_calls

HALIDE = {"halide by hand": "by hand", "halide Mullapudi2016": "Mullapudi2016", "halide Adams2019": "Adams2019"}
PATIENCE = 60.0  # seconds: some schedules of long chains take Halide longer to compile
EACH = 2.0  # seconds more for each trial, which ours alone makes
TORCH = "torch.compile"
OPENCV = "OpenCV"
LOOP = "single sweeps"  # ours, one kernel for each sweep, called one after another

# Programs of integers that see a picture too: what is drawn for the others has few values.
SEEN = ("blur 3x3 u8", "blur 9x9 u8", "blur 9x9 u16", "equalised")


class PipelinePeer(ContenderProcess):
    """The parent's side. `about`: the last answer."""

    def __init__(self, name: str, threads: int) -> None:
        super().__init__(name, threads, __file__)
        self.about: dict[str, Any] = {}

    def prepare(self, name: str, trials: int, database: str) -> None:
        """Prepares a pipeline. Errors: MissingContender, RuntimeError where that takes too long (PATIENCE, trials)."""
        request = {"name": name, "way": self.name, "threads": self.threads, "trials": trials, "database": database}
        stop = Timer(PATIENCE + (EACH * trials if self.name == OURS else 0), self.close_at_once)
        stop.start()
        self.tell({"prepare": request})
        try:
            self.about = self.answer()
        finally:
            stop.cancel()


# the child


def prepare(request: dict[str, Any]) -> ReadyCall:
    """Makes what the request asks for; the answer has a sample of the output and the seconds until it was ready."""
    import tilesmith
    from tilesmith.tensor.oracle.random_inputs import random_inputs

    name, way, threads = request["name"], request["way"], request["threads"]
    program = tilesmith.parse(PROGRAMS[name]())
    sources = [declared.tensor for declared in program.inputs]
    if name in IMAGES or name in SEEN:
        drawn = [pictured(name, sources[0].shape, sources[0].dtype.numpy)]
    else:
        drawn = list(random_inputs(program, seed=1))
    given = [aligned(one.shape, one.dtype.numpy, array) for one, array in zip(sources, drawn, strict=True)]
    tensor = program.tensors[program.outputs[0]]
    output = aligned(tensor.shape, tensor.dtype.numpy)
    about: dict[str, object] = {}
    begin = time.perf_counter()
    if way in HALIDE:
        try:
            from pipeline.halide_schedules import prepared

            call = prepared(name, HALIDE[way], given, output, threads)
        except RuntimeError as error:
            raise MissingContender(str(error).splitlines()[0]) from error
    elif way == OURS:
        if request["trials"]:
            tilesmith.tune(program, trials=request["trials"], threads=threads, db=request["database"], progress=False)
            about["tuning_seconds"] = time.perf_counter() - begin
            begin = time.perf_counter()
        kernel = tilesmith.compile(program, db=request["database"], threads=threads)
        about["provenance"] = str(kernel.provenance)
        call = partial(kernel, *given, out=output)
    elif way == TORCH:
        from pipeline.torch_layers import prepared as compiled

        call = compiled(name, given, output, threads)
    elif way == OPENCV:
        from pipeline.opencv_images import prepared as called

        call = called(name, given[0], output, threads)
    else:
        call = _single_sweeps(name, threads, given[0], output)
    about["ready_seconds"] = time.perf_counter() - begin
    call()
    points = np.random.default_rng(2).integers(0, output.size, SAMPLES)
    about["integers"] = not np.issubdtype(output.dtype, np.floating)
    about["sample"] = [float(value) for value in output.reshape(-1)[points]]
    return partial(time_calls, call), about, (*given, output)


def _single_sweeps(name: str, threads: int, given: np.ndarray, output: np.ndarray) -> Any:
    import tilesmith

    family, _, count = name.rpartition(" ")
    if family != "jacobi" or int(count) == 1:
        raise MissingContender("not a number of sweeps")
    kernel = tilesmith.compile(tilesmith.parse(PROGRAMS["jacobi 1"]()), threads=threads)
    between = [aligned(given.shape, given.dtype) for _ in range(2)]

    def call() -> None:
        last = given
        for sweep in range(int(count)):
            target = output if sweep + 1 == int(count) else between[sweep % 2]
            kernel(last, out=target)
            last = target

    return call


if __name__ == "__main__":
    serve(prepare)
