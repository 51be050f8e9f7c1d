"""XGBoost's library, called without its Python package.

Importing the package takes 1.1 s, most of it for scikit-learn and what that imports: a tenth of a search of 128 trials, in
which nothing is built; in a thread it holds up the draft for as long. Loading the library takes 10 ms. The functions are those
of XGBoost's C interface (https://xgboost.readthedocs.io/en/stable/c.html).
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float32]
Vector = NDArray[np.float64]


class Matrix:
    """float32[n, f] and what is to be predicted of each row, float64[n], as the library keeps them."""

    def __init__(self, features: Features, target: Vector) -> None:
        self.handle = ctypes.c_void_p()
        rows = np.ascontiguousarray(features, dtype=np.float32)
        _call("XGDMatrixCreateFromDense", _interface(rows), _json(missing=np.nan, nthread=1), ctypes.byref(self.handle))
        labels = np.ascontiguousarray(target, dtype=np.float32)
        _call("XGDMatrixSetInfoFromInterface", self.handle, b"label", _interface(labels))

    def __del__(self) -> None:
        if self.handle:
            _call("XGDMatrixFree", self.handle)


class Booster:
    """Trees that grow one by one. `matrices`: all that it will learn from or be judged on."""

    def __init__(self, settings: Mapping[str, object], matrices: Sequence[Matrix]) -> None:
        self.handle = ctypes.c_void_p()
        handles = (ctypes.c_void_p * len(matrices))(*(matrix.handle for matrix in matrices))
        _call("XGBoosterCreate", handles, ctypes.c_uint64(len(matrices)), ctypes.byref(self.handle))
        self.set(settings)

    def first(self, trees: int, settings: Mapping[str, object]) -> Booster:
        """A copy with the first `trees` trees only, that goes on growing by other settings."""
        copy = Booster({}, [])
        _call("XGBoosterFree", copy.handle)
        ends = (ctypes.c_int(0), ctypes.c_int(trees), ctypes.c_int(1))
        _call("XGBoosterSlice", self.handle, *ends, ctypes.byref(copy.handle))
        copy.set(settings)
        return copy

    def set(self, settings: Mapping[str, object]) -> None:
        """Changes settings, by their names in XGBoost."""
        for name, value in settings.items():
            _call("XGBoosterSetParam", self.handle, name.encode(), str(value).encode())

    def grow(self, number: int, data: Matrix) -> None:
        """Adds tree `number`, from 0 on."""
        _call("XGBoosterUpdateOneIter", self.handle, ctypes.c_int(number), data.handle)

    def error(self, number: int, watched: Matrix) -> float:
        """How far the trees so far are off, by the objective's own measure: less is better."""
        said = ctypes.c_char_p()
        handles, names = (ctypes.c_void_p * 1)(watched.handle), (ctypes.c_char_p * 1)(b"held")
        _call(
            "XGBoosterEvalOneIter",
            self.handle,
            ctypes.c_int(number),
            handles,
            names,
            ctypes.c_uint64(1),
            ctypes.byref(said),
        )
        return float((said.value or b"").rpartition(b":")[2])

    def predict(self, features: Features, trees: int) -> NDArray[np.float32]:
        """float32[n] by the first `trees` trees."""
        rows = np.ascontiguousarray(features, dtype=np.float32)
        settings = _json(
            type=0,
            training=False,
            iteration_begin=0,
            iteration_end=trees,
            strict_shape=False,
            cache_id=0,
            missing=np.nan,
        )
        shape, dimensions = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_uint64()
        values = ctypes.POINTER(ctypes.c_float)()
        out = (ctypes.byref(shape), ctypes.byref(dimensions), ctypes.byref(values))
        _call("XGBoosterPredictFromDense", self.handle, _interface(rows), settings, None, *out)
        if not len(rows):
            return np.zeros(0, dtype=np.float32)
        return np.ctypeslib.as_array(values, shape=(len(rows),)).copy()

    def __del__(self) -> None:
        if self.handle:
            _call("XGBoosterFree", self.handle)


def _interface(array: NDArray[Any]) -> bytes:
    """NumPy's array interface as JSON: how the library is told where an array lies. The array must outlive the call."""
    described = dict(array.__array_interface__)
    described.pop("descr", None)
    return json.dumps(described).encode()


def _json(**settings: object) -> bytes:
    return json.dumps(settings).encode()


def _call(name: str, *arguments: Any) -> None:
    """Calls a function of the library. Raises RuntimeError with the library's own words."""
    library = _library()
    if getattr(library, name)(*arguments):
        library.XGBGetLastError.restype = ctypes.c_char_p
        raise RuntimeError(f"{name}: {library.XGBGetLastError().decode(errors='replace')}")


@cache
def _library() -> ctypes.CDLL:
    """The library inside of the package's folder; where a distribution keeps it elsewhere, the package knows the place."""
    spec = find_spec("xgboost")
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in sorted(Path(folder, "lib").glob("*xgboost.*")):
            return ctypes.CDLL(str(path))
    from xgboost.core import _LIB

    library: ctypes.CDLL = _LIB
    return library
