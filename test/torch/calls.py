"""Calls of PyTorch's ops, by subject, one a line: a model computes by ge what eager computes,
whichever arguments a call has. The names in them are those of `TENSORS`."""

import torch

TENSORS = {
    "x": torch.linspace(-3, 3, 2 * 4 * 9 * 8).sin().mul(7).frac().mul(3).reshape(2, 4, 9, 8),
    "s": torch.linspace(-2, 2, 3 * 4 * 10).cos().mul(9).frac().reshape(3, 4, 10),
    "v": torch.linspace(-1, 1, 2 * 2 * 6 * 5 * 4).mul(40).sin().reshape(2, 2, 6, 5, 4),
    "m": torch.linspace(-4, 4, 35).mul(3).sin().mul(2.5).reshape(5, 7),
    "k": torch.linspace(2, -2, 35).mul(5).cos().reshape(7, 5),
    "w": torch.linspace(-1, 1, 8 * 4 * 9).mul(30).sin().reshape(8, 4, 3, 3),
    "g": torch.linspace(0.5, 1.5, 4),  # of channels
    "h": torch.linspace(-1, 1, 4),
    "r": torch.tensor([2.0, -0.5, 0.5, 1.5, 2.5, -1.5, -2.5, 0.0, -0.0, 7.25]),
    "e": torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 0.0, -2.0]),
    "d": torch.linspace(-2, 2, 12, dtype=torch.float64).reshape(3, 4),
    "t": torch.tensor([[3.0, 1.0, 1.0, 2.0], [2.0, 2.0, 2.0, 2.0], [-1.0, 0.0, -1.0, 0.0]]),  # ties
    "n": torch.tensor([[7, -7, 5, -5], [3, -3, 0, 9], [1, -1, 2, -8]]),
    "o": torch.tensor([[2, 2, -2, -2], [-2, 2, 5, -4], [3, 3, -3, 3]]),
    "i": torch.tensor([[0, 2, 1, 0], [1, 1, 0, 2], [2, 0, 0, 1]]),
    "j": torch.tensor([2, 0, 1, 2, 4]),
    "q": torch.tensor([-1, 0, -2]),
    "z": torch.tensor([1, 3, 1, 2, -100]),  # classes, one of them ignored
    "c": torch.tensor([3, 0, 2, 1, 3]),
    "u": torch.tensor([[0, 250, 7, 9], [255, 1, 3, 128]], dtype=torch.uint8),
    "a": torch.tensor([[-128, 127, 7, -9], [5, 0, -3, 64]], dtype=torch.int8),
    "l": torch.tensor([[1, -2, 3], [40, 50, -60]], dtype=torch.int32),
    "b": torch.tensor([[True, False, True, True], [False] * 4, [True] * 4]),
    "f": torch.linspace(-3, 3, 24).reshape(2, 3, 4).half(),
    "p": torch.linspace(0.05, 0.95, 20).reshape(5, 4),  # probabilities
}

CALLS = {
    "pooling": """
F.max_pool2d(x, 3)
F.max_pool2d(x, 3, 2, 1)
F.max_pool2d(x, 3, 2, 1, ceil_mode=True)
F.max_pool2d(x, (2, 3), (1, 2), (1, 0), ceil_mode=True)
F.max_pool2d(x, 2, 1, 0, 2)
F.max_pool2d(x, 3, 2, 1, (2, 1), True)
F.max_pool2d(x, 2, return_indices=True)
F.max_pool2d(x, 3, 2, 1, return_indices=True, ceil_mode=True)
F.max_pool2d(x, 2, 2, 0, 2, return_indices=True)
F.max_pool2d(x[0], 2)
F.max_pool2d(x[0], 2, return_indices=True)
F.max_pool1d(s, 3, 2, 1)
F.max_pool1d(s, 3, 2, 1, 2, True)
F.max_pool1d(s, 2, return_indices=True)
F.max_pool3d(v, 2, 2, 1, ceil_mode=True)
F.max_pool3d(v, 2, 1, 0, 2)
F.max_pool3d(v, 2, return_indices=True)
F.max_pool2d(torch.full_like(x, -1e30), 3, 1, 1)
F.avg_pool2d(x, 3)
F.avg_pool2d(x, 3, 2, 1)
F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)
F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)
F.avg_pool2d(x, 2, 3, 1, ceil_mode=True)
F.avg_pool2d(x, (2, 3), 1, (1, 1), count_include_pad=False)
F.avg_pool2d(x, 3, 2, 1, divisor_override=2)
F.avg_pool2d(x[0], 2)
F.avg_pool1d(s, 3, 2, 1)
F.avg_pool1d(s, 3, 2, 1, ceil_mode=True)
F.avg_pool1d(s, 3, 2, 1, ceil_mode=True, count_include_pad=False)
F.avg_pool3d(v, 2, 2, 1, ceil_mode=True)
F.avg_pool3d(v, 2, 2, 1, count_include_pad=False)
F.lp_pool2d(x, 2, 3, 2)
F.lp_pool2d(x, 3, 2, ceil_mode=True)
F.lp_pool1d(s, 2, 3)
F.adaptive_avg_pool1d(s, 5)
F.adaptive_avg_pool1d(s, 3)
F.adaptive_avg_pool2d(x, 1)
F.adaptive_avg_pool2d(x, (3, 4))
F.adaptive_avg_pool2d(x, (4, 3))
F.adaptive_avg_pool2d(x, (None, 1))
F.adaptive_max_pool1d(s, 5)
F.adaptive_max_pool2d(x, 1)
F.adaptive_max_pool2d(x, (3, 4))
F.adaptive_max_pool2d(x, (3, 4), return_indices=True)
F.adaptive_max_pool3d(v, (3, 5, 2))
F.max_unpool2d(*F.max_pool2d(x[:, :, :8], 2, return_indices=True), 2)
""",
    "resizing": """
F.interpolate(x, (5, 13))
F.interpolate(x, scale_factor=2)
F.interpolate(x, scale_factor=(1.5, 0.7))
F.interpolate(x, scale_factor=1.3, recompute_scale_factor=True)
F.interpolate(x, (5, 13), mode="nearest-exact")
F.interpolate(x, scale_factor=0.45, mode="nearest-exact")
F.interpolate(x, (5, 13), mode="bilinear")
F.interpolate(x, (5, 13), mode="bilinear", align_corners=True)
F.interpolate(x, (1, 1), mode="bilinear", align_corners=True)
F.interpolate(x, scale_factor=1.3, mode="bilinear")
F.interpolate(x, scale_factor=1.3, mode="bilinear", recompute_scale_factor=True)
F.interpolate(x, scale_factor=1.3, mode="bilinear", align_corners=True)
F.interpolate(x, scale_factor=(2, 0.5), mode="bilinear")
F.interpolate(x, (5, 13), mode="bilinear", antialias=True)
F.interpolate(x, (4, 3), mode="bilinear", antialias=True, align_corners=True)
F.interpolate(x, (5, 13), mode="bicubic")
F.interpolate(x, (5, 13), mode="bicubic", align_corners=True)
F.interpolate(x, scale_factor=1.3, mode="bicubic")
F.interpolate(x, (5, 3), mode="bicubic", antialias=True)
F.interpolate(x, (5, 4), mode="area")
F.interpolate(x, (3, 4), mode="area")
F.interpolate(x, scale_factor=0.5, mode="area")
F.interpolate(s, 7)
F.interpolate(s, 7, mode="linear")
F.interpolate(s, 17, mode="linear", align_corners=True)
F.interpolate(s, scale_factor=0.7, mode="linear")
F.interpolate(v, (3, 7, 5))
F.interpolate(v, (3, 7, 5), mode="trilinear")
F.interpolate(v, (3, 7, 5), mode="trilinear", align_corners=True)
F.interpolate(v, scale_factor=1.3, mode="trilinear")
F.interpolate(u[None, None].float(), (3, 9), mode="nearest")
F.upsample(x, (18, 16), mode="bilinear")
F.pixel_shuffle(x, 2)
F.pixel_unshuffle(x[:, :, :8], 2)
F.channel_shuffle(x, 2)
F.grid_sample(x, m.reshape(-1)[:24].reshape(2, 2, 3, 2) * 0.5, align_corners=False)
F.grid_sample(x, m.reshape(-1)[:24].reshape(2, 2, 3, 2) * 0.5, align_corners=True)
F.grid_sample(x, m.reshape(-1)[:24].reshape(2, 2, 3, 2), "nearest", "border", False)
F.grid_sample(x, m.reshape(-1)[:24].reshape(2, 2, 3, 2), "bilinear", "reflection", True)
F.grid_sample(x, m.reshape(-1)[:24].reshape(2, 2, 3, 2), "bicubic", "border", False)
F.grid_sample(x, m.reshape(-1)[:24].reshape(2, 2, 3, 2), "bicubic", "zeros", True)
F.grid_sample(v, m.reshape(-1)[:24].reshape(2, 1, 2, 2, 3), align_corners=False)
F.affine_grid(m.reshape(-1)[:12].reshape(2, 2, 3), (2, 1, 4, 5), align_corners=False)
F.affine_grid(m.reshape(-1)[:12].reshape(2, 2, 3), (2, 1, 4, 5), align_corners=True)
F.unfold(x, 3, dilation=2, padding=1, stride=2)
F.unfold(x[0], (2, 3))
F.fold(s[:, :, :9], (4, 4), 2)
F.fold(torch.cat([s, s], 2)[:, :, :12], (7, 5), 2, stride=(2, 1), dilation=1)
""",
    "padding": """
F.pad(x, (1, 2, 3, 0))
F.pad(x, (1, 2), value=-1.5)
F.pad(x, (1, 2, 3, 4), mode="reflect")
F.pad(x, (1, 2, 3, 4), mode="replicate")
F.pad(x, (1, 2, 3, 4), mode="circular")
F.pad(x, (-1, 2, 1, -2))
F.pad(x, (-1, -1, -2, 0))
F.pad(s, (2, 3), mode="reflect")
F.pad(s, (2, 3), mode="circular")
F.pad(s, (9, 10), mode="circular")
F.pad(s, (-2, 3), mode="replicate")
F.pad(v, (1, 0, 2, 1, 1, 3), mode="replicate")
F.pad(v, (1, 0, 2, 1, 1, 3), mode="reflect")
F.pad(n, (1, 1), value=7)
F.pad(b, (1, 1), value=True)
torch.constant_pad_nd(m, (1, -1, 2, 0), 3)
""",
    "convolutions": """
F.conv2d(x, w, h.repeat(2), 2, 1)
F.conv2d(x, w, padding="same")
F.conv2d(x, w[:, :, :2], padding="same")
F.conv2d(x, w, padding="valid", dilation=2)
F.conv2d(x, w, padding=(2, 1), dilation=(1, 2), stride=(1, 3))
F.conv2d(x, w[:, :2], groups=2)
F.conv2d(x, w[:, :1], groups=4)
F.conv2d(x[0], w)
F.conv1d(s, w[:, :, 0], padding=2, stride=3)
F.conv1d(s, w[:, :, 0], padding="same", dilation=2)
F.conv3d(v, w.reshape(4, 2, 2, 2, 9)[..., :3], padding=1)
F.conv_transpose2d(x, w[:4], stride=2, padding=1, output_padding=1)
F.conv_transpose2d(x, w[:4], h, 2, 1, 0, 1, 2)
F.conv_transpose2d(x, w[:4, :1], stride=3, groups=4, output_padding=2, dilation=2)
F.conv_transpose1d(s, w[:4, :, 0], g, 2, 0, 1)
F.conv_transpose3d(v, w.reshape(2, 4, 2, 2, 9)[..., :3], stride=(1, 2, 2))
F.linear(m, m, r[:5])
F.bilinear(m, m[:, :5], torch.stack([m.T, m.T + 1]), r[:2])
""",
    "norms": """
F.batch_norm(x, h, g)
F.batch_norm(x, h, g, g, h, eps=0.1)
F.batch_norm(x, h * 0, g * 1, training=True)
F.batch_norm(x, h * 0, g * 1, g, h, True, 0.5, 0.01)
F.batch_norm(s, h, g, weight=g)
F.batch_norm(x, None, None, training=True)
F.instance_norm(x)
F.instance_norm(x, weight=g, bias=h, eps=0.1)
F.instance_norm(x, h, g, use_input_stats=False)
F.instance_norm(s)
F.group_norm(x, 2)
F.group_norm(x, 2, g, h, 0.1)
F.group_norm(x, 4, g)
F.group_norm(s, 2, None, h)
F.group_norm(v, 1)
F.layer_norm(x, (8,))
F.layer_norm(x, (9, 8), x[0, 0], x[1, 1], 0.1)
F.layer_norm(x, (4, 9, 8))
F.layer_norm(x, (8,), None, r[:8])
F.layer_norm(x, (8,), r[:8])
F.layer_norm(f, (4,))
F.rms_norm(x, (8,))
F.rms_norm(x, (8,), r[:8], 0.1)
F.rms_norm(x, (9, 8))
F.rms_norm(f, (4,))
F.local_response_norm(x, 3)
F.local_response_norm(x, 2, 0.1, 0.5, 2.0)
F.local_response_norm(s, 4, 0.01)
F.normalize(x)
F.normalize(x, 1.0, 2, 0.5)
F.normalize(m, float("inf"), 0)
torch.native_layer_norm(x, (8,), None, None, 1e-5)
torch.native_group_norm(x, g, h, 2, 4, 72, 2, 1e-5)
torch.renorm(m, 2, 0, 3.0)
torch.renorm(m, 1, 1, 2.0)
torch._weight_norm(m, m[:, :1].abs(), 0)
torch.ops.aten._native_batch_norm_legit.no_stats(x, g, h, True, 0.1, 1e-3)
""",
    "dropout": """
F.dropout(x, 0.5, False)
F.dropout(x, 0.0, True)
F.dropout2d(x, 0.0, True)
F.alpha_dropout(x, 0.5, False)
F.alpha_dropout(x, 0.0, True)
F.feature_alpha_dropout(x, 0.5, False)
torch.native_dropout(x, 0.5, False)
torch.native_dropout(x, 0.0, True)
F.gumbel_softmax(x * 0, dim=1).sum(1)
torch.bernoulli(torch.ones(3))
torch.bernoulli(torch.ones(3), 1.0)
""",
    "activations": """
F.gelu(x)
F.gelu(x, approximate="tanh")
F.softmax(x, 1)
F.softmax(x, -1, dtype=torch.float64)
F.softmax(f, 1, dtype=torch.float32)
F.softmax(n, 1, dtype=torch.float32)
F.log_softmax(x, 2)
F.log_softmax(f, 1, dtype=torch.float32)
F.softmin(x, 1)
F.softmax(m[0, 0], 0)
torch.softmax(torch.where(b, t, -torch.inf), 1)
torch.ops.aten._safe_softmax(torch.where(b, t, -torch.inf), 1)
F.elu(x, 0.5)
torch.ops.aten.elu(x, 0.5, 1.2, 0.7)
F.celu(x, 0.3)
F.selu(x)
F.glu(x, 1)
F.hardtanh(x, -0.3, 0.7)
F.hardsigmoid(x * 3)
F.hardswish(x * 3)
F.hardshrink(x, 0.2)
F.softshrink(x, 0.2)
F.tanhshrink(x)
F.threshold(x, 0.1, -3)
F.threshold(n, 2, -3)
F.leaky_relu(x, 0.3)
F.leaky_relu(x, -0.3)
F.prelu(x, h)
F.prelu(x, h[:1])
F.softplus(x * 9, 2, 3)
F.softplus(x * 30)
F.softsign(x)
F.silu(x)
F.mish(x)
F.logsigmoid(x * 20)
F.relu6(x * 5)
F.relu(e)
torch.relu(n)
torch.sigmoid(n)
torch.special.entr(p)
torch.special.erfcx(p)
torch.special.expit(m)
torch.special.log_ndtr(m)
torch.special.sinc(r)
F.scaled_dot_product_attention(x, x * 0.5, x)
F.scaled_dot_product_attention(x, x, x, is_causal=True)
F.scaled_dot_product_attention(x, x, x, scale=0.3)
F.scaled_dot_product_attention(x, x, x, x[:, :1, :, :1] > 0)
F.scaled_dot_product_attention(x, x[:, :2], x[:, :2], enable_gqa=True)
F.scaled_dot_product_attention(x[:, :, :3], x, x, is_causal=True)
""",
    "indexing": """
x[0]
x[:, -1]
x[..., 1:7:3]
x[:, None, :, 2]
m[j]
m[j, :][:, j]
m[j, j]
m[j[:, None], j]
m[:, j.flip(0)]
x[:, j[:3], :, j[:3]]
x[:, :, j]
x[0, j[:3], 1:5, j[:3]]
m[q]
m[m > 0].sum()
t[b].sum()
t[b.any(1)].sum(0)
torch.index_select(x, 2, j)
torch.index_select(m, -1, j)
torch.index_select(r, 0, j)
torch.gather(t, 1, i)
torch.gather(t, 0, i)
torch.gather(t, 1, i[:2, :2])
torch.take(m, n.abs())
torch.take(m, q)
torch.take_along_dim(t, i, 1)
torch.take_along_dim(t, i)
t.index_put((i[:, 0], i[:, 1]), r[:3])
t.index_put((i[:, 0], i[:, 1]), r[:1], accumulate=True)
t.index_put((j[:3],), t * 2, accumulate=True)
t.index_put((b,), torch.tensor(9.0))
t.index_put((q, q), r[:3])
t.index_add(0, j[:3], t * 2)
t.index_add(1, j[:4], t, alpha=0.5)
t.index_copy(0, j[:3], t * 2)
t.index_copy(1, j[:3], t[:, :3] * 2)
t.index_fill(1, j[:2], -7.0)
t.scatter(1, i[:, :2], t * 3)
t.scatter(0, i, 5.0)
t.scatter_add(1, i, t)
t.scatter_add(0, i[:2, :3], t)
t.scatter_reduce(0, i[:2, :3], t, "sum")
t.scatter_reduce(1, i[:2, :3], t, "mean")
t.scatter_reduce(1, i, t + 3, "sum")
t.scatter_reduce(1, i, t + 3, "sum", include_self=False)
t.scatter_reduce(1, i, t + 3, "prod")
t.scatter_reduce(1, i, t + 3, "prod", include_self=False)
t.scatter_reduce(1, i, t, "amax")
t.scatter_reduce(1, i, t, "amax", include_self=False)
t.scatter_reduce(0, i, t, "amin", include_self=False)
t.scatter_reduce(1, i, t, "mean")
t.scatter_reduce(1, i, t, "mean", include_self=False)
n.scatter_reduce(1, i, o, "prod", include_self=False)
n.scatter_reduce(1, i, o, "amax", include_self=False)
t.masked_fill(b, -2.0)
t.masked_fill(b, torch.tensor(3))
n.masked_fill(b, 2)
t.masked_scatter(b, t * 5)
torch.where(b, t, 0)
torch.where(b, n, 0.5)
torch.where(b, n, t)
torch.where(b, 1.0, 2.0)
torch.where(b, 1, 2)
torch.nonzero(b).sum(0)
torch.argwhere(t > 1).sum(0)
torch.slice_scatter(m, m[:, :2] * 9, 1, 1, 6, 3)
torch.select_scatter(m, m[0] * 9, 0, -1)
torch.diagonal(x, 1, 2, 3)
torch.diagonal(m, -2)
torch.diag(m, 1)
torch.diag(r, -1)
torch.diag_embed(t, 1)
torch.diag_embed(t, -1, 0, 2)
torch.tril(m, 1)
torch.triu(m, -1)
torch.tril(n)
torch.triu(b)
torch.tril_indices(3, 4, 1)
torch.triu_indices(4, 3, -1)
torch.unfold_copy(s, 2, 3, 2)
s.unfold(2, 4, 3)
s.unfold(1, 2, 1)
F.embedding(i, m)
F.embedding(i, m, padding_idx=1)
F.embedding_bag(i, m)
F.embedding_bag(i, m, mode="sum")
F.embedding_bag(i, m, mode="max")
F.embedding_bag(i, m, mode="sum", per_sample_weights=t)
F.embedding_bag(i, m, mode="mean", padding_idx=1)
F.embedding_bag(i.reshape(-1), m, torch.tensor([0, 2, 7]), mode="sum")
F.embedding_bag(i.reshape(-1), m, torch.tensor([0, 2, 12]), mode="mean", include_last_offset=True)
F.one_hot(i, 4)
""",
    "shapes": """
x.permute(3, 0, -2, 1)
x.movedim((0, 1), (-1, 0))
x.reshape(8, -1, 2)
x.transpose(1, 3).reshape(2, -1)
x.flatten(1, 2)
x.unflatten(3, (2, -1))
x.squeeze()
x[:1].squeeze(0)
x[:1].squeeze((0, 1))
m.expand(3, -1, 7)
m.repeat(2, 1, 2)
m.tile(2)
m.repeat_interleave(2, 0)
m.repeat_interleave(2)
m.repeat_interleave(j, 0)
torch.roll(m, 2)
torch.roll(m, (1, -2), (0, 1))
torch.roll(m, 9, 1)
torch.flip(x, (1, -1))
torch.rot90(m)
torch.rot90(x, -1, (2, 3))
torch.rot90(m, 2)
torch.cat([m, m.half()], 1)
torch.cat([n, t], 0)
torch.cat([m, torch.empty(0)], 0)
torch.cat([u, a], 1)
torch.stack([n, o], -1)
torch.stack([n, t], 1)
torch.hstack([r, r])
torch.dstack([m, m])
torch.column_stack([m, r[:5]])
torch.block_diag(m, k, r)
torch.split(m, 2)
torch.split(m, (1, 2, 2))
torch.chunk(m, 4, 1)
torch.tensor_split(m, 3, 1)
torch.tensor_split(m, (2, 4), 1)
torch.unbind(t)
torch.hsplit(m, (2, 5))
torch.meshgrid(r, r[:3], indexing="ij")
torch.meshgrid(r, r[:3], indexing="xy")
torch.cartesian_prod(r, r[:3])
torch.broadcast_tensors(m[:1], m[:, :1])
m.T.contiguous()
m.t().as_strided((2, 2), (1, 2))
m.as_strided((3, 2), (2, 1), 4)
m[1:].as_strided((3, 2), (2, 1))
m.T.as_strided((3, 3), (1, 1))
x.to(memory_format=torch.channels_last) + 1
x.contiguous(memory_format=torch.channels_last).reshape(2, -1)
m.to(torch.float16)
m.to(torch.int8)
m.to(torch.bool)
e.to(torch.bool)
n.to(torch.uint8)
n.to(torch.int8)
a.to(torch.uint8)
u.float() / 3
b.to(torch.float64)
d.float()
d.to(torch.bfloat16)
m.type_as(n)
m.new_zeros(2)
m.new_full((2,), 3, dtype=torch.int32)
torch.zeros_like(n, dtype=torch.float16)
torch.full_like(m, 2.7, dtype=torch.int64)
torch.full((2,), True)
torch.full((2, 2), 3) + n[:2, :2]
torch.scalar_tensor(3.5) + n
torch.linspace(0, 1, 5) + r[:5]
torch.linspace(0, 10, 5, dtype=torch.int64) + n[0, 0]
torch.linspace(3, -7, 6, dtype=torch.int32) + l[0, 0]
torch.linspace(1, 1, 1) + r
torch.logspace(0, 2, 4) + r[:4]
torch.logspace(0, 2, 4, base=2.0) + r[:4]
torch.arange(5) + j
torch.arange(1, 2.5, 0.3) + r[:5]
torch.arange(5, 0, -2) + q
torch.arange(0, 1, 0.1, dtype=torch.float64) + 1 + r
torch.eye(3, 4) + t
torch.hann_window(8) + x
torch.blackman_window(8) + x
torch.atleast_3d(m)
torch.swapaxes(x, 0, 2)
torch.ravel(m.T)
x.mT
x.adjoint()
x.nanmean()
m.size(0) * m
m.numel() + m
""",
    "reductions": """
x.sum()
x.sum((1, -1), True)
b.sum(1)
u.sum(1)
a.sum(1, dtype=torch.int8)
n.sum(1, dtype=torch.float32)
f.sum(1)
f.sum(dtype=torch.float32)
x.mean((2, 3))
f.mean(-1, dtype=torch.float32)
n.mean(1, dtype=torch.float32)
x.prod(2)
n.prod(1)
u.prod(1)
b.prod(1)
n.prod()
x.std()
x.std(1)
x.std((1, 2), correction=0)
x.std(1, correction=3, keepdim=True)
x.std(1, unbiased=False)
x.var((2, 3), unbiased=True, keepdim=True)
x.var(correction=0.5)
m.var(0, correction=5)
torch.var_mean(x, 1, correction=2)
torch.std_mean(x, (1, 2), unbiased=False)
torch.std_mean(x)
x.amax((1, 2))
x.amin(3, True)
x.aminmax(dim=1)
e.max()
e.min()
e[2:].max(0)
t.max(1)
t.min(0, True)
t.argmax()
t.argmax(1)
t.argmin(1, True)
t.argmax(0)
n.max(1)
b.any()
b.all(1)
n.any(1)
m.all(0)
e.any()
""",
    "arithmetic": """
n / o
n // o
n % o
n % 0.7
torch.div(n * 16777217, 1, rounding_mode="floor")
torch.div(n * 16777217, -2, rounding_mode="trunc")
torch.div(r, r * 0, rounding_mode="floor")
(r * 1e5) % 0.7
2.5 % m
n % 3
n % -3
torch.fmod(n, o)
torch.fmod(n, -3)
torch.fmod(m, k.T)
torch.fmod(m, 0.7)
torch.remainder(n, o)
torch.remainder(m, k.T)
torch.remainder(m, -0.7)
torch.remainder(3.5, k)
torch.remainder(7, n.where(n != 0, 1))
m % -0.7
torch.div(n, o)
torch.div(n, o, rounding_mode="trunc")
torch.div(n, o, rounding_mode="floor")
torch.div(n, -2, rounding_mode="trunc")
torch.div(m, k.T, rounding_mode="trunc")
torch.div(m, k.T, rounding_mode="floor")
torch.div(m, 0.3, rounding_mode="floor")
torch.div(n, 0.5, rounding_mode="floor")
torch.floor_divide(n, o)
torch.floor_divide(m, -0.7)
m // 0.3
r // 0.1
u // 3
u - 1
u * 3
u + u
a * a
a + 100
-u
-a
a.abs()
1 - u
n - 0.5
n * True
n + b
b + b
b * t
b & (n > 0)
b | b
b ^ (n > 0)
~b
~n
~u
n & o
n | 3
n ^ o
n << 2
n >> 1
u >> 1
u << 2
a >> 2
torch.bitwise_left_shift(l, 3)
torch.bitwise_right_shift(n, o.abs())
torch.logical_and(n, m[:3, :4])
torch.logical_xor(n, b)
torch.logical_not(m)
torch.add(m, m, alpha=2)
torch.add(n, n, alpha=-3)
torch.sub(m, 1, alpha=0.5)
torch.rsub(m, 2, alpha=3)
torch.addcmul(m, m, m, value=0.5)
torch.addcdiv(m, m, m + 5, value=-2)
torch.lerp(m, m * 2, 0.7)
torch.lerp(m, m * 2, m)
torch.pow(n, 2)
torch.pow(2, n.abs())
torch.pow(m.abs(), 0.5)
torch.pow(n, 0.5)
torch.pow(n.abs(), o.abs())
torch.pow(2.5, n)
torch.pow(m, 3)
torch.pow(m, -1)
torch.float_power(n, 2)
torch.square(n)
torch.sqrt(n.abs())
torch.rsqrt(m.abs())
torch.exp2(m)
torch.expm1(m)
torch.log1p(m.abs())
torch.log2(m.abs())
torch.log10(m.abs())
torch.logaddexp(m, m * 2)
torch.logaddexp2(m, m * 2)
torch.logit(p)
torch.logit(p, 0.2)
torch.xlogy(m, p.mean())
torch.xlogy(m * 0, m * 0)
torch.round(r)
torch.round(r * 3, decimals=1)
torch.round(m * 100, decimals=-1)
torch.round(n)
torch.trunc(m)
torch.fix(r)
torch.frac(r)
torch.floor(r)
torch.ceil(n)
torch.sign(e)
torch.sgn(n)
torch.signbit(r)
torch.atan2(m, k.T)
torch.ldexp(m, n[0, 1])
torch.heaviside(r, m[0, 0])
torch.clamp(m, -0.5, 0.7)
torch.clamp(m, min=0.2)
torch.clamp(m, max=m.mean())
torch.clamp(m, k.T, m[:1])
torch.clamp(m, m[0], m[1])
torch.clamp(m, 1, -1)
torch.clamp(n, 0.5, 3.7)
torch.clamp(n, -2, 3)
torch.clamp(e, -1, 1)
torch.clamp(u, 3, 200)
torch.clip(n, min=n[0])
torch.maximum(e, e.flip(0))
torch.minimum(n, o)
""",
}

# Calls of the table that nothing computes, and the op that the message names
REFUSED = {
    "F.avg_pool2d(x, 3, 2, 1, divisor_override=2)": "'divisor_override' of aten.avg_pool2d",
    'F.interpolate(x, (4, 3), mode="bilinear", antialias=True, align_corners=True)': (
        "'align_corners' of aten._upsample_bilinear2d_aa"
    ),
    "m.t().as_strided((2, 2), (1, 2))": "'self' of aten.as_strided",
    "m.T.as_strided((3, 3), (1, 1))": "'self' of aten.as_strided",
    "torch.stack([n, t], 1)": "Concat 'node_stack",
    "b + b": "Add 'node_add",
}
