"""Kernels by hand, as users write them: what the language is like, and what its tests run."""

# ruff: noqa: E741  as the field writes matrices and sums

from typing import Any

from ge.lowering.building import tile_kernels as tile
from ge.lowering.building.tile_kernels import (
    cast,
    ceil_div,
    columns,
    exp,
    maximum,
    rowmax,
    rowsum,
    sqrt,
    where,
)

MIN = float("-inf")


@tile.kernel(M=128, N=256, K=128)
def gemm(c: Any, a: Any, b: Any, out: Any, M: int, N: int, K: int) -> None:
    """out = relu(a b)"""
    A, B, C = c.l1(M, K, copies=2), c.l1(K, N, copies=2), c.l0c(M, N)
    across = ceil_div(b.shape[1], N)
    for i in c.share(ceil_div(a.shape[0], M) * across):
        m, n = i // across * M, i % across * N
        for k in c.range(ceil_div(a.shape[1], K)):
            c.load(A[k], a[m:, k * K :], pad=0)
            c.load(B[k], b[k * K :, n:], pad=0)
            c.mmad(C, A[k], B[k], init=k == 0)
        c.store(out[m:, n:], C, relu=True)


@tile.kernel(parts=4)
def split_k(c: Any, a: Any, b: Any, out: Any, parts: int) -> None:
    """a b, the sums' terms shared by cores: partial sums in a workspace, added in their order."""
    (M, K), N = a.shape, b.shape[1]
    k, own = K // parts, c.workspace(parts, M, N, dtype="f32")
    A, B, acc = c.l1(M, k), c.l1(k, N), c.l0c(M, N)
    for i in c.share(parts):
        c.mmad(acc, c.load(A, a[0:, i * k :]), c.load(B, b[i * k :]), init=True)
        c.store(own[i, 0:, 0:], acc)
    c.barrier()
    rows = M // parts // c.split()
    total, part = c.ub(rows, N, "f32"), c.ub(rows, N, "f32")
    for i in c.share(parts):
        row = (i * c.parts + c.part) * rows
        c.load(total, own[0, row:, 0:])
        for p in c.range(1, parts):
            total[:] = total + c.load(part, own[p, row:, 0:])
        c.store(out[row:], total)


@tile.kernel(M=16, epsilon=1e-6)
def rms_norm(c: Any, x: Any, weight: Any, out: Any, M: int, epsilon: float) -> None:
    """out = x / sqrt(mean(x * x) + epsilon) * weight, for each row"""
    N = x.shape[1]
    w, t, f, s = c.ub(1, N), c.ub(M, N, copies=2), c.ub(M, N, "f32"), c.ub(M, 1, "f32")
    c.load(w, weight[0:])
    for i in c.share(ceil_div(x.shape[0], M)):
        c.load(t[i], x[i * M :], pad=1)
        f[:] = cast(t[i], "f32")
        s[:] = rowsum(f * f)
        t[i] = cast(f / sqrt(s / N + epsilon) * cast(w, "f32"), x.dtype)
        c.store(out[i * M :], t[i])


@tile.kernel(M=64)
def conv3x3(c: Any, x: Any, w: Any, out: Any, M: int) -> None:
    """out[h, w] = the 3x3 window of x (padded, channels last) from (h, w) on, times w"""
    C, O = w.shape[1:]
    A, B, acc = c.l1(M, C, copies=2), c.l1(C, O, copies=2), c.l0c(M, O)
    across = ceil_div(out.shape[1], M)
    for i in c.share(out.shape[0] * across):
        row, col = i // across, i % across * M
        for t in c.range(9):
            c.load(A[t], x[row + t // 3, col + t % 3 :, 0:], pad=0)
            c.load(B[t], w[t, 0:, 0:])
            c.mmad(acc, A[t], B[t], init=t == 0)
        c.store(out[row, col:, 0:], acc)


@tile.kernel(M=64, N=128, K=64)
def w4a16(c: Any, a: Any, w: Any, scale: Any, out: Any, M: int, N: int, K: int) -> None:
    """out = a (w * scale): codes of 4 or 8 bits, scales for each column of each K rows"""
    A, B, C = c.l1(M, K, copies=2), c.l1(K, N, copies=2), c.l0c(M, N)
    codes, floats, s = c.ub(K, N, w.dtype, copies=2), c.ub(K, N, copies=2), c.ub(1, N, copies=2)
    weights, across = c.queue(floats, 2), ceil_div(w.shape[1], N)
    for i in c.share(ceil_div(a.shape[0], M) * across):
        m, n = i // across * M, i % across * N
        for k in c.range(ceil_div(a.shape[1], K)):
            c.load(codes[k], w[k * K :, n:], pad=0)
            c.load(s[k], scale[k, n:], pad=1)
            floats[k] = cast(codes[k], a.dtype) * s[k]
            weights.push(floats[k])
            c.mmad(C, c.load(A[k], a[m:, k * K :], pad=0), weights.pop(B[k]), init=k == 0)
        c.store(out[m:, n:], C)


@tile.kernel(M=64, N=128, ahead=1, scale=0.125)
def flash(c: Any, q: Any, k: Any, v: Any, o: Any, M: int, N: int, ahead: int, scale: float) -> None:
    """o = softmax(q k^T * scale) v, one head; the cube is `ahead` blocks of keys ahead"""
    D, blocks, F, H = q.shape[1], k.shape[0] // N, "f32", M // c.split()
    Q, K, V, P = c.l1(M, D), c.l1(N, D, copies=2), c.l1(N, D, copies=2), c.l1(M, N, copies=2)
    S, U, s, p = c.l0c(M, N), c.l0c(M, D), c.ub(H, N, F), c.ub(H, N)
    u, acc = c.ub(H, D, F), c.ub(H, D, F)
    l, m, g = c.ub(H, 1, F), c.ub(H, 1, F, copies=2), c.ub(H, 1, F, copies=ahead + 1)
    scores, weights, sums = c.queue(s, ahead + 1), c.queue(p, ahead + 1), c.queue(u, 2)
    for i in c.share(q.shape[0] // M):
        c.load(Q, q[i * M :])
        m[-1], l[:], acc[:] = MIN, 0, 0
        for j in c.range(blocks + ahead):
            with c.when(j < blocks):
                c.mmad(S, Q, c.load(K[j], k[j * N :]).T, init=True)
                scores.send(S, s)
                m[j] = maximum(m[j - 1], rowmax(s) * scale)
                g[j] = exp(m[j - 1] - m[j])
                s[:] = exp(s * scale - m[j])
                l[:] = l * g[j] + rowsum(s)
                p[:] = cast(s, q.dtype)
                weights.push(p)
            with c.when(j >= ahead):
                b = j - ahead
                c.mmad(U, weights.pop(P[b]), c.load(V[b], v[b * N :]), init=True)
                sums.send(U, u)
                acc[:] = acc * g[b] + u
        acc[:] = acc / l
        c.store(o[i * M + c.part * H :], acc)


@tile.kernel(M=128, N=256, K=128)
def grouped_gemm(c: Any, a: Any, w: Any, expert: Any, out: Any, M: int, N: int, K: int) -> None:
    """out = a w[expert]: rows that one expert has stand together, in blocks of M"""
    A, B, C = c.l1(M, K, copies=2), c.l1(K, N, copies=2), c.l0c(M, N)
    across = ceil_div(w.shape[2], N)
    for i in c.share(expert.shape[0] * across):
        m, n = i // across, i % across * N
        e = c.read(expert[m], below=w.shape[0])
        for k in c.range(ceil_div(a.shape[1], K)):
            c.load(A[k], a[m * M :, k * K :], pad=0)
            c.load(B[k], w[e, k * K :, n:], pad=0)
            c.mmad(C, A[k], B[k], init=k == 0)
        c.store(out[m * M :, n:], C)


@tile.kernel(M=128, N=256, K=128)
def ragged_gemm(c: Any, a: Any, w: Any, offsets: Any, out: Any, M: int, N: int, K: int) -> None:
    """out = a w[e] for the rows from offsets[e] to offsets[e + 1]: groups of any numbers of rows"""
    A, B, C = c.l1(M, K, copies=2), c.l1(K, N, copies=2), c.l0c(M, N)
    across = ceil_div(w.shape[2], N)
    for i in c.share(w.shape[0] * across):
        e, n = i // across, i % across * N
        low, high = (c.read(offsets[e + j], below=a.shape[0] + 1, ascending=True) for j in (0, 1))
        for b in c.range(ceil_div(high - low, M)):
            for k in c.range(ceil_div(a.shape[1], K)):
                c.load(A[k], a[low + b * M : high, k * K :], pad=0)
                c.load(B[k], w[e, k * K :, n:], pad=0)
                c.mmad(C, A[k], B[k], init=k == 0)
            c.store(out[low + b * M : high, n:], C)


@tile.kernel(M=16, ahead=1, scale=0.125)
def paged_decode(
    c: Any,
    q: Any,
    k: Any,
    v: Any,
    table: Any,
    lengths: Any,
    o: Any,
    M: int,
    ahead: int,
    scale: float,
) -> None:
    """o = softmax(q k^T * scale) v for one query a sequence, whose keys and values are in the pages
    that `table` names; heads that share keys are rows of a tile, q[sequence, key head, head]"""
    (batch, heads, _, D), (pages, P, _, _), F = q.shape, k.shape, "f32"
    most, H = table.shape[1], M // c.split()
    Q, K, V, W = c.l1(M, D), c.l1(P, D, copies=2), c.l1(P, D, copies=2), c.l1(M, P, copies=2)
    S, U, s, p = c.l0c(M, P), c.l0c(M, D), c.ub(H, P, F), c.ub(H, P)
    u, acc = c.ub(H, D, F), c.ub(H, D, F)
    l, m, g = c.ub(H, 1, F), c.ub(H, 1, F, copies=2), c.ub(H, 1, F, copies=ahead + 1)
    scores, weights, sums = c.queue(s, ahead + 1), c.queue(p, ahead + 1), c.queue(u, 2)
    for i in c.share(batch * heads):
        b, h = i // heads, i % heads
        n = c.read(lengths[b], below=most * P + 1, least=1)
        c.load(Q, q[b, h], pad=0)
        m[-1], l[:], acc[:] = MIN, 0, 0
        for j in c.range(ceil_div(n, P) + ahead):
            with c.when(j < ceil_div(n, P)):
                page = c.read(table[b, j], below=pages)
                c.mmad(S, Q, c.load(K[j], k[page, 0:, h, 0:]).T, init=True)
                scores.send(S, s)
                s[:] = where(columns(P, j * P - n) < 0, s * scale, MIN)
                m[j] = maximum(m[j - 1], rowmax(s))
                g[j] = exp(m[j - 1] - m[j])
                s[:] = exp(s - m[j])
                l[:] = l * g[j] + rowsum(s)
                p[:] = cast(s, q.dtype)
                weights.push(p)
            with c.when(j >= ahead):
                before = j - ahead
                page = c.read(table[b, before], below=pages)
                c.load(V[before], v[page, 0:, h, 0:])
                c.mmad(U, weights.pop(W[before]), V[before], init=True)
                sums.send(U, u)
                acc[:] = acc * g[before] + u
        acc[:] = acc / l
        c.store(o[b, h, c.part * H :], acc)
