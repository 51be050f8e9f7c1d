"""Messages between a parent and its children: pickled values in length-prefixed frames over a socket.

The child's side blocks. The parent's side never does: a child may be stopped or dead in the middle of a frame, and the
parent is the one that lets it go on.
"""

from __future__ import annotations

import pickle
import socket
from struct import Struct
from typing import Any

_HEADER = Struct("<Q")


def send(connection: socket.socket, message: object) -> None:
    """Sends one message; blocks while the other side does not read. Raises OSError when that side is gone."""
    payload = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    connection.sendall(_HEADER.pack(len(payload)) + payload)


def receive(connection: socket.socket) -> Any:
    """Waits for one message. Raises EOFError when the other side is gone."""
    (size,) = _HEADER.unpack(_exactly(connection, _HEADER.size))
    return pickle.loads(_exactly(connection, size))


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError("the other side closed the connection")
        parts += part
    return bytes(parts)


class Inbox:
    """Collects what has arrived on a socket, without waiting."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._bytes = bytearray()
        self.ended = False
        self.nonsense = False

    def messages(self) -> list[Any]:
        """All complete messages that are here. Sets `ended` when the other side is gone, or sends `nonsense`."""
        self._fill()
        found: list[Any] = []
        while len(self._bytes) >= _HEADER.size:
            (size,) = _HEADER.unpack_from(self._bytes)
            if len(self._bytes) < _HEADER.size + size:
                break
            payload = bytes(self._bytes[_HEADER.size : _HEADER.size + size])
            del self._bytes[: _HEADER.size + size]
            try:
                found.append(pickle.loads(payload))
            except Exception:  # a kernel gone wild wrote into the child's memory: whatever pickle makes of it
                self.ended = self.nonsense = True
                break
        return found

    def _fill(self) -> None:
        while not self.ended:
            try:
                part = self._connection.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                part = b""
            if not part:
                self.ended = True
            self._bytes += part
