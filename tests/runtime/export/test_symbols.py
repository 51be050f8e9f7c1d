"""Which names a library has: its interface, and what begins with its own name."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.codegen.backends.renamed import ObjectNames, renamed_object
from tilesmith.codegen.pipeline import build_candidate
from tilesmith.common.errors import InternalError
from tilesmith.targets.host import host_kind
from tilesmith.tensor.oracle.random_inputs import random_inputs

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
_INTERFACE = ("error", "free", "init", "lend_threads", "run", "target", "workspace_bytes")
_HALVES = "input x: f16[70]\ny[i: 70] = x[i] + x[i]\nreturn y\n"
_SEVERAL = """\
input x: f32[256, 64]
constant w: f32[64, 64]
y[i: 256, j: 64] = sum[k: 64](x[i, k] * w[k, j])
s[i: 256] = sum[j: 64](y[i, j])
z[i: 256, j: 64] = y[i, j] * s[255 - i]
return z
"""


def _names(library: Path, *flags: str) -> set[str]:
    """The names that a file defines for others."""
    command = ["nm", "-g", "--defined-only", *flags, library]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in listed.splitlines() if len(line.split()) == 3}


def test_a_library_shows_its_interface_and_keeps_all_else_under_its_own_name(tmp_path: Path) -> None:
    kernel = ts.compile(ts.parse(_SEVERAL), threads=2, constants=[np.ones((64, 64), np.float32)])
    made = kernel.export(tmp_path, name="shown")
    shown = {f"shown_{one}" for one in _INTERFACE}
    assert _names(made.shared, "-D") == shown
    assert shown < _names(made.static) == {one for one in _names(made.static) if one.startswith("shown_")}


@pytest.mark.skipif(host_kind().name != "x86", reason="a target of x86")
def test_functions_that_llvm_calls_by_their_names_are_in_the_library(tmp_path: Path) -> None:
    """SSE2 converts no halves, and the C library need not either."""
    program = ts.parse(_HALVES)
    kernel = ts.compile(program, target="x86:sse2", threads=1)
    made = kernel.export(tmp_path, name="halves")
    inputs = random_inputs(program, 0)
    np.testing.assert_array_equal(ts.load(tmp_path)(*inputs), kernel(*inputs))
    assert _names(made.shared, "-D") == {f"halves_{one}" for one in _INTERFACE}
    assert {one for one in _names(made.static) if not one.startswith("halves_")} == set()


_BOTH = """
#include "one.h"
#include "two.h"
enum { SIZE = 1 << 20 };
static unsigned asked;
static void lent(void *pool, one_task task, void *data, unsigned threads) {
  (void)pool;
  asked++;
  for (unsigned thread = 0; thread < threads; thread++) task(data, thread);
}
static float x[SIZE], first[SIZE], second[SIZE];
int main(void) {
  const void *inputs[] = {x};
  void *outputs[] = {first}, *others[] = {second};
  for (int n = 0; n < SIZE; n++) x[n] = (float)(n - SIZE / 2);
  one_lend_threads(lent, 0);
  if (one_run(inputs, outputs, 0) || two_run(inputs, others, 0)) return 1;
  for (int n = 0; n < SIZE; n++)
    if (first[n] != second[n] || first[n] != (x[n] > 0 ? x[n] : 0)) return 2;
  return asked == 1 ? 0 : 3; /* threads were lent to one of them */
}
"""


def test_two_libraries_of_one_kernel_are_linked_into_one_program(tmp_path: Path) -> None:
    kernel = ts.compile(ts.ops.relu(1 << 20), threads=2)
    for name in ("one", "two"):
        kernel.export(tmp_path, name=name, openmp=False)
    (tmp_path / "both.c").write_text(_BOTH)
    subprocess.run(["cc", "both.c", "-L.", "-l:libone.a", "-l:libtwo.a", "-o", "both"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "both"], check=False).returncode == 0


def test_names_that_an_artifact_lacks_or_has_twice_are_refused() -> None:
    artifact = build_candidate(str(ts.ops.relu(64)), "", {}, f"{host_kind().name}:{host_kind().levels[0].name}", 1)
    with pytest.raises(InternalError, match="lacks functions"):
        renamed_object(artifact, ObjectNames("run", "prepare", {}))
    assert b"run" in renamed_object(artifact, ObjectNames("run", "", {}))
