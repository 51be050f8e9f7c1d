"""The kernels of a program as one artifact, which a `Kernel` runs as it runs any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...codegen.artifact import Artifact, BufferSpec, Launch
from ...codegen.backends.cpu import builder_version, compile_object
from ...codegen.emit.cpu.module import plain_symbol
from ...codegen.pipeline import argument_specs
from ...codegen.rows import ArgumentRows
from ...common.errors import InternalError, TargetError
from ...runtime.devices.cpu.model_team import TEAM
from ...targets.target import parse_target
from ...tensor.program import Program
from ..place import Inside, argument_rows
from .caller import caller_text
from .calls import plan_calls
from .check import check_calls


def compose(
    program: Program,
    kernels: Sequence[Program],
    artifacts: Sequence[Artifact],
    aliases: Mapping[str, str],
    inside: Inside | None = None,
    name: str = "model",
) -> Artifact:
    """One artifact that computes `program` by calling kernels in this order.

    Tensors of kernels have the names that the program has for them. Outputs are written where the caller wants them, inputs
    are read where they are, and what lies between kernels has a place in one arena (memory.py).

    Args:
        artifacts: for each kernel what computes it, with the kernel's arguments in their order, in the rows in which those
            lie (`argument_rows`). Kernels that are equal but for names may share one.
        aliases: tensor -> tensor whose memory it shares, bytes and all.
        inside: tensor -> its place in another one: so parts of a concat are written where they belong.

    For a GPU the model would be the list of all launches of its kernels. A launch is given all arguments of its kernel today,
    so each would have to say which arguments, and which parts of the workspace, those are: an argument map for each launch.

    Raises:
        InternalError: the kernels do not compute the program (check.py), or artifacts do not fit them.
        TargetError: the artifacts are for a GPU.
    """
    places = inside or {}
    check_calls(program, kernels, aliases, places)
    _check_artifacts(kernels, artifacts, [argument_rows(kernel, aliases, places) for kernel in kernels])
    plan, symbol = plan_calls(program, kernels, artifacts, aliases, places), plain_symbol(name)
    target = artifacts[0].target
    team = max((one.threads for one in artifacts if one.runtime_symbols), default=1)
    compiled = compile_object(caller_text(symbol, plan, team), parse_target(target))
    return Artifact(
        name=name,
        target=target,
        threads=max(artifact.threads for artifact in artifacts),
        format="object",
        code=compiled.code,
        symbol=symbol,
        inputs=argument_specs(program.dynamic_inputs),
        constants=argument_specs(program.constant_inputs),
        outputs=argument_specs([program.tensors[output] for output in program.outputs]),
        prepared_bytes=plan.prepared_bytes,
        preparing_bytes=plan.preparing_bytes,
        held=plan.held,
        workspace_bytes=plan.workspace_bytes,
        launches=tuple(Launch(plan.kernels[call.kernel].symbol) for call in plan.calls),
        runtime_symbols=(TEAM,) if team > 1 else (),
        builder=builder_version(),
        modules=(compiled.module,),
        kernels=plan.kernels,
        seconds=compiled.seconds,
    )


def _unnamed(parts: Sequence[Sequence[BufferSpec]]) -> list[list[str]]:
    return [[f"{spec.dtype}{list(spec.shape)} in {spec.rows or 'one piece'}" for spec in part] for part in parts]


def _check_artifacts(kernels: Sequence[Program], artifacts: Sequence[Artifact], rows: Sequence[ArgumentRows]) -> None:
    """Checks that there is one for each kernel, for the same processor, whose arguments are the kernel's."""
    if not kernels or len(kernels) != len(artifacts):
        raise InternalError(
            "each kernel needs an artifact", expected=f"{max(1, len(kernels))}", found=f"{len(artifacts)}"
        )
    for one in artifacts:
        if one.format != "object":
            raise TargetError(
                "models are not joined for GPUs yet",
                expected="kernels for a processor",
                found=f"kernel {one.name} for {one.target.partition(';')[0]}",
                advice="run the kernels of the model one by one",
            )
        if one.target != artifacts[0].target:
            raise InternalError(
                "the kernels are for several targets", expected=artifacts[0].target, found=f"{one.target} ({one.name})"
            )
    for kernel, artifact, lies in zip(kernels, artifacts, rows, strict=True):
        outputs = [kernel.tensors[name] for name in kernel.outputs]
        inputs = len(kernel.dynamic_inputs)
        wanted = (
            argument_specs(kernel.dynamic_inputs, lies[:inputs]),
            argument_specs(kernel.constant_inputs),
            argument_specs(outputs, lies[inputs:]),
        )
        expected, given = map(_unnamed, (wanted, (artifact.inputs, artifact.constants, artifact.outputs)))
        if expected != given:
            raise InternalError(f"the artifact {artifact.name} does not fit", expected=str(expected), found=str(given))
