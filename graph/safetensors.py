"""Arrays by name in one file, as others write and read them too (github.com/huggingface/safetensors): a header in JSON with
dtypes, shapes and places, then the bytes. Nothing in such a file is ever run.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..common.errors import ArgumentError
from ..tensor.dtype import DTYPES, DType

Array = np.ndarray[Any, Any]
_NAMES = {"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "i64": "I64", "i32": "I32", "i16": "I16", "i8": "I8",
          "u64": "U64", "u32": "U32", "u16": "U16", "u8": "U8", "bool": "BOOL"}  # fmt: skip
_DTYPES = {there: DTYPES[here] for here, there in _NAMES.items()}
_HEADER = 100_000_000  # bytes of a header, the limit of the format
_ALIGNED = 64  # bytes, for kernels that read constants where they lie in the file


@dataclass(frozen=True)
class Arrays:
    """Holds what a file holds: arrays with their dtypes, and texts by name."""

    arrays: Mapping[str, tuple[DType, Array]]
    texts: Mapping[str, str] = field(default_factory=dict)


def write_arrays(path: Path, content: Arrays) -> None:
    """Writes the file whole, or not at all. The format has no gaps, so wide elements come first: all are aligned then."""
    header: dict[str, object] = {"__metadata__": dict(content.texts)} if content.texts else {}
    stored = sorted(content.arrays, key=lambda name: -content.arrays[name][1].dtype.itemsize)
    ends = dict(zip(stored, accumulate(content.arrays[name][1].nbytes for name in stored), strict=True))
    for name, (dtype, array) in content.arrays.items():
        place = [ends[name] - array.nbytes, ends[name]]
        header[name] = {"dtype": _NAMES[dtype.name], "shape": list(array.shape), "data_offsets": place}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNED)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for name in stored:
                file.write(np.ascontiguousarray(content.arrays[name][1]).data)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_arrays(path: Path) -> Arrays:
    """Returns what a file holds; arrays lie in the mapped file and are not written to, but for copies of those that others
    have written where no element of theirs may begin. Errors: ArgumentError for another file."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
            if not 0 < length <= min(_HEADER, size - 8):
                raise _refused(path, "it has no header of this format")
            header = json.loads(file.read(length))
    except OSError as error:
        raise ArgumentError(f"cannot read {path}", found=error.strerror or str(error)) from None
    except (ValueError, RecursionError):
        raise _refused(path, "its header is no JSON") from None
    if not isinstance(header, dict):
        raise _refused(path, "its header is no table of arrays")
    texts = header.pop("__metadata__", {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise _refused(path, "its texts are none")
    begin, whole = 8 + length, size - 8 - length
    data = np.memmap(path, np.uint8, "r", begin, (whole,)) if whole else np.empty(0, np.uint8)
    return Arrays({name: _array(path, name, entry, data) for name, entry in header.items()}, texts)


def _array(path: Path, name: str, entry: object, data: Array) -> tuple[DType, Array]:
    match entry:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(start), int(end)]}:
            found = _DTYPES.get(dtype)
            if found is None:
                raise _refused(path, f"{name} has the dtype {dtype}")
            sizes = [size for size in shape if type(size) is int and size >= 0]
            if len(sizes) < len(shape) or not 0 <= start <= end <= data.size:
                raise _refused(path, f"{name} lies outside of the file")
            if end - start != prod(sizes) * found.numpy.itemsize:
                raise _refused(path, f"{name} has another number of bytes than its shape says")
            array = np.asarray(data[start:end]).view(found.numpy).reshape(sizes)
            return found, array if array.flags.aligned else array.copy()
    raise _refused(path, f"{name} is not described as an array")


def _refused(path: Path, why: str) -> ArgumentError:
    return ArgumentError(f"{path} is no file of arrays", expected="the safetensors format", found=why)
