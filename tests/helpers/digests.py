"""Run as a program: digests of all that is made of some programs, as JSON, so that two processes can be compared.

python digests.py FIRST LAST: numbers of programs among operators and drawn ones.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from functools import partial

import numpy as np

from helpers.pipeline.drawn import drawn_program
from tilesmith.codegen.pipeline import build
from tilesmith.cost_model.analytic import predict
from tilesmith.schedules.sketch import UNSCHEDULED, valid
from tilesmith.schedules.space import config
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.ops import OPERATORS
from tilesmith.tensor.ops.catalogue import example
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

TARGETS = ("x86:avx512", "cuda:sm_90a", "x86:avx2")
# loops that carry several values in registers, guards around several
SEVERAL = {
    "states": """
        input x: f32[6, 50]
        fold[j: 50] {
            top[i: 6]: f32 = -inf
            total[i: 6]: f32 = 0
            place[i: 6]: i32 = 0
            let better = x[i, j] > top[i]
            top = max(top[i], x[i, j])
            total = total[i] * 0.5 + x[i, j]
            place = select(better, i32(j), place[i])
        }
        y[i: 6] = top[i] + total[i] * f32(place[i])
        return y""",
    "guards": """
        input x: f32[5, 6]
        input b: bool[5, 6]
        fold[j: 6] {
            first[i: 5]: f32 = 0
            second[i: 5]: f32 = 1
            third[i: 5]: f32 = 2
            first = select(b[i, j], first[i] + x[i, j], first[i])
            second = select(b[i, j], second[i] * x[i, j], second[i])
            third = max(first[i], second[i] - third[i])
        }
        return first, second, third""",
    "scans": """
        input x: f32[4, 9]
        fold[j: 9] {
            a[c: 4]: f32 = 0
            b[c: 4]: f32 = 0
            a = a[c] + x[c, j]
            b = select(x[c, j] > 0.5, max(b[c], a[c]), b[c])
        }
        return a, b""",
}
DRAWS = 64


def programs() -> list[tuple[str, Callable[[], Program]]]:
    """Names of programs in one order, each with what makes it."""
    several = [(name, partial(parse, text)) for name, text in SEVERAL.items()]
    drawn = [(f"drawn {seed}", partial(drawn_program, seed)) for seed in range(40)]
    return [*several, *drawn, *((name, partial(example, name)) for name in sorted(OPERATORS))]


def digest(content: str | bytes) -> str:
    """Of a text or of code."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()[:16]


def digests(name: str, program: Program, target_text: str) -> dict[str, str]:
    """Sketches, predictions of a population, LLVM IR and code of the last sketch and of the unscheduled nest."""
    target, head = parse_target(target_text), f"{name} on {target_text}: "
    task = Task.of(program, target, 2)
    found = {head + "task": task.key, head + "sketches": digest("\n".join(s.text for s in task.sketches))}
    sketch = task.sketches[-1]
    config_space, generator = sketch.config_space(task.body, target), np.random.default_rng(0)
    choices = np.array([generator.integers(0, len(p.values), DRAWS) for p in config_space.parameters], np.int32)
    choices = choices.reshape(len(config_space.parameters), DRAWS).T
    tree = sketch.apply_population(task.body, target, config_space, choices)
    seconds = predict(tree, target, 2, default_ceilings(target, 2), DRAWS)
    good = np.flatnonzero(valid(tree, DRAWS))
    found[head + "seconds"] = digest(seconds.tobytes())
    candidates = [(sketch, config(config_space, choices[row])) for row in good[:1]]
    for one, values in [*candidates, (UNSCHEDULED, {})]:
        artifact, label = build(task.program, one, values, target, 2, texts=True), f"{head}{one.title[:4]} "
        found |= {label + stage: digest(text) for stage, text in artifact.texts.items()}
        found[label + "code"] = digest(b"".join((artifact.code, *artifact.parts)))
    return found


if __name__ == "__main__":
    first, last = int(sys.argv[1]), int(sys.argv[2])
    found: dict[str, str] = {}
    for number, (name, make) in enumerate(programs()[first:last], first):
        program = make()
        for target in TARGETS if name in SEVERAL else TARGETS[number % 3 :][:1]:
            found |= digests(name, program, target)
    json.dump(found, sys.stdout)
