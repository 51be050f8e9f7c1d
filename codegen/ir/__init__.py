"""Loop IR: its nodes, its text, its facts, index arithmetic, and where its buffers lie in memory.

Imports nothing else of `codegen`.
"""
