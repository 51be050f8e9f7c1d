"""Names and order of a model that is put together node by node."""

from __future__ import annotations

import time

import numpy as np

import tilesmith as ts
from tilesmith.graph.functions import elementwise, softmax
from tilesmith.graph.importers.assemble import Assembler
from tilesmith.tensor.dtype import f32


def test_stages_are_called_after_their_nodes() -> None:
    made = Assembler()
    x = made.input("x", (2, 3), f32)
    y = softmax.softmax(x, 1)
    made.place("soft", [y])
    z = elementwise.add(y, 1)
    made.place("soft", [z])
    program = made.model([("z", z)]).program
    assert [stage.name for stage in program.stages] == [
        "soft_out_max",
        "soft_out_exp",
        "soft_out_sum",
        "soft",
        "soft_1",
    ]


def test_names_are_words_that_the_text_form_allows() -> None:
    made = Assembler()
    x = made.input("input.1", (2,), f32)
    w = made.constant("1.weight", np.zeros(2, np.float32), f32)
    y = elementwise.add(x, w)
    made.place("max", [y])
    model = made.model([("max", y)])
    assert [item.tensor.name for item in model.program.inputs] == ["input_1", "t_1_weight"]
    assert model.program.outputs == ("max_",)
    assert ts.parse(str(model.program)) == model.program


def test_constants_that_nothing_reads_are_left_out_and_inputs_stay() -> None:
    made = Assembler()
    x, y = made.input("x", (2,), f32), made.input("y", (2,), f32)
    made.constant("w", np.zeros(2, np.float32), f32)
    dead, live = elementwise.add(x, 1), elementwise.add(x, 2)
    made.place("dead", [dead])
    made.place("live", [live])
    model = made.model([("live", live)])
    assert [item.tensor.name for item in model.program.inputs] == ["x", "y"] and not model.constants
    assert [stage.name for stage in model.program.stages] == ["live"]
    assert y.name == "y"


def test_the_time_is_linear_in_the_number_of_stages() -> None:
    def seconds(count: int) -> float:
        start = time.process_time()
        made = Assembler()
        x = made.input("x", (8, 8), f32)
        for number in range(count):
            x = elementwise.multiply(elementwise.add(x, x), 0.5)
            made.place(f"step{number}", [x])
        text = str(made.model([("out", x)]).program)
        assert text.count("\n") == 2 * count + 2
        return time.process_time() - start

    seconds(50)
    few, many = min(seconds(200) for _ in range(2)), seconds(1600)
    assert many < 16 * few  # 8 times as many stages
