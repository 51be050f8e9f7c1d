"""A program as a picture: its stages, in boxes for the kernels that compute them, which are the redder the longer they take.

What is written here is DOT; graphviz's `dot`, a program that is installed beside Python, lays it out.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...common.errors import EnvironmentFailure
from ...tensor.program import Program, Stage

_STYLE = """  graph [fontname="Helvetica", fontsize=11, ranksep=0.35, nodesep=0.2, compound=true];
  node [fontname="Helvetica", fontsize=10, shape=box, style="rounded,filled", fillcolor=white, color="#555555"];
  edge [color="#555555", arrowsize=0.6];"""
_SECONDS = 120.0  # for `dot`


@dataclass(frozen=True, slots=True)
class DrawnKernel:
    """A call of a kernel: its program in the names of the whole, and, where it was measured, its time and share."""

    name: str
    program: Program
    seconds: float | None = None
    share: float = 0.0


def dot_text(title: str, kernels: Sequence[DrawnKernel], aliases: Mapping[str, str]) -> str:
    """The picture as DOT. `aliases`: tensors that are the memory of others. Constants are left out."""
    made = {t.name: s.name for one in kernels for s in one.program.stages for t in s.tensors}
    most = max((one.share for one in kernels), default=0.0)
    lines = [f"digraph {_quoted(title)} {{", f"  label={_quoted(title)}; labelloc=t;", _STYLE]
    edges: dict[tuple[str, str], None] = {}
    for number, one in enumerate(kernels):
        lines += [*_cluster(number, one, most), *(f"    {_node(stage)}" for stage in one.program.stages), "  }"]
        given = {tensor.name: tensor for tensor in one.program.dynamic_inputs}
        for stage in one.program.stages:
            for read in dict.fromkeys(read.tensor for read in stage.reads()):
                source = _root(read, aliases, made)
                if source in made and made[source] != stage.name:
                    edges[made[source], stage.name] = None
                elif source not in made and (tensor := given.get(read)):
                    label = f"{source}\n{tensor.dtype}{list(tensor.shape)}"
                    lines.append(
                        f'  {_quoted("in " + source)} [shape=ellipse, fillcolor="#eef3ff", label={_quoted(label)}];'
                    )
                    edges["in " + source, stage.name] = None
    lines += [f"  {_quoted(source)} -> {_quoted(target)};" for source, target in edges]
    return "\n".join([*dict.fromkeys(lines[:3]), *lines[3:], "}"]) + "\n"


def _root(name: str, aliases: Mapping[str, str], made: Mapping[str, str]) -> str:
    while name in aliases and name not in made:
        name = aliases[name]
    return name


def _cluster(number: int, one: DrawnKernel, most: float) -> list[str]:
    time = "" if one.seconds is None else f"\n{one.seconds * 1e6:.1f} us, {one.share:.1%}"
    colour = "#f4f4f4" if one.seconds is None else _heat(one.share / most if most else 0.0)
    return [
        f"  subgraph cluster_{number} {{",
        f'    label={_quoted(one.name + time)}; style="rounded,filled"; color="#999999"; fillcolor="{colour}";',
    ]


def _heat(share: float) -> str:
    """Returns a colour between a pale yellow and red."""
    low, high = (255, 250, 224), (236, 92, 70)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(low, high, strict=True))


def _node(stage: Stage) -> str:
    origin = stage.origin
    shapes = ", ".join(f"{t.dtype}{list(t.shape)}" for t in stage.tensors)
    label = "\n".join(filter(None, [origin.layer or stage.name, origin.operator or stage.combiner or "", shapes]))
    lines = "\n".join(f"{one.layer or one.operator} {one.file}:{one.line}" for one in origin.all if one.file)
    return f"{_quoted(stage.name)} [label={_quoted(label)}, tooltip={_quoted(lines or stage.name)}];"


def _quoted(text: str) -> str:
    safe = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{safe}"'


def laid_out(dot: str) -> str:
    """The picture as SVG. Errors: EnvironmentFailure where graphviz is missing, or fails."""
    program = shutil.which("dot")
    if program is None:
        raise EnvironmentFailure(
            "pictures of graphs are laid out by graphviz's dot, which is not here",
            advice="apt install graphviz (or conda install graphviz); a name that ends in .dot needs no layout",
        )
    try:
        done = subprocess.run(
            [program, "-Tsvg"], input=dot, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailure(
            "dot took too long", advice="write a .dot file and try another layout, as sfdp"
        ) from None
    if done.returncode:
        raise EnvironmentFailure("dot failed", found=done.stderr.strip()[-500:])
    return done.stdout
