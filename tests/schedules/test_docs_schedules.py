"""The page on schedules: its code runs, and leaves the outlines that are shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilesmith.schedules.outline import outline
from tilesmith.schedules.schedule import Schedule
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.schedules.steps.table import STEPS
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

PAGE = (Path(__file__).parents[2] / "docs" / "schedules.md").read_text()
PAIRS = re.findall(r"^```python\n(.*?)^```\n```text\n(.*?)^```", PAGE, re.S | re.M)
SECTIONS = re.split(r"^## ", PAGE, flags=re.M)


def program(code: str) -> Program:
    """The program of the section that the code stands in, or else that of the whole page."""
    (section,) = [section for section in SECTIONS if code in section]
    texts = re.findall(r"^```tensor\n(.*?)^```", section, re.S | re.M)
    texts = texts or re.findall(r"^```tensor\n(.*?)^```", SECTIONS[0], re.S | re.M)
    return canonical(parse(texts[0]))


def scheduled(code: str) -> Schedule:
    schedule = Schedule(program(code))
    exec(code, {"s": schedule, "f32": f32})
    return schedule


@pytest.mark.parametrize(("code", "shown"), PAIRS, ids=range(len(PAIRS)))
def test_outlines(code: str, shown: str) -> None:
    assert outline(scheduled(code).tree) == shown.strip("\n")


def test_every_piece_of_code_has_its_outline() -> None:
    assert len(PAIRS) == PAGE.count("```python") == PAGE.count("```text") >= 5


def test_every_step_of_the_table_is_shown() -> None:
    assert not [step for step in STEPS if f"s.{step}(" not in PAGE]


def test_the_sketch_is_that_of_the_first_example() -> None:
    (text,) = re.findall(r"^```sketch\n(.*?)^```", PAGE, re.S | re.M)
    sketch = scheduled(PAIRS[0][0]).sketch("loops")
    assert sketch.text == text
    assert parse_sketch(text) == sketch
