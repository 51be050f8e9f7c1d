"""Opens the CUDA driver through whichever binding is installed."""

from __future__ import annotations

from importlib.util import find_spec

from ....common.errors import EnvironmentFailure, MissingExtra
from ..driver import Driver, DriverError


def open_driver(number: int) -> Driver:
    """The driver, through cuda-bindings or pycuda, whichever is there; cuda-bindings first, since pycuda knows no streams but
    its own.

    Raises:
        MissingExtra: neither is installed.
        EnvironmentFailure: no driver, or no such device.
    """
    failures: list[str] = []
    for opened in (_through_bindings, _through_pycuda):
        try:
            return opened(number)
        except ModuleNotFoundError:
            continue
        except ImportError as error:  # the binding is there and the driver is not
            failures.append(str(error))
        except (DriverError, RuntimeError) as error:  # cuda-bindings looks for libcuda at the first call
            failures.append(str(error))
    if not failures:
        raise _no_binding()
    raise EnvironmentFailure(
        f"CUDA device {number} cannot be used",
        expected="an NVIDIA driver (libcuda.so.1) and a device of that number",
        found="; ".join(failures),
        advice="`nvidia-smi` tells which devices the driver sees; --target cuda:emulator needs none",
    )


def require_binding() -> None:
    """Returns if a binding is installed; it is not imported, and no driver is needed. Errors: MissingExtra."""
    for name in ("pycuda", "cuda.bindings"):
        try:
            if find_spec(name) is not None:
                return
        except (ImportError, ValueError):
            continue
    raise _no_binding()


def _no_binding() -> MissingExtra:
    return MissingExtra("cuda-bindings (or pycuda)", "cuda-bindings", "running kernels on an NVIDIA GPU")


def _through_pycuda(number: int) -> Driver:
    from .pycuda_binding import PycudaDriver

    return PycudaDriver(number)


def _through_bindings(number: int) -> Driver:
    from .bindings import BindingsDriver

    return BindingsDriver(number)
