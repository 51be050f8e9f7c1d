"""The invariants of loop IR: what lowering promises, every pass keeps, and the emitters rely on.

Names
* Every buffer that is used is an argument, a global, or allocated around; no two of one name are in scope together.
* Every variable is bound around by one loop or one `let`; BLOCK_INDEX and THREAD_INDEX are bound in the nests of a GPU.
* Arguments are INPUT, CONSTANT and OUTPUT buffers, globals PREPARED, WORKSPACE and TABLE ones; what `Allocate` makes is none of
  them: SCRATCH, STACK, REGISTER, and SHARED on a GPU or TILE on a processor. A TABLE has as many values as elements.
* INPUT, CONSTANT and TABLE buffers are never written. A nest that writes PREPARED buffers writes no others of the arguments and
  globals, and only such a nest reads a CONSTANT.
* What is allocated is written before it is read, but for reads under a condition, which an earlier trip may have provided for.

Indices and operands
* A buffer is indexed by as many i64 as it has dimensions; the place lies within the buffer. A prefetch may name any place.
* REGISTER buffers, fragments among them, are indexed by what is known when the code is written.
* Operands have the types that their operator takes, reads and stores the dtype of their buffer. But registers of 16-bit floats
  are wide: an f32 may be stored there.

Loops
* The extent of an UNROLL or VECTOR loop is a literal, of a VECTOR loop a power of two; other loops have no `valid`, but for
  those of threads. `valid` may exceed the extent; where it is less than one, nothing runs.
* Only a SERIAL loop asks for copies of its body (`unroll`). BLOCK, WARP and THREAD loops have an `index`, others have none.
* PARALLEL loops stand in the nests of processors; BLOCK, WARP and THREAD loops in those of GPUs; neither in a VECTOR loop of
  more than one lane. No BLOCK loop stands in a WARP or THREAD loop, no WARP loop in a THREAD loop. PARALLEL loops may be
  nested. A register is not used across a PARALLEL loop.

Statements
* Barriers, shuffles, groups and asynchronous stores belong to GPUs, Matrix statements to processors. All threads of a block
  reach a barrier, a wait and the end of a group: none stands where a condition or a number of trips differs between threads.
* An asynchronous store is to a SHARED buffer; in its nest groups end and are waited for.
* A store `ahead` is to one of several slots of a SHARED buffer, in a loop.
* A shuffle is between scalar registers of one type, `mask` one of the bits of a lane's number in the widest warp.
* A TILE buffer is touched by Matrix statements alone, no two are in scope; its tiles lie inside of it, and are made before use.

verify_names.py looks at names and expressions, verify_nest.py at statements, verify_operands.py at types, verify_indices.py at
places.
"""

from __future__ import annotations

from collections import Counter

from ...common.errors import InternalError
from .loop_ir import LoopProgram
from .verify_indices import Corners
from .verify_names import buffer_faults
from .verify_nest import GIVEN, SHARED, NestVerifier
from .verify_report import VerifierReport, Violation

SHOWN = 8  # faults that an error tells


def verify(program: LoopProgram, when: str = "") -> None:
    """Raises InternalError where an invariant is broken, with the places. `when`: such as "after lift_branches"."""
    found = faults(program)
    if found:
        raise InternalError(
            f"the loop IR of {program.name} breaks an invariant {when}".rstrip(),
            where="\n".join(map(str, found[:SHOWN])),
            found=f"{len(found)} faults" if len(found) > SHOWN else "",
        )


def faults(program: LoopProgram) -> list[Violation]:
    """All broken invariants of a program."""
    report = VerifierReport()
    for buffers, scopes in ((program.arguments, GIVEN), (program.globals, SHARED)):
        for buffer in buffers:
            buffer_faults(buffer, scopes, report)
    names = Counter(buffer.name for buffer in (*program.arguments, *program.globals))
    for name in (name for name, count in names.items() if count > 1):
        report.add(f"several buffers are called {name!r}")
    for nest in (*program.prepare, *program.nests):
        NestVerifier(program, nest, report).run()
        Corners(program, nest, report).run()
    return report.faults
