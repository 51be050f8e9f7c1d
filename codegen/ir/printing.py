"""Prints loop IR as indented text, for people and for debugging. It parses back (parsing.py, which has the grammar)."""

from __future__ import annotations

from ...tensor.printing import print_expr, print_number
from .loop_ir import (
    Allocate,
    Barrier,
    Block,
    Buffer,
    Commit,
    For,
    If,
    Let,
    LoopKind,
    LoopProgram,
    MatrixClear,
    MatrixMove,
    MatrixMultiply,
    Nest,
    Prefetch,
    Shuffle,
    Statement,
    Store,
    Update,
    Wait,
)

COMBINED = {"sum": "+=", "prod": "*=", "max": "max=", "min": "min="}


def print_loops(program: LoopProgram) -> str:
    """The text of a whole program."""
    lines = [f"program {program.name}"]
    lines += [f"  argument {print_buffer(b)}" for b in program.arguments]
    lines += [f"  global {print_buffer(b)}" for b in program.globals]
    for word, nests in (("prepare", program.prepare), ("nest", program.nests)):
        for nest in nests:
            lines += [f"{word} {nest.name}{_launch(nest)}:", *statement_lines(nest.body, 1)]
    return "\n".join(lines) + "\n"


def statement_lines(node: Statement, depth: int = 0) -> list[str]:
    """The lines of a statement, `depth` levels in."""
    lines: list[str] = []
    _statement(node, depth, lines)
    return lines


def _launch(nest: Nest) -> str:
    return f" of {nest.blocks} blocks of {nest.threads} threads" if nest.threads else ""


def print_buffer(buffer: Buffer) -> str:
    """A buffer with all that is known of it."""
    shape = ", ".join(map(str, buffer.shape))
    more = " padded" if buffer.padded else ""
    more += f" swizzle {buffer.swizzle}" if buffer.swizzle else ""
    more += f" slots {buffer.slots}" if buffer.slots > 1 else ""
    more += f" rows {buffer.rows.length} pitch {buffer.rows.pitch}" if buffer.rows else ""
    more += f" = [{', '.join(map(print_number, buffer.values))}]" if buffer.values else ""
    return f"{buffer.name}: {buffer.dtype}[{shape}] in {buffer.scope}{more}"


def _statement(node: Statement, depth: int, lines: list[str], last: bool = True) -> None:
    """`last`: nothing follows in the same body, so what a `let` or an `allocate` is for need not stand deeper."""
    pad = "  " * depth
    match node:
        case Block(body=body):
            for child in body[:-1]:
                _statement(child, depth, lines, last=False)
            for child in body[-1:]:
                _statement(child, depth, lines, last)
        case For():
            lines.append(pad + _loop(node))
            _statement(node.body, depth + 1, lines)
        case Let(var=var, value=value, body=body):
            lines.append(f"{pad}let {var} = {print_expr(value)}")
            _statement(body, depth + (not last), lines)
        case If(condition=condition, then=then, otherwise=otherwise):
            lines.append(f"{pad}if {print_expr(condition)}:")
            _statement(then, depth + 1, lines)
            if otherwise is not None:
                lines.append(f"{pad}else:")
                _statement(otherwise, depth + 1, lines)
        case Allocate(buffer=buffer, body=body):
            lines.append(f"{pad}allocate {print_buffer(buffer)}")
            _statement(body, depth + (not last), lines)
        case Store(buffer=name, indices=indices, value=value):
            sign = "=(stream)" if node.streaming else "=(later)" if node.later else "=(ahead)" if node.ahead else "="
            lines.append(f"{pad}{name}[{', '.join(map(print_expr, indices))}] {sign} {print_expr(value)}")
        case Update(buffer=name, indices=indices, combiner=combiner, value=value):
            lines.append(
                f"{pad}{name}[{', '.join(map(print_expr, indices))}] {COMBINED.get(combiner, combiner)} {print_expr(value)}"
            )
        case Prefetch(buffer=name, indices=indices, locality=locality):
            lines.append(f"{pad}prefetch({locality}) {name}[{', '.join(map(print_expr, indices))}]")
        case Barrier(buffers=buffers):
            lines.append(f"{pad}barrier {', '.join(sorted(buffers))}".rstrip())
        case Shuffle(buffer=name, source=source, mask=mask):
            lines.append(f"{pad}{name}[] = shuffle({source}[], {mask})")
        case Commit():
            lines.append(f"{pad}commit")
        case Wait(groups=groups):
            lines.append(f"{pad}wait({groups})")
        case MatrixClear(tiles=name):
            lines.append(f"{pad}tiles {name} = 0")
        case MatrixMove(tiles=name, tile=(row, column), memory=memory, pitch=pitch, stores=stores):
            here, there = f"tile {name}[{row}, {column}]", f"rows {pitch} apart at {print_expr(memory)}"
            lines.append(f"{pad}{there} = {here}" if stores else f"{pad}{here} = {there}")
        case MatrixMultiply():
            _multiply(node, depth, lines)
        case _:
            raise TypeError(f"unknown statement {type(node).__name__}")


def _multiply(node: MatrixMultiply, depth: int, lines: list[str]) -> None:
    pairs = " ".join(f"{p}*{q}" for p, q in node.pairs)
    lines.append(f"{'  ' * depth}tiles {node.tiles} += {node.instruction} {pairs}:")
    for word, tiles, pitch in zip(("rows", "columns"), (node.rows, node.columns), node.pitches, strict=True):
        lines.append(f"{'  ' * (depth + 1)}{word} {pitch} apart:")
        for number, parts in enumerate(tiles):
            lines += [f"{'  ' * (depth + 2)}{number}: {print_expr(part)}" for part in parts]


def loop_word(kind: LoopKind) -> str:
    """Returns what a loop of this kind is called."""
    return "for" if kind is LoopKind.SERIAL else str(kind)


def _loop(node: For) -> str:
    unroll = f" unroll {node.unroll}" if node.unroll > 1 else ""
    valid = "" if node.valid is None else f" valid {print_expr(node.valid)}"
    index = "" if node.index is None else f" = {print_expr(node.index)}"
    return f"{loop_word(node.kind)} {node.var}{index} < {print_expr(node.extent)}{unroll}{valid}:"
