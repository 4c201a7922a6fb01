"""MXFP4 as gpt-oss checkpoints store it: blocks of 32 values along the last axis,
E2M1 codes two to a byte (the even element in the low half) and one E8M0 scale."""
import torch

import fast

GRID = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
BLOCK = 32


def nearest(x):
    """x >= 0 rounded to GRID, ties to the even mantissa, 6 at most."""
    step = torch.where(x < 2, 0.5, torch.where(x < 4, 1.0, 2.0))
    return torch.round(x / step).mul_(step).clamp_(max=6)


def rounded(w):
    """w [..., n*32] -> values on GRID with their signs [..., n, 32], exponents
    [..., n, 1]. Of the two exponents around largest/6 each block takes the one with
    the smaller error: clipping its largest value can be worth a finer grid."""
    x = w.detach().float().unflatten(-1, (-1, BLOCK))
    size = x.abs()
    high = torch.log2(size.amax(-1, keepdim=True).clamp(min=2.0 ** -100) / 6).ceil()
    def at(exponent):
        v = nearest(size * torch.exp2(-exponent))
        return v, (v * torch.exp2(exponent)).sub_(size).square_().sum(-1, keepdim=True)
    (coarse, wide), (fine, narrow) = at(high), at(high - 1)
    better = narrow < wide
    return torch.where(better, fine, coarse).copysign_(x), torch.where(better, high - 1, high)


def quantize(w):
    """w [..., n*32] -> codes uint8 [..., n, 16], scales uint8 [..., n]."""
    v, exponent = rounded(w)
    size = v.abs()
    index = torch.where(size < 2, size * 2, torch.where(size < 4, size + 2, size / 2 + 4))
    code = (index + 8 * v.signbit()).to(torch.uint8)
    return code[..., 0::2] | code[..., 1::2] << 4, (exponent.squeeze(-1) + 127).to(torch.uint8)


def dequantize(blocks, scales):
    """The inverse; exact in float32 and in bfloat16."""
    values = torch.cat([GRID, -GRID])
    x = torch.stack([values[(blocks & 15).long()], values[(blocks >> 4).long()]], -1).flatten(-2)
    return (x * torch.exp2(scales.float() - 127).unsqueeze(-1)).flatten(-2)


class Straight(torch.autograd.Function):
    """The stored values forward, the gradient of the identity backward."""

    @staticmethod
    def forward(ctx, w):
        if fast.LIBRARY:
            return fast.rounded(w)
        v, exponent = rounded(w)
        return (v * torch.exp2(exponent)).view_as(w)

    @staticmethod
    def backward(ctx, gradient):
        return gradient
