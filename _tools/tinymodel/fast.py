"""The slow parts of a training step in C++ (fast.cpp), for processors with AVX-512 and
bfloat16 and where there is a compiler; model.py says the same in PyTorch."""
import ctypes
import hashlib
import pathlib
import shutil
import subprocess
import sys

import torch

SOURCE = pathlib.Path(__file__).with_name("fast.cpp")
NEEDED = {"avx512f", "avx512bw", "avx512_bf16"}
PAD = 128  # rows of an expert: the library compiles a program for every shape it meets


def load():
    """The compiled library, or None where it cannot be had."""
    try:
        flags = set(pathlib.Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split())
    except (OSError, IndexError):
        return None
    if not NEEDED <= flags or not shutil.which("g++"):
        return None
    text = SOURCE.read_bytes()
    out = SOURCE.parent / "__pycache__" / f"fast-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not out.exists():
        out.parent.mkdir(exist_ok=True)
        new = out.with_suffix(".new")
        made = subprocess.run(["g++", "-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-shared", "-fPIC", "-o", new, SOURCE], capture_output=True, text=True)
        if made.returncode:
            print(f"going on without {SOURCE.name}, which does not compile:\n{made.stderr}", file=sys.stderr)
            return None
        new.rename(out)
    return ctypes.CDLL(str(out))


LIBRARY = load()


def fits(c):
    """Whether there is the library and it is made for a model.Config of these sizes."""
    return LIBRARY is not None and c.head_dim in (32, 64) and c.hidden % 16 == 0 and c.inner % 16 == 0


def keep_memory():
    """Lets the C library keep what tensors free: getting fresh pages from the system for
    every tensor took a quarter of a step."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        for option, value in ((-4, 0), (-1, 2**31 - 1)):  # M_MMAP_MAX, M_TRIM_THRESHOLD
            libc.mallopt(option, value)


def run(name, *arguments):
    """Calls a function of fast.cpp with contiguous tensors, whole numbers and floats."""
    def native(a):
        if isinstance(a, torch.Tensor):
            assert a.is_contiguous()
            return ctypes.c_void_p(a.data_ptr())
        return ctypes.c_float(a) if isinstance(a, float) else ctypes.c_void_p(None) if a is None else ctypes.c_int64(a)
    getattr(LIBRARY, name)(*(native(a) for a in arguments))


class TreeAttention(torch.autograd.Function):
    """As model.TreeAttention, multiplied in bfloat16, with the scale and the turn of queries and keys by their positions."""

    @staticmethod
    def forward(ctx, q, k, v, sinks, cos, sin, segments, window):
        """q [N, heads, dim]; k, v [N, kv_heads, dim]; cos, sin [N, dim/2]; segments int64
        [S, 4] as the fields of model.Segment."""
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        (n, heads, dim), kv, scale = q.shape, k.shape[1], q.shape[2] ** -0.5
        qr, kr, vr = q.new_empty(kv, n, heads // kv, dim), k.new_empty(kv, n, dim), k.new_empty(kv, n, dim)
        run("turn", dim, n, heads, kv, scale, cos, sin, q, k, v, qr, kr, vr, 0)
        out, sums = torch.empty_like(q), q.new_empty(kv, n, heads // kv)
        run("attend", dim, n, heads, kv, len(segments), segments, window, sinks, qr, kr, vr, out, sums)
        ctx.save_for_backward(qr, kr, vr, sinks, cos, sin, segments, out, sums)
        ctx.window = window
        return out

    @staticmethod
    def backward(ctx, gradient):
        qr, kr, vr, sinks, cos, sin, segments, out, sums = ctx.saved_tensors
        (n, heads, dim), kv = out.shape, kr.shape[0]
        dqr, dkr, dvr, dsinks = torch.empty_like(qr), torch.zeros_like(kr), torch.zeros_like(vr), torch.zeros_like(sinks)
        run("attend_back", dim, n, heads, kv, len(segments), segments, ctx.window, sinks, qr, kr, vr, out, sums, gradient.contiguous(), dqr, dkr, dvr, dsinks)
        dq, dk, dv = torch.empty_like(out), kr.new_empty(n, kv, dim), kr.new_empty(n, kv, dim)
        run("turn", dim, n, heads, kv, dim ** -0.5, cos, sin, dq, dk, dv, dqr, dkr, dvr, 1)
        return dq, dk, dv, dsinks, None, None, None, None


class Norm(torch.autograd.Function):
    """Root mean square norm of x [N, width]."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        x = x.contiguous()
        y, scale = torch.empty_like(x), x.new_empty(len(x))
        run("norm", *x.shape, eps, x, weight, scale, y)
        ctx.save_for_backward(x, weight, scale)
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, weight, scale = ctx.saved_tensors
        dx, dweight = torch.empty_like(x), torch.zeros_like(weight)
        run("norm_back", *x.shape, x, weight, scale, gradient.contiguous(), dx, dweight)
        return dx, dweight, None


class CrossEntropy(torch.autograd.Function):
    """The mean over rows; overwrites the logits."""

    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits)
        return losses(logits, target).mean()

    @staticmethod
    def backward(ctx, gradient):
        return ctx.saved_tensors[0].mul_(gradient), None


def losses(logits, target):
    """Of each row; the logits become the gradients of their mean."""
    out = logits.new_empty(len(logits))
    run("cross_entropy", *logits.shape, target, logits, out)
    return out


class Linear(torch.autograd.Function):
    """x w^T + b, multiplied in bfloat16."""

    @staticmethod
    def forward(ctx, x, w, b):
        x, w, n = half(x), w.bfloat16(), len(x)
        y, out = x @ w.mT, b.new_empty(n, len(b))
        run("widen", n, len(b), y, b, out)
        ctx.save_for_backward(x, w)
        return out

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        g, n = half(gradient), len(gradient)
        dx, y = gradient.new_empty(n, x.shape[1]), g @ w
        run("widen", n, x.shape[1], y, gradient.new_zeros(x.shape[1]), dx)
        return dx, (g.mT @ x).float(), gradient.sum(0)


def half(x):
    """x in bfloat16 with rows of zeros up to a multiple of PAD."""
    n = -(-len(x) // PAD) * PAD
    row = torch.arange(n)
    row[len(x):] = -1
    out = torch.empty(n, x.shape[1], dtype=torch.bfloat16)
    run("gather", n, x.shape[1], row, x.contiguous(), out)
    return out


class Experts(torch.autograd.Function):
    """The weighted sum of what the chosen experts make of x, multiplied in bfloat16."""

    @staticmethod
    def forward(ctx, x, ids, weights, up, up_bias, down, down_bias, alpha, limit):
        """x [N, hidden]; ids, weights [N, top_k]"""
        (n, hidden), (experts, two, _), top = x.shape, up.shape, ids.shape[1]
        x, up, down = x.contiguous(), up.bfloat16(), down.bfloat16()
        flat = ids.flatten()
        order, counts = flat.argsort(stable=True), torch.bincount(flat, minlength=experts)
        sizes = (counts + PAD - 1) // PAD * PAD
        ends, starts = sizes.cumsum(0), counts.cumsum(0) - counts
        total = int(ends[-1])
        place = torch.empty_like(flat)
        place[order] = (ends - sizes - starts)[flat[order]] + torch.arange(len(flat))
        row, expert = torch.full((total,), -1), torch.repeat_interleave(torch.arange(experts), sizes)
        row[place] = torch.arange(len(flat)) // top
        half = lambda width: torch.empty(total, width, dtype=torch.bfloat16)
        xs, h, a, y = half(hidden), half(two), half(two // 2), half(hidden)
        run("gather", total, hidden, row, x, xs)
        sizes = sizes.tolist()
        for p, w, o in zip(xs.split(sizes), up.unbind(), h.split(sizes)):
            torch.mm(p, w.mT, out=o)
        run("swiglu", total, two // 2, expert, alpha, limit, h, up_bias, a)
        for p, w, o in zip(a.split(sizes), down.unbind(), y.split(sizes)):
            torch.mm(p, w.mT, out=o)
        out, weights = torch.empty_like(x), weights.contiguous()
        run("combine", n, top, hidden, place, expert, weights, y, down_bias, out)
        ctx.save_for_backward(xs, h, a, y, place, row, expert, weights, up, up_bias, down, down_bias)
        ctx.sizes, ctx.alpha, ctx.limit = sizes, alpha, limit
        return out

    @staticmethod
    def backward(ctx, gradient):
        xs, h, a, y, place, row, expert, weights, up, up_bias, down, down_bias = ctx.saved_tensors
        (n, hidden), (experts, two, _), (_, top), total, sizes = gradient.shape, up.shape, weights.shape, len(row), ctx.sizes
        gradient = gradient.contiguous()
        dy, dweights = torch.zeros_like(y), torch.empty_like(weights)
        run("combine_back", n, top, hidden, place, expert, weights, y, down_bias, gradient, dy, dweights)
        da, dh, dxs = torch.empty_like(a), torch.empty_like(h), torch.empty_like(xs)
        dup, ddown = torch.empty_like(up), torch.empty_like(down)
        for g, p, w, o, dw in zip(dy.split(sizes), a.split(sizes), down.unbind(), da.split(sizes), ddown.unbind()):
            torch.mm(g, w, out=o)
            torch.mm(g.mT, p, out=dw)
        run("swiglu_back", total, two // 2, expert, ctx.alpha, ctx.limit, h, up_bias, da, dh)
        for g, p, w, o, dw in zip(dh.split(sizes), xs.split(sizes), up.unbind(), dxs.split(sizes), dup.unbind()):
            torch.mm(g, w, out=o)
            torch.mm(g.mT, p, out=dw)
        dx = torch.empty_like(gradient)
        run("combine", n, top, hidden, place, expert, None, dxs, None, dx)
        sums = lambda g: torch.stack([p.sum(0, dtype=torch.float32) for p in g.split(sizes)])
        return dx, None, dweights, dup.float(), sums(dh), ddown.float(), sums(dy), None, None


def rounded(w):
    """w [..., n*32] rounded to MXFP4."""
    out = torch.empty_like(w)
    run("mxfp4", w.numel() // 32, w, out)
    return out
