"""Whatever is typed, the answer is a program or one clear error."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.text.parse import parse

HEAD = "input A: f32[4, 4]\ninput n: i32[4]\n"
SOUND = [
    HEAD
    + """B[i: 4] = select(i >= 1 and not (n[i] > 2), A[i - 1, i // 2] * 2, -inf)
C[] = sum[i: 4, j: 4](A[i, j])
return B, C""",
    HEAD
    + """table w: f32[2] = [1, -0.5]
B, C[i: 2] = w[i], f32(n[i]) + exp(w[1 - i])
return B, C""",
    HEAD
    + """fold[j: 4] {
  m[i: 4]: f32 = 0
  o[i: 4, d: 4]: f32 = 0
  let x = A[i, j]
  m = max(m[i], x)
  o = o[i, d] * 0.5 + x
}
return o""",
]
PIECES = """[ ] ( ) { } , : = - * // % < == 0 1.5 -1 i A max # @ é 1e999
select( fold let return input inf nan true not and f32( i64("""
PIECES_AND_MORE = ["", "\n", "sum[k: 3]", "9" * 30, *PIECES.split()]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_broken_text_gives_a_program_or_a_program_error(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SOUND))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + data.draw(st.sampled_from(PIECES_AND_MORE)) + text[end:]
    try:
        program = parse(text)
    except ProgramError as caught:
        error = caught
    else:
        assert parse(str(program)) == program
        return
    assert error.problem
    assert "^" in error.where
