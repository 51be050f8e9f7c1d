"""On which stream of a GPU a call works, so that nothing races with what made its arguments.

Asked for by `stream=`: a handle of CUDA's, or an object that has one. Else the stream on which the producer of an argument
works now: torch's current stream for its tensors, that of the last use for arrays of our own, the one that an array with
__cuda_array_interface__ names. Other producers are told the stream, as DLPack has it. Handles here: 0 is the default stream.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..common.errors import ArgumentError
from .devices.driver import LEGACY
from .devices.gpu import DeviceArray

_PER_THREAD = 2  # the handle that means another stream in each thread
_EXPECTED = "an integer handle of CUDA, or an object with __cuda_stream__ or .cuda_stream"


def launch_stream(given: object, values: Sequence[object]) -> int:
    """The stream of a call with these arguments; see the head of this file. Errors: ArgumentError."""
    if given is not None:
        return handle_of(given)
    for value in values:
        found = current_stream(value)
        if found is not None:
            return found
    return 0


def handle_of(stream: object) -> int:
    """The handle of a stream, whoever made it. Errors: ArgumentError."""
    handle: Any = stream
    if hasattr(stream, "__cuda_stream__"):
        protocol: Any = stream.__cuda_stream__
        handle = tuple(protocol() if callable(protocol) else protocol)[1]  # (version of the protocol, handle)
    elif hasattr(stream, "cuda_stream"):
        handle = stream.cuda_stream
    if isinstance(handle, bool) or not isinstance(handle, int) or handle < 0:
        raise ArgumentError("stream= is no stream", expected=_EXPECTED, found=repr(stream))
    if handle == _PER_THREAD:
        raise ArgumentError(
            "the default stream of a thread cannot be used",
            expected=_EXPECTED,
            found="handle 2, which is another stream in each thread",
            advice="pass a stream that was made, or 0 for the default stream of all threads",
        )
    return 0 if handle == LEGACY else handle


def current_stream(value: object) -> int | None:
    """The stream on which the producer of a value works now; None where it does not say."""
    if isinstance(value, DeviceArray):
        return value.stream
    torch = sys.modules.get("torch")  # whoever has a tensor has imported it
    if torch is not None and isinstance(value, torch.Tensor):
        return handle_of(torch.cuda.current_stream(value.device)) if value.is_cuda else None
    if hasattr(value, "__dlpack__"):
        return None  # it is told the stream
    interface = getattr(value, "__cuda_array_interface__", None)
    stream = interface.get("stream") if isinstance(interface, dict) else None
    return None if stream is None else handle_of(stream)
