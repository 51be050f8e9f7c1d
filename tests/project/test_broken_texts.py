"""Texts of sketches, loops and targets, broken in any way: understood, or one clear error, in bounded time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import lru_cache

import pytest

from helpers.mutated_lines import PIECES, PROGRAMS
from tilesmith.codegen.ir.parsing import parse_loops
from tilesmith.codegen.ir.printing import print_loops
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.common.errors import TilesmithError
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.apply.tiers import analytic_pick

TARGET = "x86:avx512+avx512vnni;vector=512;fma=2;load=2;store=1;cores=2;l1=32K/64/1;l2=1M/64/1;l3=32M/64/2;triple=x86_64-linux"


@lru_cache(maxsize=1)
def sound() -> dict[str, list[str]]:
    target, sketches, loops = parse_target("x86:avx512"), [], []
    for text in PROGRAMS:
        task = Task.of(parse(text), target, 1)
        pick = analytic_pick(task)
        sketches.append(pick.sketch.text)
        loops.append(print_loops(loop_ir(pick.sketch.apply(task.body, target, pick.config), target)))
    return {
        "sketch": sketches,
        "loops": loops,
        "target": [TARGET, "cuda:sm_90a", "x86:avx2"],
        "program": list(PROGRAMS),
    }


READ: dict[str, Callable[[str], object]] = {
    "sketch": parse_sketch, "loops": parse_loops, "target": parse_target, "program": parse,
}  # fmt: skip


def error_of(what: str, text: str) -> TilesmithError | None:
    try:
        READ[what](text)
    except TilesmithError as error:
        return error
    return None


def broken(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice((1, 1, 2, 4))):
        start = rng.randrange(len(text) + 1)
        piece = rng.choice((*PIECES, "", text[rng.randrange(len(text) + 1) :][:30], chr(rng.randrange(0x3000))))
        text = text[:start] + piece + text[start + rng.choice((0, 1, 3, 30)) :]
    return text


def try_all(what: str, count: int, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        text = broken(rng.choice(sound()[what]), rng)
        started = time.perf_counter()
        error = error_of(what, text)
        assert error is None or error.problem, text
        assert str(error).replace("\n", "").replace("\t", "").isprintable(), text
        assert time.perf_counter() - started < 10, text


@pytest.mark.parametrize("what", READ)
def test_a_broken_text_is_understood_or_one_clear_error(what: str) -> None:
    try_all(what, 150, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("what", READ)
def test_many_broken_texts_are_understood_or_one_clear_error(what: str) -> None:
    try_all(what, 20_000, seed=2)


@pytest.mark.parametrize("what", READ)
def test_texts_without_sense_or_end_are_one_clear_error(what: str) -> None:
    for text in (
        "",
        "\0",
        "(" * 100_000,
        "[" * 100_000,
        "9" * 100_000,
        "\n" * 1000,
        "step " * 9999,
        "for i < " * 9999,
        "é" * 9999,
    ):
        started = time.perf_counter()
        error = error_of(what, text)
        assert error is None or error.problem
        assert time.perf_counter() - started < 10
