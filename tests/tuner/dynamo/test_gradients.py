"""Gradients that torch does not take apart, against torch: alone, and in steps of training."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tilesmith as ts  # noqa: E402
from tilesmith.tuner.dynamo.backend import backend  # noqa: E402
from tilesmith.tuner.dynamo.gradients import attention_backward, convolution_backward  # noqa: E402

CASES = [
    case
    for case in product((1, 2, 3), (False, True), (1, 2), (1, 2, 3), (0, 1), (1, 2), (1, 3))
    if case[4] * 2 <= case[5] * (case[6] - 1) + 1
]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_those_of_convolutions_are_convolutions(rank: int) -> None:
    torch.manual_seed(0)
    for _, transposed, groups, stride, padding, dilation, size in [case for case in CASES if case[0] == rank]:
        x = torch.randn(2, 4, *(11, 9, 10)[:rank], dtype=torch.double)
        w = torch.randn(*((4, 6 // groups) if transposed else (6, 4 // groups)), *[size] * rank, dtype=torch.double)
        more = [1 if transposed and stride > 1 else 0] * rank
        window = [stride] * rank, [padding] * rank, [dilation] * rank, transposed, more, groups
        gradient = torch.randn_like(torch.ops.aten.convolution(x, w, None, *window))
        wanted = torch.ops.aten.convolution_backward(gradient, x, w, [6], *window, [True] * 3)
        for ours, theirs in zip(convolution_backward(gradient, x, w, [6], *window, [True] * 3), wanted, strict=True):
            torch.testing.assert_close(ours, theirs)


MASKS = {
    "none": lambda shape: None,
    "added": torch.randn,
    "hidden": lambda shape: torch.zeros(shape).masked_fill(torch.rand(shape) < 0.3, -torch.inf),
}


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize(("causal", "mask"), [(True, "none"), (False, "none"), (False, "added"), (False, "hidden")])
def test_those_of_attention_are_products(causal: bool, mask: str, scale: float | None) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 9, 8) for _ in range(3))
    how: dict[str, Any] = {"attn_mask": MASKS[mask]((2, 1, 9, 9)), "scale": scale}
    out, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, **how)
    given = torch.randn_like(out), q, k, v, out, sums, 0.0, causal
    wanted = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(*given, **how)
    for ours, theirs in zip(attention_backward(*given, **how), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


class Attention(nn.Module):  # type: ignore[misc]
    """Heads that attend to one another."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.last = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        q, k, v = (part.view(2, -1, 4, 4).transpose(1, 2) for part in self.all(x).split(16, -1))
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.log_softmax(self.last(found.transpose(1, 2).reshape(x.shape)).mean(1), 1)


def test_a_step_with_attention_is_covered_unless_the_text_is_long() -> None:
    module = Attention().train()
    assert [graph.left for graph in ts.explain(module, (torch.randn(2, 7, 16),)).graphs] == [(), ()]
    long = ts.explain(module, (torch.randn(2, 2048, 16),))
    assert all("flash_attention" in graph.left[0][0] for graph in long.graphs)


def test_what_nobody_asks_for_is_not_computed() -> None:
    x, w = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)
    window = [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    found = convolution_backward(torch.randn(1, 3, 3, 3), x, w, [3], *window, [False, True, False])
    assert [one is None for one in found] == [True, False, True]


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TILESMITH_DB", str(tmp_path / "records.sqlite"))
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


class Block(nn.Module):  # type: ignore[misc]
    """A residual block, pooled, with a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.pool, self.second = nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.mean, self.last = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        y = self.pool(torch.relu(self.norm(self.first(x))))
        return torch.log_softmax(self.last(self.mean(y + self.second(y)).flatten(1)), 1)


class Words(nn.Module):  # type: ignore[misc]
    """An embedding with a norm behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.last = nn.Embedding(11, 16), nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        return torch.log_softmax(self.last(nn.functional.gelu(self.norm(self.table(x)))).mean(1), 1)


class Groups(nn.Module):  # type: ignore[misc]
    """Convolutions with the norms of diffusion models."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.Conv2d(8, 4, 3)

    def forward(self, x: Any) -> Any:
        return torch.log_softmax(self.last(nn.functional.silu(self.norm(self.first(x)))).mean((2, 3)), 1)


STEPS = [
    (Groups, lambda: torch.randn(2, 3, 7, 9)),
    (Block, lambda: torch.randn(2, 3, 12, 12)),
    (Words, lambda: torch.randint(0, 11, (2, 6))),
    (Attention, lambda: torch.randn(2, 7, 16)),
]


@pytest.mark.parametrize(("make", "given"), STEPS)
def test_gradients_agree_with_eager(make: Any, given: Any) -> None:
    module, x, wanted = make().train(), given(), torch.tensor([1, 3])
    other = copy.deepcopy(module)
    compiled = torch.compile(module, backend=backend, options={"threads": 1}, dynamic=False)
    for called, own in ((compiled, module), (other, other)):
        nn.functional.nll_loss(called(x), wanted).backward()
        assert all(parameter.grad is not None for parameter in own.parameters())
    for ours, theirs in zip(module.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_what_is_cheap_is_computed_again_rather_than_kept() -> None:
    kept: list[tuple[int, ...]] = []

    def keep(tensor: Any) -> Any:
        kept.append(tuple(tensor.shape))
        return tensor

    def chain(x: Any) -> Any:
        return (torch.sigmoid(x * 2) * torch.tanh(x) + x.exp()).sum()

    compiled = torch.compile(chain, backend=backend, options={"threads": 1}, dynamic=False)
    x = torch.randn(30, 40, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        found = compiled(x)
    assert kept == [(30, 40)]
    (ours,) = torch.autograd.grad(found, x)
    torch.testing.assert_close(ours, torch.autograd.grad(chain(x), x)[0], rtol=1e-5, atol=1e-6)


def test_a_batch_without_images_has_gradients_of_zero() -> None:
    module, x = nn.Conv2d(2, 3, 3).train(), torch.randn(0, 2, 8, 8, requires_grad=True)
    compiled = torch.compile(module, backend=backend, options={"threads": 1}, dynamic=False)
    compiled(x).sum().backward()
    for parameter in module.parameters():
        torch.testing.assert_close(parameter.grad, torch.zeros_like(parameter))
    assert x.grad.shape == x.shape


@pytest.mark.parametrize(("make", "given"), STEPS)
def test_nothing_of_a_step_stays_in_torch(make: Any, given: Any) -> None:
    found = ts.explain(make().train(), (given(),))
    assert [graph.title for graph in found.graphs] == ["forward", "backward"]
    assert not [graph.left for graph in found.graphs if graph.left], str(found)
