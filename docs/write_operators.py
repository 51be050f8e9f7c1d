"""Writes docs/operators.md: python docs/write_operators.py.

What the page says of operators comes from their builders, their cases and the results of the benchmarks.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import sys
from collections import Counter
from pathlib import Path

from tilesmith.tensor.ops.catalogue import Entry, catalogue, dtypes_of

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "operators.md"
HEAD = """\
# Operators

`tune run NAME sizes...` and `tilesmith.ops.NAME(...)` know these operators; `tune ops NAME` tells all about one. They are
builders of programs and nothing else: anybody can write what they say ([text-form.md](text-form.md)).

Parameters that stand alone must be given. `...` says that a value follows from the others, or that an operator has two ways of
saying its shape. Every operator takes `constants`, the names of inputs that are known when it is compiled (`--constant`).
Numbers of several dimensions are written `3x5`. *tests* counts the cases in tests/helpers/operators, each checked against NumPy
or SciPy and run as machine code. *speed* is the geometric mean of the ratios to the fastest peer over the rows
in benchmarks/results.

Operators over `f16` and `bf16` widen what they read, compute in `f32` and round each result once, their sums and scans
too; so do sums of any program ([text-form.md](text-form.md)). Infinities, NaN, zeros of both signs and subnormal numbers
give what NumPy and C say (powers of e below the least normal `f32` may be 0: [functions.md](functions.md)); NaN in
gives NaN out, also through choices such as `relu`; `softmax` of a row with `inf` is NaN,
as in torch. Below a table stands what NumPy, torch or ONNX do in another way.

This page is written by `python docs/write_operators.py`.
"""
_FLOATS = ("f64", "f32", "f16", "bf16")
_INTEGERS = ("i64", "i32", "i16", "i8", "u8")


def page() -> str:
    """The whole page."""
    entries, tests, speeds = catalogue(), _tests(), _speeds()
    lines = [HEAD]
    for group in dict.fromkeys(entry.group for entry in entries):
        lines += [f"## {group}", "", "| operator | parameters | inputs | dtypes | formula | tests | speed |"]
        lines.append("|---|---|---|---|---|---|---|")
        lines += [_row(entry, tests, speeds) for entry in entries if entry.group == group]
        lines += ["", *_notes([entry for entry in entries if entry.group == group])]
    return "\n".join(lines).rstrip() + "\n"


def _notes(entries: list[Entry]) -> list[str]:
    """A line for each sentence of a docstring that says where others do it in another way, with a blank line behind them."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        for sentence in re.split(r"(?<=\.)\s+", " ".join(entry.meaning.split())):
            if sentence.startswith("Unlike"):
                found.setdefault(sentence, []).append(f"`{entry.name}`")
    notes = [f"* {', '.join(names)}: {sentence[0].lower()}{sentence[1:]}" for sentence, names in found.items()]
    return [*notes, ""] if notes else []


def without_speed(text: str) -> str:
    """The page as far as it follows from the code alone."""
    return "\n".join(line.rsplit("|", 2)[0] if line.startswith("|") else line for line in text.splitlines())


def _row(entry: Entry, tests: Counter[str], speeds: dict[str, str]) -> str:
    formula = entry.formula.replace("|", "\\|").replace("*", "\\*").rstrip(".:")
    usage = entry.usage.removesuffix("dtype=f32").strip()
    inputs = " ".join(entry.inputs)
    cells = (entry.name, f"`{usage}`", f"`{inputs}`" if inputs else "", _dtypes(entry.name), formula, tests[entry.name])
    return "| " + " | ".join(map(str, cells)) + f" | {speeds.get(entry.name, '')} |"


def _dtypes(name: str) -> str:
    """The dtypes in few words."""
    found = dtypes_of(name)
    words = []
    for word, members in (("floats", _FLOATS), ("integers", _INTEGERS), ("bool", ("bool",))):
        if set(members) <= set(found):
            words.append(word)
        else:
            words += [member for member in members if member in found]
    return ", ".join(words)


def _tests() -> Counter[str]:
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        cases = importlib.import_module("helpers.operators.cases").CASES
    finally:
        sys.path.remove(str(ROOT / "tests"))
    return Counter(case.operator for case in cases)


def _speeds() -> dict[str, str]:
    found: dict[str, list[float]] = {}
    for path in sorted((ROOT / "benchmarks" / "results").glob("cpu-*.json")):
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            if row.get("best_peer") in row["ratios"]:
                found.setdefault(row["operator"], []).append(row["ratios"][row["best_peer"]]["middle"])
    return {name: _mean(ratios) for name, ratios in found.items()}


def _mean(ratios: list[float]) -> str:
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"{mean:.2f}x ({len(ratios)} row{'s' if len(ratios) > 1 else ''})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(catalogue())} operators")
