"""torch.compile(module, backend="tilesmith"): what is covered of each graph as models, the rest in torch. Start at backend.py.

Imports `apply`, tune.py and the importers of graph. torch itself is imported when it asks for the backend.
"""
