"""A C program that runs a library, and what CMake needs to build it."""

from __future__ import annotations

from ...codegen.artifact import Artifact


def example_text(name: str, artifact: Artifact, weights: str) -> str:
    """A program that runs the library on zeros and tells the time of a call. `weights`: a file beside it, or ""."""
    upper = name.upper()

    def arrays(kind: str, count: int, const: str) -> list[str]:
        made = [f"calloc(1, {upper}_{kind}_{n}_BYTES)" for n in range(count)]
        return [f"  {const}void *{kind.lower()}s[] = {{{', '.join(made)}}};"]

    lines = [
        f"/* cc example.c -L. -l{name}; or cmake . */",
        "#define _POSIX_C_SOURCE 199309L",
        f'#include "{name}.h"',
        "",
        "#include <stdio.h>",
        "#include <stdlib.h>",
        "#include <time.h>",
        "",
        "static double now(void) {",
        "  struct timespec time;",
        "  clock_gettime(CLOCK_MONOTONIC, &time);",
        "  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;",
        "}",
        "",
        "int main(int argc, char **argv) {",
        f'  const char *weights = argc > 1 ? argv[1] : "{weights}";',
        *arrays("INPUT", len(artifact.inputs), "const "),
        *arrays("OUTPUT", len(artifact.outputs), ""),
        f"  int status = {name}_init(weights);",
        f"  if (!status) status = {name}_run(inputs, outputs, NULL);",
        "  double best = 1e9;",
        "  for (int n = 0; !status && n < 20; n++) {",
        "    double start = now();",
        f"    status = {name}_run(inputs, outputs, NULL);",
        "    if (now() - start < best) best = now() - start;",
        "  }",
        "  if (status) {",
        f'    fprintf(stderr, "{name}: %s\\n", {name}_error(status));',
        "    return 1;",
        "  }",
        f'  printf("{name} for %s: %.3f ms\\n", {name}_target(), 1e3 * best);',
        *(f"  free((void *)inputs[{n}]);" for n in range(len(artifact.inputs))),
        *(f"  free(outputs[{n}]);" for n in range(len(artifact.outputs))),
        f"  {name}_free();",
        "  return 0;",
        "}",
    ]
    return "\n".join(lines) + "\n"


def cmake_text(name: str, openmp: bool) -> str:
    """A project that builds the example with the static library."""
    threads = "find_package(OpenMP REQUIRED COMPONENTS C)\n" if openmp else ""
    library = "OpenMP::OpenMP_C " if openmp else ""
    return (
        f"cmake_minimum_required(VERSION 3.13)\nproject({name} C)\nfind_package(Threads REQUIRED)\n{threads}\n"
        f"add_library({name} STATIC IMPORTED)\n"
        f"set_target_properties({name} PROPERTIES IMPORTED_LOCATION ${{CMAKE_CURRENT_SOURCE_DIR}}/lib{name}.a\n"
        f"  INTERFACE_INCLUDE_DIRECTORIES ${{CMAKE_CURRENT_SOURCE_DIR}})\n"
        f"target_link_libraries({name} INTERFACE {library}Threads::Threads m)\n\n"
        f"add_executable({name}_example {name}.example.c)\ntarget_link_libraries({name}_example {name})\n"
    )
