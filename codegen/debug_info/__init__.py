"""Lines of source for machine code: of which line of the model, of an outline or of loop IR an instruction is.

Imports `ir`; emit/ writes what this says, and backends/cpu.py asks for it where the setting DEBUG_INFO does.
"""
