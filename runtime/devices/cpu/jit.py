"""LLVM's linker of object files into this process: one for everything that is linked here."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ....common.forks import lock
from ....common.once import once

LINKING = lock()  # held while a library is linked: the linker takes one at a time
_numbers = itertools.count()  # of libraries: two threads may link the same text at once


@once
def jit() -> Any:
    """The linker. It makes this machine known to LLVM."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler(use_jit_link=True)


def linked(ir: str, symbol: str, imports: Mapping[str, int] | None = None, others: Sequence[str] = ()) -> Any:
    """A library made of LLVM IR text that exports `symbol` and `others`; `imports` are addresses of what it calls, by name.

    The caller keeps the library for as long as its code may run. Other symbols are looked up in this process.
    """
    import llvmlite.binding as llvm

    linker = jit()
    module = llvm.parse_assembly(ir)
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, reloc="pic", codemodel="default")
    module.triple, module.data_layout = llvm.get_process_triple(), str(machine.target_data)
    builder = llvm.JITLibraryBuilder().add_object_img(machine.emit_object(module)).add_current_process()
    for name, place in (imports or {}).items():
        builder.import_symbol(name, place)
    for name in others:
        builder.export_symbol(name)
    with LINKING:
        return builder.export_symbol(symbol).link(linker, f"{symbol}.{next(_numbers)}")
