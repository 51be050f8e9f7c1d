"""The header and the C source of a library."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from ...codegen.artifact import Artifact, BufferSpec
from ...tensor.dtype import DTYPES
from .description import STATUS
from .variants import Variant, Weights

VERSION = 1  # of the interface
_C_TYPES = {
    "f32": "float", "f64": "double", "f16": "uint16_t (IEEE half)", "bf16": "uint16_t (bfloat16)", "bool": "uint8_t",
}  # fmt: skip


def private(name: str, what: str) -> str:
    """The symbol of something that only objects of the library see."""
    return f"{name}__{what}"


def _bytes(spec: BufferSpec) -> int:
    return spec.elements * DTYPES[spec.dtype].bytes


def _described(kind: str, specs: Sequence[BufferSpec]) -> list[str]:
    def shape(spec: BufferSpec) -> str:
        return "".join(f"[{size}]" for size in spec.shape)

    def c_type(spec: BufferSpec) -> str:
        return _C_TYPES.get(spec.dtype) or f"{DTYPES[spec.dtype].numpy.name}_t"

    return [
        f" *   {kind}[{n}]: {spec.name}, {c_type(spec)}{shape(spec)}, {_bytes(spec)} bytes"
        for n, spec in enumerate(specs)
    ]


def header_text(name: str, variants: Sequence[Variant], weights: str, build: str) -> str:
    """The header. `weights`: the name of the file beside the library, "" where there is none."""
    upper, artifact = name.upper(), variants[0].artifact
    lines = [
        f"/* {artifact.name}, for {', '.join(one.processor for one in variants)}; build {build}.",
        " *",
        " * Arrays are in C order, and lie as their type asks for; outputs share no memory with inputs.",
        *_described("inputs", artifact.inputs),
        *_described("outputs", artifact.outputs),
        " *",
        " * Several threads may run it at the same time, each with a workspace of its own. */",
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "#include <stddef.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        *_sizes(upper, artifact),
        "",
        *_functions(name, weights),
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _sizes(upper: str, artifact: Artifact) -> list[str]:
    """The macros of a header."""
    arrays = [("INPUT", one) for one in artifact.inputs], [("OUTPUT", one) for one in artifact.outputs]
    return [
        f"#define {upper}_VERSION {VERSION}",
        f"#define {upper}_INPUTS {len(artifact.inputs)}",
        f"#define {upper}_OUTPUTS {len(artifact.outputs)}",
        *(f"#define {upper}_{kind}_{n}_BYTES {_bytes(spec)}" for part in arrays for n, (kind, spec) in enumerate(part)),
        f"#define {upper}_WORKSPACE_ALIGNMENT 64",
    ]


def _functions(name: str, weights: str) -> list[str]:
    """The types and functions of a header."""
    statuses = ",\n".join(f"  {name}_{status} = {n}" for n, status in enumerate(STATUS))
    opening = (
        f"/* Maps the weights, the file {weights}, and has them prepared where that was not done. Again, it does nothing. */"
        if weights
        else "/* Has the constants prepared, if any; the first run does so by itself. `weights` may be NULL. */"
    )
    return [
        f"enum {name}_status {{\n{statuses}\n}};",
        "",
        opening,
        f"int {name}_init(const char *weights);",
        "",
        "/* Computes the outputs. `workspace`: that many bytes, aligned; NULL: allocated for the call. Returns a status. */",
        f"int {name}_run(const void *const *inputs, void *const *outputs, void *workspace);",
        f"size_t {name}_workspace_bytes(void);",
        "",
        "/* Lends threads: `run(pool, task, data, threads)` calls task(data, 0) to task(data, threads - 1), in any order or at",
        " * the same time, and returns when all are done. NULL takes them back. Not while anything runs. */",
        f"typedef void (*{name}_task)(void *data, unsigned thread);",
        f"typedef void (*{name}_pool)(void *pool, {name}_task task, void *data, unsigned threads);",
        f"void {name}_lend_threads({name}_pool run, void *pool);",
        "",
        "/* Gives memory back; nothing may run any more. */",
        f"void {name}_free(void);",
        "",
        f"const char *{name}_error(int status);",
        "/* The code that this processor gets, as in x86:avx512; empty where there is none. */",
        f"const char *{name}_target(void);",
    ]


def source_text(
    name: str, variants: Sequence[Variant], places: Sequence[tuple[int, dict[int, int]]], weights: Weights, build: str,
    inside: bool,
) -> str:  # fmt: skip
    """The C source. `places`: for each variant where its prepared constants and its constants are in the weights."""
    artifact = variants[0].artifact
    entry = "void **arguments, void *prepared, void *workspace"
    declared = []
    for n, one in enumerate(variants):
        declared.append(f"void {private(name, f'run{n}')}({entry});")
        if one.prepares:
            declared.append(f"void {private(name, f'prepare{n}')}({entry});")
        declared.append(f"static int runs_here{n}(void) {{ return {one.runs_here}; }}")
    rows = [_row(name, n, one, *place) for n, (one, place) in enumerate(zip(variants, places, strict=True))]
    total = 0 if weights.empty else weights.bytes
    return "\n".join([
        f'/* {artifact.name}: the C side of the library. */',
        "#define _GNU_SOURCE",
        "#include <fcntl.h>", "#include <pthread.h>", "#include <sched.h>", "#include <stdatomic.h>", "#include <stdint.h>",
        "#include <stdlib.h>", "#include <string.h>", "#include <sys/mman.h>", "#include <sys/stat.h>",
        "#include <sys/syscall.h>", "#include <time.h>", "#include <unistd.h>",
        "#ifdef _OPENMP", "#include <omp.h>", "#endif",
        "#pragma GCC visibility push(default)", f'#include "{name}.h"', "#pragma GCC visibility pop",
        f"#define NAME(x) {name}_##x",
        f"#define TS(x) {private(name, '##x')}",
        f"#define TS_INPUTS {len(artifact.inputs)}",
        f"#define TS_CONSTANTS {len(artifact.constants)}",
        f"#define TS_OUTPUTS {len(artifact.outputs)}",
        f"#define TS_VARIANTS {len(variants)}",
        f'#define TS_BUILD "{build}"',
        f"#define TS_WEIGHTS_BYTES {total}ul",
        f"#define TS_INSIDE {int(inside)}",
        *([f"extern const unsigned char {private(name, 'weights')}[];"] if inside and total else []),
        variants[0].in_c.helpers,
        *declared,
        files(__package__).joinpath("runtime.c").read_text(encoding="utf-8"),
        f"static const struct variant variants[TS_VARIANTS] = {{\n{''.join(rows)}}};",
    ]) + "\n"  # fmt: skip


def _row(name: str, number: int, one: Variant, prepared: int, constants: dict[int, int]) -> str:
    artifact = one.artifact
    places = ", ".join(str(constants.get(n, -1)) for n in range(len(artifact.constants))) or "-1"
    prepare = private(name, f"prepare{number}") if one.prepares else "NULL"
    sizes = f"{artifact.prepared_bytes}, {artifact.preparing_bytes}, {artifact.workspace_bytes}"
    run = private(name, f"run{number}")
    return f'  {{"{one.processor}", runs_here{number}, {run}, {prepare}, {sizes}, {prepared}, {{{places}}}}},\n'


def weights_source(name: str, file: str) -> str:
    """Assembly that takes the file of weights into the library."""
    symbol = private(name, "weights")
    return (
        f'  .section .rodata\n  .globl {symbol}\n  .hidden {symbol}\n  .balign 4096\n{symbol}:\n  .incbin "{file}"\n'
        '  .section .note.GNU-stack,"",%progbits\n'
    )
