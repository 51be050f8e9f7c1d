"""Log lines that somebody has changed: values, types, keys, the texts inside, the bytes."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from tilesmith.codegen.backends.cpu import builder_version
from tilesmith.measure.machine import machine_identity
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.printing import print_program
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.apply.tiers import analytic_pick

THREADS = 1
PROGRAMS = (
    "input A: f32[24, 20]\ninput B: f32[20, 33]\nC[i: 24, j: 33] = sum[k: 20](A[i, k] * B[k, j])\n"
    "D[i: 24, j: 33] = max(C[i, j], 0)\nreturn D",
    "input A: f32[24, 40]\ninput B: f32[40, 33]\nC[i: 24, j: 33] = sum[k: 40](A[i, k] * B[k, j])\n"
    "D[i: 24, j: 33] = max(C[i, j], 0)\nreturn D",
    "input x: f32[30, 50]\ny[i: 30, j: 50] = exp(x[i, j] * 0.5)\nreturn y",
    "input x: f32[16, 48]\nm[i: 16] = max[j: 48](x[i, j])\ne[i: 16, j: 48] = exp(x[i, j] - m[i])\n"
    "s[i: 16] = sum[j: 48](e[i, j])\ny[i: 16, j: 48] = e[i, j] / s[i]\nreturn y",
)
NUMBERS = (0, -1, 1, 3, 7, 16, 255, 2**20, 2**31, 2**40, 2**63, 2**70, 10**30, 0.0, -0.5, 0.1, 1e-300, 1e308, 1.5)
WORDS = (
    "",
    "abc",
    "\x1b[31mred\x1b[0m",
    "\0",
    "é" * 9,
    "x" * 5000,
    "t0.rows",
    "../../etc/passwd",
    "true",
    "null",
    "9" * 5000,
)
VALUES = (
    *NUMBERS,
    *WORDS,
    None,
    True,
    False,
    [],
    {},
    [1, 2],
    [[[]]],
    {"a": 1},
    [0.5] * 50,
    [-1.0],
    [float("nan")],
    [1e-30],
)
PIECES = (
    "-" * 3000, "(" * 300, ")", "[", "]", ",", "0", "-1", "1048576", "1099511627776", "t0.a0", "t9.a9", "t0", "x0", "copy0",
    " // 0", " % 0", "*" * 3, "\n", "\\", "step unroll(t0.a0)\n", "step vectorize(t0.a0)\n", "step split(t0.a0, 0)\n",
    "step split(t0.a0, 4, 4)\n", "step inline(t0)\n", "step copy(copy7, x0, t0)\n", "step rewrite(winograd)\n", "é", "\x1b",
    "step rewrite(split_k, stage=t0, axis=a2, parts=1099511627776)\n", "step rewrite(normalise)\n", "require 0 because no\n",
    "factor z of extent(t0.a0) * 1000000000000000000\n", "choice c of [1] default=1\n", "step tensorize(t0, amx)\n",
    "step compute_at(t0, t0.a0)\n", "extent(t0.a0)", "extent(q)", "lanes(f32)", "target(l9)", "step parallel(t0.a0)\n",
    "step rewrite(pad_axis, stage=t0, axis=a0, multiple=1099511627776)\n", "step reorder(t0.a1, t0.a0)\n", "9" * 50,
    "f32[1048576, 1048576]", "sum[k: 3]", "exp(", "select(", "i64(", "1e999", "nan", "input q: f32[2]\n", "return ",
    "step bind(thread, 0, t0.a0)\n", "step prefetch(x0, t0.a0, 99999999999)\n", "step pipeline(t0.a0, 1048576)\n",
)  # fmt: skip


def sound_lines() -> list[dict[str, Any]]:
    """Good records of the programs: what the analytic model takes, and the unscheduled nest."""
    target = parse_target("host")
    found = []
    for number, text in enumerate(PROGRAMS):
        program = parse(text)
        pick = analytic_pick(Task.of(program, target, THREADS))
        for sketch, config in ((pick.sketch.text, dict(pick.config)), ("", {})):
            found.append(_line(program, target.text, sketch, config, float(number + len(found))))
    return found


def _line(program: Program, target: str, sketch: str, config: dict[str, Any], created: float) -> dict[str, Any]:
    return {
        "format": 1, "program": print_program(program), "target": target, "threads": THREADS, "sketch": sketch,
        "config": config, "status": "ok", "times": [2e-3, 2.1e-3], "builder": builder_version(),
        "machine": {"identity": machine_identity(), "ceilings": ""}, "run": "r1", "created": created,
    }  # fmt: skip


def mutated(line: dict[str, Any], rng: random.Random) -> bytes:
    """The line with one to three changes, as bytes."""
    changed = copy.deepcopy(line)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice((_value, _config, _config, _config, _text, _text, _text, _key))(changed, rng)
    text = json.dumps(changed, ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")
    return _bytes(text, rng) if rng.random() < 0.1 else text


def _value(line: dict[str, Any], rng: random.Random) -> None:
    name = rng.choice(list(line))
    line[name] = rng.choice(VALUES)
    if name == "times" and rng.random() < 0.7:
        line[name] = [rng.choice(NUMBERS) for _ in range(rng.choice((1, 3)))]


def _config(line: dict[str, Any], rng: random.Random) -> None:
    config = line.get("config")
    if isinstance(config, dict) and config:
        config[rng.choice(list(config))] = rng.choice(VALUES if rng.random() < 0.3 else (*NUMBERS[:13], True))


def _text(line: dict[str, Any], rng: random.Random) -> None:
    name = rng.choice(("program", "sketch", "sketch", "sketch", "target"))
    text = line.get(name)
    if not isinstance(text, str) or not text:
        return
    rows = text.splitlines(keepends=True)
    match rng.randrange(5):
        case 0:  # a piece somewhere
            start = rng.randrange(len(text))
            line[name] = text[:start] + rng.choice(PIECES) + text[start + rng.choice((0, 0, 1, 5)) :]
        case 1:  # another number
            digits = [n for n, c in enumerate(text) if c.isdigit()]
            if digits:
                start = rng.choice(digits)
                line[name] = text[:start] + str(rng.choice(NUMBERS)) + text[start + 1 :]
        case 2:  # a row less, twice, elsewhere
            row = rows.pop(rng.randrange(len(rows)))
            if rng.random() < 0.6:
                rows.insert(rng.randrange(len(rows) + 1), row)
            line[name] = "".join(rows)
        case 3:
            rows.insert(rng.randrange(len(rows) + 1), rng.choice(PIECES))
            line[name] = "".join(rows)
        case 4:
            line[name] = "".join(row for row in rows if not row.startswith("require"))


def _key(line: dict[str, Any], rng: random.Random) -> None:
    name = rng.choice(list(line))
    value = line.pop(name)
    if rng.random() < 0.6:
        line[name + "x" if rng.random() < 0.5 else "__class__"] = value


def _bytes(text: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(text))
    match rng.randrange(4):
        case 0:
            return text[:start]
        case 1:
            return text[:start] + bytes([rng.randrange(256)]) + text[start + 1 :]
        case 2:
            return text[:start] + rng.choice((b"\xff\xfe", b"\\ud800", b"[" * 2000, b"{" * 500, b"\x00")) + text[start:]
    return text + text
