"""ONNX's normalisation."""

from __future__ import annotations

from ....tensor import build
from ....tensor.build import compute, reduce_axis
from ....tensor.expr import Expr
from ....tensor.ops.window import all_of
from ....tensor.precision import precise
from ....tensor.program import Tensor
from ...functions import normalisation, reductions
from ...functions.elementwise import cast, mapped
from ...functions.function import function
from ...functions.shape import reshape
from .registry import Node, onnx


@onnx("BatchNormalization")
def batch_norm(node: Node) -> Tensor | tuple[Tensor, ...]:
    """By given moments; in training by those of the batch, and the running ones moved towards these."""
    x, gamma, beta, mean, variance = (node.tensor(place) for place in range(5))
    epsilon = node.real("epsilon", 1e-5)
    if not node.integer("training_mode"):
        return normalisation.batch_norm(x, mean, variance, gamma, beta, epsilon)
    own_mean, own_variance = normalisation.batch_moments(x)
    momentum = node.real("momentum", 0.9)
    moved = [
        mapped(lambda a, b: a * momentum + b * (1 - momentum), old, cast(new, old.dtype))
        for old, new in ((mean, own_mean), (variance, own_variance))
    ]
    return normalisation.batch_norm(x, own_mean, own_variance, gamma, beta, epsilon), *moved


@onnx("InstanceNormalization")
def instance_norm(node: Node) -> Tensor:
    """Each channel of each image"""
    x = node.tensor(0)
    flat = reshape(x, [*x.shape[:2], -1])
    made = normalisation.group_norm(flat, x.shape[1], node.tensor(1), node.tensor(2), node.real("epsilon", 1e-5))
    return reshape(made, x.shape)


@onnx("GroupNormalization")
def group_norm(node: Node) -> Tensor:
    """Groups of channels; before opset 21 scale and bias are of groups."""
    x, groups = node.tensor(0), node.integer("num_groups", 1)
    gamma, beta = node.tensor(1), node.tensor(2)
    each = x.shape[1] // groups
    if node.version < 21 and each > 1:
        from ...functions.shape import repeat_each

        gamma, beta = repeat_each(gamma, each, 0), repeat_each(beta, each, 0)
    flat = reshape(x, [*x.shape[:2], -1])
    return reshape(normalisation.group_norm(flat, groups, gamma, beta, node.real("epsilon", 1e-5)), x.shape)


@onnx("LayerNormalization")
def layer_norm(node: Node) -> Tensor | tuple[Tensor, ...]:
    """Over the axes from one on; mean and 1 / deviation too, where they are used."""
    x, axis, epsilon = node.tensor(0), node.axis(-1), node.real("epsilon", 1e-5)
    over = len(x.shape) - axis
    gamma, beta = (_shaped(node.maybe(place), x.shape[axis:]) for place in (1, 2))
    made = normalisation.layer_norm(x, over, gamma, beta, epsilon)
    if not node.wants(1) and not node.wants(2):
        return made
    axes = list(range(axis, len(x.shape)))
    wide = mapped(precise, x)
    scale = mapped(lambda v: build.rsqrt(v + epsilon), reductions.variance(wide, axes, True, 0))
    return made, reductions.mean(wide, axes, True), scale


def _shaped(t: Tensor | None, to: tuple[int, ...]) -> Tensor | None:
    """A parameter that may broadcast, in the shape of what is normalised."""
    from ...functions.shape import expand

    return t if t is None or t.shape == to else expand(t, to)


@onnx("RMSNormalization", "SimplifiedLayerNormalization")
def rms_norm(node: Node) -> Tensor:
    """By the mean square over the axes from one on"""
    x, axis = node.tensor(0), node.axis(-1)
    gamma = node.tensor(1)
    made = normalisation.rms_norm(x, len(x.shape) - axis, gamma, node.real("epsilon", 1e-5))
    return cast(made, gamma.dtype)


@onnx("LpNormalization")
def lp_norm(node: Node) -> Tensor:
    """x / norm of x along an axis; 0 where that is 0."""
    x, axis, order = node.tensor(0), node.axis(-1), node.integer("p", 2)
    size = reductions.norm(x, order, axis, True)

    def body(a: Expr, n: Expr) -> Expr:
        return build.select(n.equal(0), build.literal(0, a.dtype), a / n)

    return mapped(body, x, size)


@onnx("LRN")
@function
def local_response_norm(node: Node) -> Tensor:
    """x / (bias + alpha / size * sum of squares of channels around)^beta"""
    x, size = node.tensor(0), node.integer("size")
    alpha, beta, bias = node.real("alpha", 1e-4), node.real("beta", 0.75), node.real("bias", 1.0)
    before, channels = (size - 1) // 2, x.shape[1]
    k = reduce_axis(size, "k")

    def squares(*i: Expr) -> build.Reduction:
        place = i[1] + k - before
        value = precise(x[(i[0], place, *i[2:])])
        inside = all_of([place >= 0, place < channels])
        return build.sum(build.select(inside, value * value, build.literal(0, value.dtype)), k)

    sums = compute(x.shape, squares, name="squares")
    return compute(
        x.shape,
        lambda *i: (precise(x[i]) / build.power(sums[i] * (alpha / size) + bias, beta)).cast(x.dtype),
        name="out",
    )


@onnx("MeanVarianceNormalization")
def mean_variance_norm(node: Node) -> Tensor:
    """(x - mean) / deviation over axes"""
    x, axes = node.tensor(0), node.ints("axes") or [0, 2, 3]
    wide = mapped(precise, x)
    mean = reductions.mean(wide, axes, True)
    deviation = mapped(build.sqrt, reductions.variance(wide, axes, True, 0))
    return cast(mapped(lambda a, m, d: (a - m) / (d + 1e-9), wide, mean, deviation), x.dtype)
