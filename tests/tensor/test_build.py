"""Programs written in Python."""

from __future__ import annotations

from tilesmith.tensor.build import (
    State,
    compute,
    compute_several,
    constant,
    exp,
    fold,
    literal,
    max,
    maximum,
    named,
    placeholder,
    program,
    reduce_axis,
    select,
    sum,
    table,
)
from tilesmith.tensor.text.parse import parse


def test_the_example_of_the_module() -> None:
    a, b = placeholder((64, 32), name="A"), placeholder((32, 48), name="B")
    k = reduce_axis(32, "k")
    c = compute((64, 48), lambda i, j: sum(a[i, k] * b[k, j], k), name="C")
    d = compute((64, 48), lambda i, j: maximum(c[i, j], 0), name="D")
    made = program([d])
    assert made == parse(
        "input A: f32[64, 32]\ninput B: f32[32, 48]\nC[i: 64, j: 48] = sum[k: 32](A[i, k] * B[k, j])\n"
        "D[i: 64, j: 48] = max(C[i, j], 0)\nreturn D"
    )
    assert made.stages[0].origin.file == __file__
    assert made.stages[0].origin.operator == "test_the_example_of_the_module"
    assert made.stages[1].origin.line == made.stages[0].origin.line + 1


def test_tensors_and_axes_without_names_get_free_ones() -> None:
    x0, other = placeholder(8, name="x0"), constant((8,), "f64")
    a, b = reduce_axis(8), reduce_axis(3)
    top = compute((), lambda: max(x0[a] + f32(b), [a, b]))
    y = compute(8, lambda *i: x0[i[0]] - top[()] + other[i[0]].cast(top.dtype))
    assert str(program(y)) == (
        "input x0: f32[8]\nconstant x1: f64[8]\nt0[] = max[k: 8, r: 3](x0[k] + f32(r))\n"
        "t1[i0: 8] = x0[i0] - t0[] + f32(x1[i0])\nreturn t1\n"
    )


def f32(value: object) -> object:
    from tilesmith.tensor.build import cast

    return cast(value, "f32")  # type: ignore[arg-type]


def test_inputs_may_be_ordered() -> None:
    a, b = placeholder(4, name="a"), placeholder(4, name="b")
    c = compute(4, lambda i: a[i] - b[i])
    assert [i.tensor.name for i in program(c).inputs] == ["a", "b"]
    assert [i.tensor.name for i in program(c, inputs=[b, a]).inputs] == ["b", "a"]
    unused = placeholder(4, name="u")
    assert len(program(c, inputs=[a, unused, b]).inputs) == 3


def test_a_stage_of_two_tensors_and_a_table() -> None:
    w = table([[1, 2.5], [3, 4]], name="w")
    s, d = compute_several((2, 2), lambda i, j: (w[i, j] + w[j, i], w[i, j] - w[j, i]), ["s", "d"])
    assert str(program([d, s])) == (
        "table w: f32[2, 2] = [1, 2.5, 3, 4]\ns, d[i: 2, j: 2] = w[i, j] + w[j, i], w[i, j] - w[j, i]\nreturn d, s\n"
    )


def test_a_fold_with_named_values() -> None:
    scores, values = placeholder((8, 16), name="S"), placeholder((16, 4), name="V")
    j = reduce_axis(16, "j")

    def step(i, d, m, total, o):  # type: ignore[no-untyped-def]
        top = named("top", maximum(m, scores[i, j]))
        scale, p = named("scale", exp(m - top)), named("p", exp(scores[i, j] - top))
        return top, total * scale + p, o * scale + p * values[j, d]

    states = [State("m", 1, float("-inf")), State("l", 1, 0), State("o", 2, 0)]
    _, total, o = fold((8, 4), j, states, step)
    result = compute((8, 4), lambda i, d: o[i, d] / total[i], name="R")
    made = program(result)
    assert made.stages[0].fold is not None
    assert [name for name, _ in made.stages[0].fold.locals] == ["top", "scale", "p"]
    assert parse(str(made)) == made


def test_select_reads_only_the_chosen_arm() -> None:
    a = placeholder(9, name="a")
    shifted = compute(9, lambda i: select(i >= 1, a[i - 1], 0))
    assert "select(i >= 1, a[i - 1], 0)" in str(program(shifted))
    filled = compute(3, lambda i: literal(2.5) + cast_index(i))
    assert "2.5 + f32(i)" in str(program(filled))


def cast_index(i):  # type: ignore[no-untyped-def]
    return f32(i)
