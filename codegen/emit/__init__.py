"""Loop IR to LLVM IR text: values, memory, expressions, statements.

Imports `ir` and `math`; what only one kind of target has stands in `cpu`, `gpu` and `matrix`.
"""
