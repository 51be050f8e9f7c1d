"""How errors of operands reach results: what the entries of the table of the language are made of. Arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .roundings import FACTOR, Array, bf16_bits


def sizes(values: list[Array]) -> list[Array]:
    """Absolute values, as float64: those of the least integer too."""
    return [np.abs(value.astype(np.float64)) for value in values]


def undecided(left: Array, right: Array, error: Array) -> Array:
    """The error of a comparison: that it may come out the other way, where the difference is within the error."""
    near = np.abs(np.subtract(left, right, dtype=np.float64)) <= FACTOR * error
    return np.where(near & (error > 0), 1 / FACTOR, 0.0)


def selected(values: list[Array], errors: list[Array]) -> Array:
    """The error of a choice: where it may be the other one, that may be as far away as it is."""
    condition, yes, no = values
    chosen = np.where(condition, errors[1], errors[2])
    if not errors[0].any():
        return chosen
    apart = np.abs(np.subtract(yes, no, dtype=np.float64)) / FACTOR
    return np.where(errors[0] > 0, apart + np.maximum(errors[1], errors[2]), chosen)


def extreme_error(extreme: np.ufunc, left: Array, left_error: Array, right: Array, right_error: Array) -> Array:
    """The error of the greater or the lesser of two: what is clearly beaten does not count, however far it is off."""
    low, middle, high = (
        extreme(left + sign * FACTOR * left_error, right + sign * FACTOR * right_error) for sign in (-1, 0, 1)
    )
    return of_finite(middle, np.maximum(high - middle, middle - low) / FACTOR)


def product_error(values: list[Array], errors: list[Array]) -> Array:
    """The error of a product. An operand that is exact adds nothing, and costs nothing."""
    (a, b), (ea, eb) = values, errors
    if _is_exact(eb):
        return np.asarray(ea * np.abs(b))
    if _is_exact(ea):
        return np.asarray(eb * np.abs(a))
    return np.asarray(ea * np.abs(b) + eb * np.abs(a) + FACTOR * ea * eb)


def _is_exact(error: Array) -> bool:
    return error.ndim == 0 and not error


def divided(rest: Array, error: Array, of: Array, by: Array) -> Array:
    """The error of a quotient or a remainder of integers, which is any number up to `rest` once an operand is off."""
    return np.where(of + by > 0, rest + FACTOR * error, 0.0)


def of_finite(value: Array, error: Array) -> Array:
    """Errors where values are finite: infinities and NaN are what they are."""
    finite = np.isfinite(value)
    return error if finite.all() else np.where(finite, error, 0.0)


def stepped(step: Callable[[Array], Array], value: Array, error: Array) -> Array:
    """The error of a value rounded to whole numbers: none, where all that it may be is rounded alike."""
    low, middle, high = (step(value + sign * FACTOR * error) for sign in (-1, 0, 1))
    return np.asarray(np.maximum(high - middle, middle - low) / FACTOR)


def between(function: Callable[[Array], Array], argument: Array, error: Array, value: Array) -> Array:
    """The error of a monotonic function whose argument is so far off that its derivative does not say it."""
    low, high = (function(argument + sign * FACTOR * error) for sign in (-1, 1))
    return np.asarray(np.maximum(np.abs(high - value), np.abs(value - low)) / FACTOR)


def times(slope: Array, error: Array) -> Array:
    """An error, magnified; none stays none, however steep it is."""
    return np.where(error == 0, 0.0, slope * error)


def bf16_pair(low: Array, high: Array) -> Array:
    """Two floats, rounded to bfloat16, in the halves of an i32."""
    return (bf16_bits(low) >> np.uint32(16) | bf16_bits(high)).view(np.int32)


def bf16_half(word: Array, shift: int) -> Array:
    """The bfloat16 in one half of an i32; `shift` takes it to the upper half."""
    bits = np.asarray(word, np.int32).view(np.uint32) << np.uint32(shift) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64)


def bf16_near(value: Array) -> Array:
    """The bfloat16 next to each float, ties away from zero."""
    with np.errstate(over="ignore"):
        bits = np.asarray(value, np.float64).astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def byte_quad(*bytes_: Array) -> Array:
    """The low bytes of four i32, the first one lowest."""
    return _joined(bytes_, 8)


def half_pair(*halves: Array) -> Array:
    """The low halves of two i32, the first one lowest."""
    return _joined(halves, 16)


def signed_halves(x: Array) -> Array:
    """Both signed bytes of an i16 as halves of a word, the low one lowest."""
    both = np.asarray(x).astype(np.int16)
    return _joined((both.astype(np.int8).astype(np.int32), (both >> 8).astype(np.int32)), 16)


def half_add(x: Array, y: Array) -> Array:
    """The sums of the low halves and of the high halves of two words, modulo 2^16 each."""
    low, high = (_parts(x, "u2")[..., n] + _parts(y, "u2")[..., n] for n in (0, 1))
    return _joined((low, high), 16)


def joined_error(errors: list[Array]) -> Array:
    """Returns the error of what is exact or may be anything: integers and words of them."""
    wrong = np.zeros(())
    for error in errors:
        wrong = np.maximum(wrong, np.where(np.asarray(error) > 0, 2.0**32, 0.0))
    return wrong


def _joined(parts: tuple[Array, ...], bits: int) -> Array:
    mask = np.uint32((1 << bits) - 1)
    total = np.zeros((), np.uint32)
    for place, part in enumerate(parts):
        total = total | (np.asarray(part, np.int32).view(np.uint32) & mask) << np.uint32(bits * place)
    return np.asarray(total).view(np.int32)


def word_dot(x: Array, y: Array, left: str, right: str) -> Array:
    """The sum of the products of what two words hold, `left` and `right` being its NumPy dtypes; modulo 2^32."""
    a, b = (_parts(word, kind).astype(np.int64) for word, kind in ((x, left), (y, right)))
    return np.asarray((a * b).sum(axis=-1).astype(np.int32))


def small_word_dot(x: Array, y: Array) -> Array:
    """The sum of both sums of two products of unsigned and signed bytes, each cut to the range of 16 bits."""
    return np.asarray(_cut_pairs(x, y).sum(axis=-1).astype(np.int32))


def pair_sums(x: Array, y: Array) -> Array:
    """The same sums side by side, as halves of a word."""
    pairs = _cut_pairs(x, y)
    return _joined((pairs[..., 0], pairs[..., 1]), 16)


def _cut_pairs(x: Array, y: Array) -> Array:
    """[..., 2] sums of two products of unsigned and signed bytes, cut to the range of 16 bits."""
    products = _parts(x, "u1").astype(np.int64) * _parts(y, "i1")
    return np.asarray(np.clip(products[..., 0::2] + products[..., 1::2], -(1 << 15), (1 << 15) - 1))


def _parts(word: Array, kind: str) -> Array:
    """[..., elements of a word]"""
    whole = np.asarray(word, np.int32)
    return np.ascontiguousarray(whole).reshape(*whole.shape, 1).view(kind)


def bf16_dot(x: Array, y: Array) -> Array:
    """The sum of the products of both halves, each a bfloat16."""
    return np.asarray(bf16_half(x, 16) * bf16_half(y, 16) + bf16_half(x, 0) * bf16_half(y, 0))


def bf16_dot_error(x: Array, y: Array) -> Array:
    """Bounds the error of two products and their sum in float32."""
    parts = [np.abs(bf16_half(x, shift) * bf16_half(y, shift)) for shift in (16, 0)]
    total = parts[0] + parts[1]
    return np.where(np.isfinite(total), total * 2.0**-23, 0.0)


def bf16_even(value: Array) -> Array:
    """The bfloat16 next to each float, ties to even."""
    return bf16_bits(value).view(np.float32).astype(np.float64)


def bf16_error(value: Array, error: Array, rounded: Callable[[Array], Array] = bf16_even) -> Array:
    """Says how far a value that is off by `error` may be from the true one after both are rounded to bfloat16: rounding is
    monotonic, so the ends of the interval say it. Nothing while they round alike."""
    low, middle, high = (rounded(x) for x in (value - error, value, value + error))
    bound = np.maximum(high - middle, middle - low)
    return np.where(np.isfinite(bound), bound, 0.0)


def bf16_word_error(value: Array, error: Array) -> Array:
    """The same where numbers below the least normal one may become zero."""
    least = float(np.finfo(np.float32).tiny)
    return bf16_error(value, error) + np.where(np.abs(value) < least + error, least, 0.0)
