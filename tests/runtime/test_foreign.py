"""Arrays of other libraries: what comes in says what goes out, bfloat16 included."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.common.errors import ArgumentError
from tilesmith.runtime.foreign import made_like

MIXED = ts.parse("""
    input a: bf16[8, 6]
    input b: bf16[6]
    t[i: 8, j: 6] = a[i, j] + b[j]
    s[i: 8] = sum[j: 6](f32(a[i, j]))
    m[i: 8] = a[i, 0] > a[i, 1]
    return t, s, m
""")
PLAIN = ts.parse("input a: f32[8]\nt[i: 8] = a[i] + 1\nreturn t")


@pytest.fixture(scope="module")
def mixed() -> ts.Kernel:
    return ts.compile(MIXED, threads=1)


@pytest.fixture(scope="module")
def plain() -> ts.Kernel:
    return ts.compile(PLAIN, threads=1)


def bits(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


A, B = np.arange(48, dtype=np.float32).reshape(8, 6) - 20, np.arange(6, dtype=np.float32)


class TestTorch:
    torch: Any = None

    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        self.torch = pytest.importorskip("torch")

    def test_tensors_in_tensors_out(self, mixed: ts.Kernel) -> None:
        torch = self.torch
        a, b = torch.from_numpy(A).bfloat16(), torch.from_numpy(B).bfloat16()
        t, s, m = mixed(a, b)
        assert (t.dtype, s.dtype, m.dtype) == (torch.bfloat16, torch.float32, torch.bool)
        assert torch.equal(t, a + b) and torch.equal(s, a.float().sum(1)) and torch.equal(m, a[:, 0] > a[:, 1])
        t += 1  # it is the caller's own

    def test_out(self, mixed: ts.Kernel, plain: ts.Kernel) -> None:
        torch = self.torch
        a, b = torch.from_numpy(A).bfloat16(), torch.from_numpy(B).bfloat16()
        out = torch.empty(8, 6, dtype=torch.bfloat16), np.empty(8, np.float32), torch.empty(8, dtype=torch.bool)
        assert mixed(a, b, out=out) is out
        assert torch.equal(out[0], a + b) and np.array_equal(out[1], A.sum(1))
        x, y = torch.ones(8), torch.empty(8)
        assert plain(x, out=y) is y and y.eq(2).all()
        with pytest.raises(ArgumentError, match="shares memory"):
            plain(x, out=x)

    def test_one_tensor_among_arrays_of_numpy_decides(self, mixed: ts.Kernel) -> None:
        assert all(isinstance(one, self.torch.Tensor) for one in mixed(bits(A), self.torch.from_numpy(B).bfloat16()))
        assert all(type(one) is np.ndarray for one in mixed(bits(A), bits(B)))

    def test_constants(self) -> None:
        program = ts.parse("input a: f32[8]\nconstant w: bf16[8]\nt[i: 8] = a[i] * f32(w[i])\nreturn t")
        w = self.torch.arange(8).bfloat16()
        kernel = ts.compile(program, constants={"w": w}, threads=1)
        assert kernel(self.torch.ones(8)).tolist() == list(range(8))

    def test_refusals(self, plain: ts.Kernel) -> None:
        torch = self.torch
        with pytest.raises(ArgumentError, match=r"(?s)requires? grad.*tensor\.detach\(\)"):
            plain(torch.ones(8, requires_grad=True))
        with pytest.raises(ArgumentError, match=r"(?s)requires? grad.*tensor\.detach\(\)"):
            plain(torch.ones(8), out=torch.ones(8, requires_grad=True))
        with pytest.raises(ArgumentError, match=r"(?s)wrong dtype.*float32.*bf16.*\.to\(torch\.float32\)"):
            plain(torch.ones(8, dtype=torch.bfloat16))
        with pytest.raises(ArgumentError, match=r"(?s)not contiguous.*tensor\.contiguous\(\)"):
            plain(torch.ones(16)[::2])
        with pytest.raises(ArgumentError, match=r"(?s)wrong dtype.*complex64"):
            plain(torch.ones(8, dtype=torch.complex64))
        with pytest.raises(ArgumentError, match="not in the memory of the CPU"):
            plain(torch.ones(8, device="meta"))
        with pytest.raises(ArgumentError, match=r"(?s)negated.*tensor\.resolve_neg\(\)"):
            plain(torch._neg_view(torch.ones(8)))
        with pytest.raises(ArgumentError, match=r"(?s)negated.*tensor\.resolve_neg\(\)"):
            plain(torch.ones(8), out=torch._neg_view(torch.ones(8)))
        with pytest.raises(ArgumentError, match="no memory behind it"):
            plain(torch._efficientzerotensor(8))

    def test_nobody_asks_for_gradients(self, plain: ts.Kernel) -> None:
        torch = self.torch
        x, y = torch.nn.Parameter(torch.ones(8)), torch.empty(8, requires_grad=True)
        with torch.no_grad():
            assert plain(x).tolist() == plain(x, out=y).tolist() == [2] * 8

    def test_the_short_way(self, mixed: ts.Kernel) -> None:
        torch = self.torch
        a, b = torch.from_numpy(A).bfloat16(), torch.from_numpy(B).bfloat16()
        given = [a, b, torch.empty(8, 6, dtype=torch.bfloat16), torch.empty(8), torch.empty(8, dtype=torch.bool)]
        assert mixed._run_on_tensors(*given)
        assert torch.equal(given[2], a + b) and torch.equal(given[3], torch.from_numpy(A.sum(1)))
        odd = torch.from_numpy(np.zeros(97, np.uint8)[1:])
        wrong = {
            "an array": bits(A), "dtype": a.half(), "shape": a[:7], "order": a.T.contiguous().T, "device": a.to("meta"),
            "negated": torch._neg_view(a), "gradient": a.clone().requires_grad_(), "sparse": a.to_sparse(),
            "of oneDNN": a.float().to_mkldnn(torch.bfloat16), "between elements": odd.view(torch.bfloat16).view(8, 6),
            "no memory": torch._efficientzerotensor(8, 6, dtype=torch.bfloat16),
        }  # fmt: skip
        for why, one in wrong.items():
            assert not mixed._run_on_tensors(one, *given[1:]), why
            assert not mixed._run_on_tensors(*given[:2], one, *given[3:]), why
        assert not mixed._run_on_tensors(a, b, a, *given[3:])
        block = torch.empty(60, dtype=torch.bfloat16)
        assert not mixed._run_on_tensors(a, block[:48].view(8, 6), block[12:].view(8, 6), *given[3:])
        seen = []
        torch.vmap(lambda one: seen.append(mixed._run_on_tensors(one, *given[1:])) or one)(torch.stack([a, a]))  # type: ignore[func-returns-value]
        assert seen == [False]

    def test_classes_that_extend_tensors(self, plain: ts.Kernel) -> None:
        class Own(self.torch.Tensor):  # type: ignore[misc,name-defined]
            pass

        found = plain(self.torch.ones(8).as_subclass(Own))
        assert type(found) is self.torch.Tensor and found.tolist() == [2] * 8


class Other:
    """An array of a library that follows the array API standard."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __array_namespace__(self) -> object:
        return SimpleNamespace(from_dlpack=lambda value: Other(np.from_dlpack(value)))


class Old(Other):
    """One from before version 1.0 of DLPack, whose library imports nothing."""

    def __dlpack__(self, stream: object = None) -> object:  # type: ignore[override]
        return self.array.__dlpack__(stream=None)

    __array_namespace__ = None  # type: ignore[assignment]

    def __getattribute__(self, name: str) -> Any:
        if name == "__array_namespace__":
            raise AttributeError(name)
        return super().__getattribute__(name)


def test_libraries_of_the_array_api(plain: ts.Kernel) -> None:
    found = plain(Other(np.ones(8, np.float32)))
    assert isinstance(found, Other) and (found.array == 2).all()


def test_old_libraries_get_numpy(plain: ts.Kernel) -> None:
    out = Old(np.zeros(8, np.float32))
    assert type(plain(Old(np.ones(8, np.float32)))) is np.ndarray
    assert plain(Old(np.ones(8, np.float32)), out=out) is out and (out.array == 2).all()


def test_memory_that_is_read_only_is_no_output(plain: ts.Kernel) -> None:
    array = np.ones(8, np.float32)
    array.flags.writeable = False
    assert (plain(Other(array)).array == 2).all()
    with pytest.raises(ArgumentError, match="read-only"):
        plain(np.ones(8, np.float32), out=Other(array))


def test_bfloat16_of_ml_dtypes(mixed: ts.Kernel, plain: ts.Kernel) -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    a, b = A.astype(bfloat16), B.astype(bfloat16)
    t, s, _ = mixed(a, b)
    assert t.dtype == bfloat16 and (t == a + b).all() and s.dtype == np.float32
    out = np.empty((8, 6), bfloat16), np.empty(8, np.float32), np.empty(8, np.bool_)
    assert mixed(a, b, out=out) is out and (out[0] == a + b).all()
    with pytest.raises(ArgumentError, match=r"(?s)wrong dtype.*bf16"):
        plain(np.ones(8, bfloat16))


def test_torch_makes_its_outputs_on_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU is needed to see what torch is asked for."""

    class Tensor:
        __module__ = "torch"
        device = "cuda:1"

    torch = SimpleNamespace(float32="float32", bfloat16="bfloat16", empty=lambda *given, **options: (given, options))
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    for name, dtype in (("f32", "float32"), ("bf16", "bfloat16")):
        assert made_like(Tensor(), (2, 3), name) == (((2, 3),), {"dtype": dtype, "device": "cuda:1"})
    assert made_like(np.ones(3), (2, 3), "f32") is None
