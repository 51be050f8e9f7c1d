"""Operators as torch exports them: many small functions in one module, against eager torch; and torch's own samples of all."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from helpers.torch_samples import differences, sample_outcomes, sampled_operators  # noqa: E402

F = torch.nn.functional
torch.manual_seed(0)
X, Y = torch.randn(3, 5, 7, dtype=torch.float64), torch.randn(3, 5, 7, dtype=torch.float64)
WORD, FLAG = torch.randint(-4, 5, (3, 5, 7)), torch.rand(3, 5, 7) < 0.5
IMAGE = torch.randn(2, 4, 9, 8, dtype=torch.float64)
INDEX = torch.tensor([[2, 0, 1], [1, 1, 2]])

COMBINED = ("sum", "prod", "mean", "amax", "amin")
OUTSIDE = ("zeros", "border", "reflection")

GROUPS: dict[str, list[tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "elements": [
        (lambda x: (x.abs() + 1).log2() + x.expm1() + x.rsqrt().nan_to_num(), (X,)),
        (lambda x, y: torch.fmax(x, y) + torch.fmin(x, 0.5 * y), (X, Y)),
        (lambda x, y: torch.maximum(x, y) - torch.minimum(x, y), (WORD, WORD.flip(0))),
        (lambda x: (x**2, x**3, x**0.5, x**-1.5), (X.abs() + 0.1,)),
        (lambda x: (x % 3, x // 3, -x, x * 2, ~x), (WORD,)),
        (lambda x, y: (x & y, x | 3, x ^ y, x << y.abs(), x >> 2, 1 << y.abs(), x << 63, x**y.abs(), (x % 3 - 1) ** y),
         (WORD, WORD.flip(1))),
        (lambda x: (x.isnan(), x.isinf(), x.isfinite(), x.frac(), x.square()), (X,)),
        (lambda x: (torch.sign(x.log()), torch.sgn(x.log()), torch.sign(x)), (X,)),  # some of them NaN
        (lambda x: x.isinf() | x.isnan() | ~x.isfinite(), (WORD,)),
        (lambda x, c: (x.masked_fill(c, -1), torch.where(c, x, 0.0), c ^ (x > 0), c & (x < 1)), (X, FLAG)),
        (lambda x, y: (torch.atan2(x, y), torch.hypot(x, y), torch.logaddexp(x, y), torch.xlogy(x, y.abs())), (X, Y)),
        (lambda x: (x.clamp_min(0.1), x.clamp_max(0.1), x.clamp(-1, 1), F.hardtanh(x, -0.5, 0.25)), (X,)),
        (lambda x: (F.elu(x), F.celu(x, 0.7), F.selu(x), F.mish(x), F.silu(x), F.hardswish(x), F.hardsigmoid(x)), (X,)),
        (lambda x: (F.leaky_relu(x, 0.2), F.softplus(x, 2), F.logsigmoid(x), F.softsign(x), F.tanhshrink(x)), (X,)),
        (lambda x: (F.hardshrink(x), F.softshrink(x), F.threshold(x, 0.1, 2), F.relu6(x * 5), F.glu(x[..., 1:], 2)),
         (X,)),
        (lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), torch.special.erfc(x), torch.special.expm1(x)), (X,)),
        (lambda x: (x.to(torch.int32), x.bool(), x.to(torch.uint8), x.double()), (X.abs() * 5,)),
    ],
    "shapes": [
        (lambda x: (x.flatten(1), x.view(15, 7), x.reshape(-1), x[None, :, None].squeeze(), x.unsqueeze(-1)), (X,)),
        (lambda x: (x.mT, x.movedim(0, 2), x.permute(2, 0, 1), x.swapaxes(0, 1), x.transpose(-1, 1)), (X,)),
        (lambda x: (x[1], x[:, 2:4], x[..., ::3], x[-1, -2:], x.narrow(1, 1, 3), x.select(2, -1)), (X,)),
        (lambda x: (*x.unbind(1), *x.split(2, 2), *x.chunk(2, 1), *torch.split(x, [1, 4], 1)), (X,)),
        (lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y], 1), torch.hstack([x, y]), torch.cat([x, y.float()])),
         (X, Y)),
        (lambda x: (x.repeat(1, 2, 1), x.tile(2), x.repeat_interleave(2, 1), x[:1].expand(4, 5, 7), x.flip(1)), (X,)),
        (lambda x: (x.roll(2, 1), x.roll((1, 2), (0, 2)), x.roll(3), x.diagonal(1, 0, 2), x[0].tril(), x.triu(1)),
         (X,)),
        (lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 2), "reflect"), F.pad(x, (2, 1), "replicate"), F.pad(x, (1, 1), "circular")),
         (X,)),
        (lambda x: (F.pixel_shuffle(x, 2), F.channel_shuffle(x, 2), x.unfold(2, 3, 2), x.as_strided((3, 4), (2, 5), 1)),
         (IMAGE,)),
        (lambda x: torch.meshgrid(x[0, 0], x[1, :, 0], indexing="xy"), (X,)),
        (lambda x: x + torch.eye(5, 7) + torch.arange(7) * torch.ones(5, 1) + torch.full((7,), 0.5) + torch.linspace(0, 1, 7),
         (X,)),
        (lambda x: (torch.zeros_like(x) + x, x.new_ones(2) * x[0, 0, 0], F.one_hot(x.long() % 3, 4)), (X.abs(),)),
    ],
    "choices": [
        (lambda x, i: (x[i], x[:, i], x[i[0], i[1]], x[:, i[0], i[1]], x[i[0], :, i[1]]), (X, INDEX)),
        (lambda x, i: (x.gather(0, i[:, :, None]), x.index_select(1, i[0]), torch.take(x, i * 9), F.embedding(i, x[0])),
         (X, INDEX)),
        (lambda x, y: (x.slice_scatter(y[:, 1:3], 1, 2, 4), x.select_scatter(y[0], 0, 1)), (X, Y)),
        (lambda x, i, y: (x.scatter(0, i[:, :, None], y), x.scatter(1, i[:, :, None], 2.5)), (X, INDEX, Y)),
        (lambda x, i, y: x.scatter_add(1, i[:, :, None].expand(2, 3, 7), y), (X, INDEX, Y)),
        (lambda x, i, y: (x.index_put((i,), y[:1]), x.index_put((i[0], i[1]), y[0, :3], accumulate=True)),
         (X, INDEX, Y)),
        (lambda x, i, y: (x.index_add(1, i[0], y[:, :3]), x.index_copy(1, i[0], y[:, :3]), x.index_fill(2, i[0], 3)),
         (X, INDEX, Y)),
        (lambda x: (*x.sort(1), *x.sort(-1, descending=True), *x.topk(3, 1), x.argsort(0)), (X,)),
    ],
    "combinations": [
        (lambda x, i, y: [x.scatter_reduce(1, i[:, :, None], y, r, include_self=s) for r in COMBINED for s in (True, False)],
         (X, INDEX, Y)),
        (lambda x, i, y: x.index_reduce(1, i[0], y[:, :3], "mean"), (X, INDEX, Y)),
        (lambda x, i, y: x.scatter_reduce(1, i[:, :, None], y, "mean"), (WORD, INDEX, WORD.flip(0))),
        (lambda x, c, y: (x.masked_scatter(c, y), x.masked_scatter(c[:1], y)), (X, FLAG, Y)),
        (lambda x: (*x.kthvalue(2, 1), *x.kthvalue(3, -1, True)), (X,)),
        (lambda x: (x.median(), *x.median(1), *x.median(-1, True), x[0, 0, 0].median()), (X,)),
        (lambda x, y: (torch.bucketize(x, y), torch.bucketize(x, y, right=True, out_int32=True)),
         (X, torch.tensor([-1.0, -0.2, -0.2, 0.5, math.inf], dtype=torch.float64))),
        (lambda x, y: (torch.searchsorted(x, y), torch.searchsorted(x, y[..., :2], side="right")), (X.sort(-1)[0], Y)),
        (lambda x, y: (torch.addbmm(x[0, :, :5], x, y.mT, beta=2), torch.copysign(x, y)), (X, Y)),
        (lambda x, g: [F.grid_sample(x, g, m, p, a) for m in ("bilinear", "nearest") for p in OUTSIDE for a in (True, False)],
         (IMAGE, torch.randn(2, 5, 3, 2, dtype=torch.float64) * 1.5)),
    ],
    "reductions": [
        (lambda x: (x.histc(5), x.histc(4, -1, 1), x.new_zeros(9).histc(3), x[0, 0].histc(3, 0.5, 0.5)), (X,)),
        (lambda x: (x.sum(), x.mean((0, 2)), x.prod(1), x.amax(1), x.amin((0, 1), True), x.max(), x.min()), (X,)),
        (lambda x: (*x.max(1), *x.min(2, True), x.argmax(), x.argmin(1), x.any(1), x.all(), x.count_nonzero(1)), (WORD,)),
        (lambda x: (x.var(), x.var(1, correction=0), x.std((0, 2)), *torch.var_mean(x, 1), x.logsumexp(2)), (X,)),
        (lambda x: (x.norm(), x.norm(1, 2), torch.linalg.vector_norm(x, math.inf, 1), x.cumsum(1), x.cumprod(2)), (X,)),
        (lambda x: (x.softmax(1), x.log_softmax(2), F.softmin(x, 0), F.normalize(x, dim=1)), (X,)),
        (lambda x, w: (x.sum(1), x.cumsum(0), w.sum(), w.float().mean()), (FLAG, WORD)),
        (lambda x: (x.max(1)[0], x.cummax(1)[0], x.cummin(2)[0]), (X,)),
    ],
    "products": [
        (lambda x, y: (x @ y.mT, x[0] @ y[1, 0], torch.dot(x[0, 0], y[0, 0]), torch.bmm(x, y.mT), torch.mv(x[0], y[0, 0])),
         (X, Y)),
        (lambda x, y, w: F.bilinear(x, y[..., :3], w), (X, Y, torch.randn(4, 7, 3, dtype=torch.float64))),
        (lambda x, y: (torch.addmm(x[0, :, :3], x[1], y[0, :3].t()), torch.inner(x, y[0]), torch.outer(x[0, 0], y[0, 0])),
         (X, Y)),
        (lambda x, n: (torch.outer(x[0, 0].float(), x[0, 1]), torch.outer(n[0, 0], x[0, 0]), torch.outer(n[0, 0] > 0, n[0, 1])),
         (X, WORD)),
        (lambda x, y: (torch.einsum("bij,bkj->bik", x, y), torch.tensordot(x, y, ([0, 2], [0, 2])), torch.cdist(x, y)),
         (X, Y)),
        (lambda x, w: (F.conv2d(x, w, padding="same"), F.conv2d(x, w, stride=2, padding=1), F.conv1d(x[:, :, 0], w[:, :, 0])),
         (IMAGE, torch.randn(4, 4, 3, 2, dtype=torch.float64))),
        (lambda x, w: (F.conv_transpose2d(x, w, stride=2, output_padding=1), F.conv_transpose1d(x[:, :, 0], w[:, :, 0])),
         (IMAGE, torch.randn(4, 4, 3, 2, dtype=torch.float64))),
        (lambda x, y: F.scaled_dot_product_attention(x[None], y[None], y[None]), (X, Y)),
        (lambda x: (F.unfold(x, (3, 2), 2, (1, 0), (2, 1)), F.unfold(x[0], 2, stride=3), F.unfold(x, (1, 8))), (IMAGE,)),
        (lambda x: (F.pdist(x[0]), F.pdist(x[0], 1.0), F.fold(x[:2].reshape(10, 7)[:9, :6], (3, 4), (3, 3), padding=(1, 1),
                                                               stride=(1, 2))), (X,)),
    ],
    "windows": [
        (lambda x: (F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2, ceil_mode=True), F.max_pool1d(x[0], 2)), (IMAGE,)),
        (lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, True, False), F.avg_pool1d(x[0], 2)), (IMAGE,)),
        (lambda x: (F.adaptive_avg_pool2d(x, (4, 3)), F.adaptive_avg_pool2d(x, 1), F.adaptive_max_pool2d(x, 2)),
         (IMAGE,)),
        (lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, (5, 5), mode="nearest-exact")), (IMAGE,)),
        (lambda x: (F.interpolate(x, scale_factor=1.5, mode="bilinear"), F.interpolate(x, (5, 5), mode="bicubic")),
         (IMAGE,)),
        (lambda x: F.interpolate(x, (11, 4), mode="bilinear", align_corners=True), (IMAGE,)),
    ],
    "norms": [
        (lambda x: (F.layer_norm(x, (5, 7)), F.rms_norm(x, (7,)), F.group_norm(x, 5), F.instance_norm(x)), (X,)),
        (lambda x: F.batch_norm(x, None, None, training=True), (X,)),
        (lambda x: F.local_response_norm(x, 3), (IMAGE,)),
    ],
}  # fmt: skip


@pytest.mark.parametrize("group", GROUPS)
def test_operators_are_what_torch_has(group: str) -> None:
    calls = [(function, args, {}) for function, args in GROUPS[group]]
    assert list(differences(calls, 1e-6)) == []


PORTIONS = 24  # of the operators that torch has samples of: each is a test, so that a run may be cut short and go on
DTYPES = (torch.float32, torch.int64, torch.bool)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("portion", range(PORTIONS))
def test_samples_of_torch_are_right_or_refused(portion: int, dtype: Any) -> None:
    """torch's own samples of its operators: none is wrong. What is covered is printed."""
    counts: dict[str, collections.Counter[str]] = {}
    wrong: list[str] = []
    for operator in sampled_operators()[portion::PORTIONS]:
        found = sample_outcomes(operator, dtype)
        counts.setdefault(operator.name, collections.Counter()).update(one.partition(":")[0] for one in found)
        wrong += [f"{operator.name} {dtype} {one}" for one in found if one.startswith("wrong")]
    for name, kinds in counts.items():
        print(name, dict(kinds))
    print("all", dict(sum(counts.values(), collections.Counter())))
    assert not wrong, "\n".join(wrong)
    assert any(kinds["right"] for kinds in counts.values())
