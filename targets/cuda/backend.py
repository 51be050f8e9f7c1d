"""The description of NVIDIA's GPUs: PTX by LLVM, kernels started by the CUDA driver."""

from __future__ import annotations

from ..backend import Backend, Devices, Gpu
from . import devices
from .emission import EMISSION
from .levels import LEVELS


def _found() -> tuple[Gpu, ...]:
    return devices.gpus()


def _runs(level: str, gpu: Gpu) -> bool:
    return devices.runs(level, gpu.capability)


CUDA = Backend(
    "cuda",
    "nvptx64-nvidia-cuda",
    LEVELS,
    passes="gpu",
    rules="gpu",
    emission=EMISSION,
    devices=Devices(
        words="an NVIDIA device",
        driver="cuda",
        variable="CUDA_VISIBLE_DEVICES",
        found=_found,
        runs=_runs,
        own=devices.own_target,
        local=devices.local_target,
    ),
)
