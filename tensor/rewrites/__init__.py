"""Programs to programs that compute the same: the normal form, axes, fast convolutions, online softmax, ...

Imports the core files of `tensor` and `indices`. `registry.py` names what sketches may ask for.
"""
