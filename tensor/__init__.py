"""What to compute: expressions, programs, their text form, the oracle, rewrites, operators.

    dtype, expr, program     the data: frozen nodes (the grammar of expressions stands at the top of expr.py)
    language                 the table of operators and functions, whose entries are in arithmetic and mathematics
    build, functions, ops    writing programs in Python; operators by name
    text                     the text form: print, parse, canonical form, keys (docs/text-form.md)
    check                    every rule of what a program may say
    indices                  index arithmetic: affine forms, intervals under guards, simplification
    oracle                   any program in float64, whole or at points, with error bounds
    rewrites                 programs to programs: the normal form, parts of reductions, fast convolutions, ...

Import the modules. This package itself imports the entries of the table alone, so that no module ever sees a part of it.
"""

from . import arithmetic, mathematics  # noqa: F401
