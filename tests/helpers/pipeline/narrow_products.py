"""Sums of products of bytes, of halves and of bfloat16, at sizes that nothing divides."""

from __future__ import annotations


def product(a: str, b: str, m: int = 21, n: int = 37, k: int = 43, kind: str = "input") -> str:
    """C = A B of elements of two types, in the type that their sums have."""
    wide = "f32" if a == "bf16" else "i32"
    return f"""
        input A: {a}[{m}, {k}]
        {kind} B: {b}[{k}, {n}]
        C[i: {m}, j: {n}] = sum[k: {k}]({wide}(A[i, k]) * {wide}(B[k, j]))
        return C
        """


PROGRAMS = {
    "u8 s8": product("u8", "i8"),
    "s8 u8": product("i8", "u8", k=40),
    "s8 s8": product("i8", "i8", n=32, kind="constant"),
    "u8 u8": product("u8", "u8", k=33),
    "s16 s16": product("i16", "i16", k=41),
    "s16 u8": product("i16", "u8", kind="constant"),
    "bf16": product("bf16", "bf16"),
    "bf16, constant": product("bf16", "bf16", k=64, kind="constant"),
    "transposed": """
        input A: u8[40, 19]
        input B: i8[33, 40]
        C[i: 19, j: 33] = sum[k: 40](i32(A[k, i]) * i32(B[j, k]))
        return C
        """,
    "batch": """
        input A: i8[3, 20, 40]
        input B: i8[3, 40, 33]
        C[b: 3, i: 20, j: 33] = sum[k: 40](i32(A[b, i, k]) * i32(B[b, k, j]))
        return C
        """,
    "requantised": """
        input A: u8[33, 64]
        constant B: i8[64, 50]
        constant scale: f32[50]
        constant bias: i32[50]
        C[i: 33, j: 50] = sum[k: 64](i32(A[i, k]) * i32(B[k, j]))
        D[i: 33, j: 50] = u8(min(max(round(f32(C[i, j] + bias[j]) * (scale[j] * 0.001)) + 3, 0), 255))
        return D
        """,
    "bf16, with an epilogue": """
        input A: bf16[33, 64]
        constant B: bf16[64, 50]
        input bias: bf16[50]
        C[i: 33, j: 50] = sum[k: 64](f32(A[i, k]) * f32(B[k, j]))
        D[i: 33, j: 50] = bf16(max(C[i, j] + f32(bias[j]), 0))
        return D
        """,
    "colours": """
        input X: u8[3, 21, 22]
        constant W: i8[24, 3, 3, 3]
        Y[p: 10, q: 11, o: 24] = sum[c: 3, r: 3, s: 3](
            i32(select(2 * q + s >= 1, X[c, 2 * p + r, 2 * q + s - 1], 125)) * i32(W[o, c, r, s]))
        return Y
        """,
    "four bits in groups": """
        input x: i8[5, 192]
        input zero: i32[5]
        constant w: u8[40, 96]
        constant s: f32[40, 3]
        Q[j: 40, k: 192] = i8(select(k % 2 == 0, i32(w[j, k // 2]) % 16, i32(w[j, k // 2]) // 16) - 8)
        G[g: 3, i: 5, j: 40] = sum[k: 64](i32(x[i, 64 * g + k]) * i32(Q[j, 64 * g + k]))
        W[g: 3, j: 40] = sum[k: 64](i32(Q[j, 64 * g + k]))
        C[i: 5, j: 40] = sum[g: 3](f32(G[g, i, j] - zero[i] * W[g, j]) * s[j, g])
        return C
        """,
    "window": """
        input X: u8[9, 21, 32]
        constant W: i8[3, 3, 32, 24]
        Y[p: 7, q: 19, o: 24] = sum[r: 3, s: 3, c: 32](i32(X[p + r, q + s, c]) * i32(W[r, s, c, o]))
        return Y
        """,
    "window with a border": """
        input X: i8[32, 9, 21]
        constant W: i8[24, 32, 3, 3]
        Y[o: 24, p: 9, q: 21] = sum[c: 32, r: 3, s: 3](
            i32(select(p + r >= 1 and p + r < 10 and q + s >= 1 and q + s < 22, X[c, p + r - 1, q + s - 1], 0))
            * i32(W[o, c, r, s]))
        return Y
        """,
    "bf16 window with a border, channels last": """
        input X: bf16[9, 21, 32]
        constant W: bf16[3, 3, 32, 24]
        Y[p: 9, q: 21, o: 24] = sum[r: 3, s: 3, c: 32](
            f32(select(p + r >= 1 and p + r < 10 and q + s >= 1 and q + s < 22, X[p + r - 1, q + s - 1, c], 0))
            * f32(W[r, s, c, o]))
        Z[p: 9, q: 21, o: 24] = bf16(max(Y[p, q, o], 0))
        return Z
        """,
    "window with signs": """
        input X: i8[32, 9, 37]
        constant W: i8[24, 32, 3, 3]
        Y[o: 24, p: 4, q: 18] = sum[c: 32, r: 3, s: 3](i32(X[c, 2 * p + r, 2 * q + s]) * i32(W[o, c, r, s]))
        return Y
        """,
}
