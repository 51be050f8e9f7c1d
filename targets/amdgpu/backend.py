"""The description of AMD's GPUs: objects by LLVM. Nothing starts them on a device yet; the emulator runs them."""

from __future__ import annotations

from ..backend import Backend, Devices
from .emission import EMISSION
from .levels import LEVELS

AMDGPU = Backend(
    "amdgpu",
    "amdgcn-amd-amdhsa",
    LEVELS,
    passes="gpu",
    rules="gpu",
    emission=EMISSION,
    devices=Devices(words="an AMD device"),
)
