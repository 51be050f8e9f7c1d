"""What to compute: expressions, programs, their text form, the oracle, rewrites, operators.

    dtype, expr, program     the data: frozen nodes (the grammar of expressions stands at the top of expr.py)
    build, functions, ops    writing programs in Python; operators by name
    text                     the text form: print, parse, canonical form, keys (docs/text-form.md)
    check                    every rule of what a program may say
    affine                   index arithmetic: affine forms, intervals under guards, simplification
    reference                the oracle: any program in float64, whole or at points, with error bounds
    rewrite                  programs to programs: the normal form, merge_axes, split_k, winograd, ...

Import the modules; this package itself imports nothing.
"""
