"""Who watches a search, and what people see of it, in its own terminal and in another one. Start at watch.py, then view.py.

Imports the core files of `tuner`, and `models` for how it stands with a whole one.
"""
