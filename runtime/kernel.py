"""Kernel: an Artifact on a device, callable on arrays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.artifact import Artifact
from ..common.errors import ArgumentError
from ..common.near import did_you_mean
from .arguments import Argument, accept, argument, check_apart, counted, given_back, span_of
from .devices.absent import AbsentKernel
from .devices.base import Array, Device, LoadedKernel
from .devices.cpu.memory import usual_array, usual_copy
from .export.description import FORMAT
from .foreign import Give, giver
from .ranges.ranged import RangedKernel, ranged_by_setting
from .ranges.torch_profiler import TorchRanges, is_profiling
from .tensor_call import TensorCall
from .timed import median_of_cold_calls, median_of_rounds

# What only calls kernels that were saved starts in a fraction of the time that all of the package takes: what else a kernel
# can do is imported where it is asked for.
if TYPE_CHECKING:
    from pathlib import Path

    from ..targets.target import Target
    from .device_calls import DeviceCalls
    from .export.export import Exported
    from .export.variants import Variant
    from .profiled import MeasuredRuns

STAGES = ("program", "sketch", "outline", "loops", "llvm", "asm")
_ON_ALL = STAGES[:-1]


def text_stages(target: Target) -> tuple[str, ...]:
    """The stages of which a kernel for a target has a text: STAGES, and on a GPU what its backend has instead of the last."""
    emission = target.backend.emission
    return STAGES if emission is None else (*_ON_ALL, emission.text, *emission.more)


class Kernel:
    """A compiled program: `kernel(*inputs)` gives one array, or a tuple if the program has several outputs.

    Inputs come in the order of the program's inputs, constants not among them: those are given here, once. Arrays are NumPy's
    or anything with DLPack on the CPU (taken without a copy), C-contiguous, of exactly the program's shapes and dtypes. Outputs
    are of the kind of the first input that is not NumPy's: torch tensors in, torch tensors out. Several threads may call at
    the same time; Python's global lock is released meanwhile.

    On a GPU, arrays of that device (`kernel.device.upload(array)`, or other libraries' by DLPack or __cuda_array_interface__)
    are taken without a copy, and outputs are DeviceArrays, or torch tensors where torch tensors came in; the call returns while
    the device is still at work, on the stream of `kernel(..., stream=...)` or that of the arguments' producer (streams.py).
    Host arrays are copied there, and where all inputs are host arrays, so are the outputs.

    Args:
        artifact: what to run.
        constants: the values of the program's constants, in its order or by name.
        provenance: where the configuration comes from (which record, which tier); kept for people to see.
        texts: called with one of `text_stages` its target for a text that the artifact did not keep.
        profiler: called with what was measured of each call (profiled.py) for what `profile` gives.
        kept: of a kernel that was pickled: takes the place of the constants.
        device: where to run; by default this machine's processors, its first GPU, or the emulator, as the artifact needs.
    """

    def __init__(
        self,
        artifact: Artifact,
        constants: Sequence[object] | Mapping[str, object] | None = None,
        *,
        provenance: object = None,
        texts: Callable[[str], str] | None = None,
        profiler: Callable[[MeasuredRuns], Any] | None = None,
        device: Device | None = None,
        kept: Sequence[Array] | None = None,
    ) -> None:
        self.artifact = artifact
        self.provenance = provenance
        self._texts = texts
        self._profiler = profiler
        self.device = device = device or _usual_device(artifact)
        self._inputs = tuple(argument(f"argument {n}", spec) for n, spec in enumerate(artifact.inputs))
        several = len(artifact.outputs) > 1
        self._outputs = tuple(
            argument(f"out[{n}]" if several else "out", spec) for n, spec in enumerate(artifact.outputs)
        )
        given = self._constants(constants) if kept is None else []
        self._loaded: LoadedKernel = device.load(artifact)
        if kept is None:
            self._loaded.prepare(given)
        else:
            self._loaded.restore(kept)
        # what a call needs, looked up once
        told = ranged_by_setting(self._loaded)
        self._run = told.run if told else self._loaded.run
        self._on_device = _device_calls(device, self._inputs, self._outputs, self._run) if device.own_memory else None
        self._run_if_right = told.run_if_right if told else self._loaded.run_if_right
        self._run_on_tensors = (told or TensorCall(self._loaded, self._inputs, self._outputs)).run_if_right
        self._for_torch: RangedKernel | None = None  # made where PyTorch's profiler is on
        self._count, self._single = len(self._inputs), not several
        self._expected = tuple((wanted.dtype, wanted.spec.shape) for wanted in self._inputs)
        self._empty = tuple((device.empty, wanted.spec.shape, wanted.dtype) for wanted in self._outputs)

    def __call__(self, *inputs: object, out: object = None, stream: object = None) -> Any:
        """The outputs for these inputs; `out` is an array, or a tuple of arrays, to write them to. `stream`: on which stream of
        a GPU, a handle or an object that has one.

        Raises ArgumentError for a wrong number of arrays, a wrong shape, dtype, memory order or device, and for an `out` that
        shares memory with an input.
        """
        if len(inputs) != self._count:
            raise self._wrong_count(len(inputs))
        if self._on_device is not None:
            return self._on_device.call(inputs, out, stream)
        if stream is not None:
            raise ArgumentError("stream= is for kernels on a GPU", found=f"a kernel on {self.device.name}")
        if out is not None:
            # not `tuple | list`, which would be made anew at each call
            given = out if isinstance(out, (tuple, list)) else (out,)
            if len(given) == len(self._outputs) and (
                self._run_if_right(*inputs, *given) or self._run_on_tensors(*inputs, *given)
            ):
                return out
        arrays: list[Any] = list(inputs)
        give: Give | None = None
        for number, (array, (dtype, shape)) in enumerate(zip(inputs, self._expected, strict=True)):
            if type(array) is np.ndarray and array.dtype is dtype and array.shape == shape:
                flags = array.flags
                if flags.c_contiguous and flags.aligned:
                    continue
            arrays[number] = accept(array, self._inputs[number])
            give = give or giver(array)
        outputs = (
            [make(shape, dtype) for make, shape, dtype in self._empty] if out is None else self._given(out, arrays)
        )
        arrays += outputs
        if give is not None and is_profiling():
            self._for_torch = self._for_torch or RangedKernel(self._loaded, (TorchRanges(),))
            self._for_torch.run(arrays)
        else:
            self._run(arrays)
        return given_back(outputs, self._outputs, give) if out is None else out

    def text(self, stage: str) -> str:
        """The program at a stage: one of `text_stages` the target. Errors: ArgumentError."""
        from ..targets.target import parse_target

        if stage not in (stages := text_stages(parse_target(self.artifact.target))):
            near = did_you_mean(stage, stages)
            raise ArgumentError(f"there is no stage {stage!r}", expected="one of " + ", ".join(stages), advice=near)
        kept = self.artifact.texts.get(stage)
        if kept is None and self._texts is not None:
            kept = self._texts(stage)
        if kept is None:
            raise ArgumentError(
                f"the text of stage {stage!r} was not kept",
                found="kept: " + (", ".join(sorted(self.artifact.texts)) or "none"),
                advice="compile the program again with its texts",
            )
        return kept

    def repeat(self, arrays: Sequence[Any], count: int) -> float:
        """Seconds of `count` runs on arrays as `kernel.device` makes them: inputs, then outputs. Nothing but their number is
        checked: ArgumentError."""
        wanted = len(self._inputs) + len(self._outputs)
        if len(arrays) != wanted:
            raise ArgumentError(
                "a wrong number of arrays", expected=f"{wanted}: inputs, then outputs", found=str(len(arrays))
            )
        return self._loaded.run_repeat(arrays, count)

    def time(self, *inputs: object, out: object = None, cold: bool = False) -> float:
        """The median seconds of a call, as a loop over `kernel(*inputs, out=out)` sees it.

        Args:
            inputs, out: by default random ones that lie in memory as NumPy's mostly do, 16 bytes behind the begin of a line.
                Where yours lie otherwise, as outputs that a kernel made do, the time may be another: give them.
            cold: take all arrays, and what is kept of constants, out of the caches before each call. Else they are where the
                call before has left them.

        On a GPU: the seconds of the device alone, with cold caches.
        """
        if self._on_device is not None:
            return self._device_time(self._on_device, inputs or self._random_inputs())
        given = inputs or tuple(map(usual_copy, self._random_inputs()))
        made = tuple(usual_array(wanted.spec.shape, wanted.dtype) for wanted in self._outputs)
        target = out if out is not None else (made[0] if self._single else made)
        self(*given, out=target)  # what is wrong is told here, and pages are touched
        if cold:
            return self._cold_time(given, target)
        return median_of_rounds(lambda count: self._calls(given, target, count))

    def call_seconds(self, *inputs: object) -> tuple[float, ...]:
        """Returns, for a model, the median seconds of each call of a kernel (`artifact.launches`), in a run of all of them,
        then of what it copies at the end. `inputs`: by default random ones. Raises ArgumentError for a kernel that is no
        model."""
        if not self.artifact.kernels:
            raise ArgumentError(f"{self.artifact.name} is no model", advice="time() is the time of a kernel")
        from .profiled import medians

        return medians(self._call_runs(self._profiled_arrays(inputs)))

    def profile(self, *inputs: object, counters: bool = True) -> Any:
        """Says where the time goes (graph.executor.profile.Profile): a row for each kernel that a run calls, with its layers,
        share, speed, what bounds it, and what hardware counts of it. `inputs`: by default random ones.

        Kernels of a model are timed while all of it runs, in its team: each finds the caches as those before it leave them. A
        clock is read after each, which takes some 20 ns. Counters are read in runs of their own; where there are none, the
        profile says why. Raises ArgumentError for a kernel that `compile` did not make.
        """
        from .profiled import MeasuredRuns, counted_or_why, medians

        if self._profiler is None:
            raise ArgumentError(f"nothing is known of what {self.artifact.name} does", advice="tilesmith.compile says")
        if not self.artifact.kernels:
            runs: tuple[tuple[float, ...], ...] = ((self.time(*inputs),),)
            arrays = [] if self._on_device is not None else self._profiled_arrays(inputs)
        else:
            arrays = self._profiled_arrays(inputs)
            runs = self._call_runs(arrays)
        counts, absent = counted_or_why(self._loaded, arrays) if counters else ((), "")
        return self._profiler(MeasuredRuns(medians(runs), runs, counts, absent))

    def _profiled_arrays(self, inputs: Sequence[object]) -> list[Array]:
        """Inputs and outputs for runs that are looked at."""
        given = inputs or self._random_inputs()
        self(*given)  # what is wrong is told here
        arrays = [accept(value, wanted) for value, wanted in zip(given, self._inputs, strict=True)]
        return arrays + [make(shape, dtype) for make, shape, dtype in self._empty]

    def _call_runs(self, arrays: Sequence[Array]) -> tuple[tuple[float, ...], ...]:
        from .profiled import RUNS

        return tuple(tuple(self._loaded.run_timed(arrays)) for _ in range(RUNS))[1:]

    def _random_inputs(self) -> tuple[Array, ...]:
        from .random_arguments import random_arguments

        return random_arguments(self._inputs, None if self._texts is None else self._texts("program"))

    def _calls(self, inputs: Sequence[object], out: object, count: int) -> float:
        """Seconds of so many calls."""
        started = time.perf_counter()
        for _ in range(count):
            self(*inputs, out=out)
        return time.perf_counter() - started

    def _cold_time(self, inputs: Sequence[object], out: object) -> float:
        outputs = zip(counted(out, self._outputs), self._outputs, strict=True)
        arrays = [accept(value, wanted) for value, wanted in (*zip(inputs, self._inputs, strict=True), *outputs)]
        return median_of_cold_calls(lambda: self._calls(inputs, out, 1), lambda: self._loaded.evict(arrays))

    def _device_time(self, calls: DeviceCalls, inputs: Sequence[object]) -> float:
        arrays = calls.placed(inputs)
        self._loaded.run(arrays)
        return median_of_rounds(lambda count: self._loaded.run_repeat(arrays, count))

    def export(
        self,
        folder: str | Path,
        *others: Kernel,
        name: str | None = None,
        openmp: bool = True,
        inside: bool | None = None,
    ) -> Exported:
        """Writes it as a C library with a header, to be run without Python: see export/export.py, which says what the arguments
        are, and the errors. `others`: the same program for other processors, for one library with all; the best first."""
        from .export.export import export

        variants = [one._variant() for one in (self, *others)]
        return export(variants, folder, name=name, openmp=openmp, inside=inside, about=str(self.provenance))

    def save(self, folder: str | Path) -> None:
        """Writes it, with its constants and provenance, for `tilesmith.load`: a shared library, which the system's C compiler
        makes, and what says how it is called. `export` writes the same and more, for those who call it from C.

        Raises:
            TargetError: the kernel is for a GPU.
            EnvironmentFailure: there is no C compiler for the target, or it failed.
        """
        from .export.export import save

        save(self._variant(), folder, about=str(self.provenance))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Kernel:
        """The kernel that `save` or `export` wrote into a folder: neither LLVM nor a compiler is needed. It is code: load only
        what you trust.

        Raises:
            ArgumentError: there is none, it is of another version, or a file of it was changed, mixed up or lost.
            TargetError: the code is for other processors.
            EnvironmentFailure: it cannot be loaded.
        """
        from .export.library import LibraryDevice

        device = LibraryDevice(path)
        return Kernel(device.artifact, provenance=device.about, device=device)

    def _variant(self) -> Variant:
        from .export.variants import variant_of

        return variant_of(self.artifact, self._loaded.kept(), isinstance(self._loaded, AbsentKernel))

    def __reduce__(self) -> tuple[object, ...]:
        """A pickle holds the machine code: it runs on machines that have what the target says, and errors elsewhere. Of a
        library it holds where that lies."""
        if self.artifact.format == FORMAT:
            return Kernel.load, (self.device.name,)
        known = self.provenance, self._texts, self._profiler
        return _again, (self.artifact, self._loaded.kept(), *known, self.device.name)

    def __copy__(self) -> Kernel:
        """Itself: nothing of a kernel ever changes."""
        return self

    def __deepcopy__(self, memo: object) -> Kernel:
        """Works as `copy`."""
        return self

    def __repr__(self) -> str:
        def listed(wanted: tuple[Argument, ...]) -> str:
            return ", ".join(f"{one.spec.name}: {one.wanted}" for one in wanted)

        return f"<Kernel {self.artifact.name}({listed(self._inputs)}) -> {listed(self._outputs)}>"

    def _repr_html_(self) -> str:
        from .kernel_html import kernel_html

        return kernel_html(self.artifact, repr(self), str(self.provenance), self.text)

    def _wrong_count(self, found: int) -> ArgumentError:
        listed = ", ".join(f"{wanted.spec.name}: {wanted.wanted}" for wanted in self._inputs)
        more = "constants are given when the program is compiled, outputs by out=" if found > len(self._inputs) else ""
        return ArgumentError(
            "a wrong number of arrays", expected=f"{len(self._inputs)}: {listed}", found=str(found), advice=more
        )

    def _constants(self, given: Sequence[object] | Mapping[str, object] | None) -> list[Array]:
        wanted = tuple(argument(f"constant {n}", spec) for n, spec in enumerate(self.artifact.constants))
        names = [one.spec.name for one in wanted]
        if isinstance(given, Mapping):
            unknown = sorted(set(given) - set(names)) + [name for name in names if name not in given]
            if unknown:
                raise ArgumentError(
                    "the constants do not fit the program", expected=str(names), found=str(sorted(given))
                )
            given = [given[name] for name in names]
        given = given or ()
        if len(given) != len(wanted):
            raise ArgumentError(
                "the constants do not fit the program",
                expected=f"values for {names}",
                found=f"{len(given)} arrays",
                advice="pass constants={name: array, ...} when the program is compiled",
            )
        return [accept(value, one) for value, one in zip(given, wanted, strict=True)]

    def _given(self, out: object, inputs: list[Any]) -> list[Array]:
        """The caller's arrays for the outputs."""
        values = counted(out, self._outputs)
        outputs = [accept(value, wanted, writable=True) for value, wanted in zip(values, self._outputs, strict=True)]
        check_apart([span_of(array) for array in inputs], [span_of(array) for array in outputs], self._outputs)
        return outputs


def _usual_device(artifact: Artifact) -> Device:
    from .devices.choose import device_for

    return device_for(artifact)


def _device_calls(
    device: Device, inputs: Sequence[Argument], outputs: Sequence[Argument], run: Callable[..., None]
) -> DeviceCalls:
    from .device_calls import DeviceCalls

    return DeviceCalls(device, inputs, outputs, run)


def _again(
    artifact: Artifact,
    kept: Sequence[Array],
    provenance: object,
    texts: Callable[[str], str] | None,
    profiler: Callable[[MeasuredRuns], Any] | None,
    device: str,
) -> Kernel:
    """A pickled kernel in another process."""
    from .devices.choose import device_again

    there = device_again(artifact, device)
    return Kernel(artifact, kept=kept, provenance=provenance, texts=texts, profiler=profiler, device=there)
