"""Dead stages: those on which no output depends."""

from __future__ import annotations

from ...tensor.program import Program


def needed_stages(program: Program) -> Program:
    """The program without stages on which no output depends."""
    wanted: set[str] = set()
    pending = list(program.outputs)
    while pending:
        stage = program.producers.get(pending.pop())
        if stage is not None and stage.name not in wanted:
            wanted.add(stage.name)
            pending.extend(read.tensor for read in stage.reads())
    if len(wanted) == len(program.stages):
        return program
    return program.replacing(tuple(stage for stage in program.stages if stage.name in wanted))
