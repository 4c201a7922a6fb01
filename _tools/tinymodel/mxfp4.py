"""MXFP4 as gpt-oss checkpoints store it: blocks of 32 values along the last axis,
E2M1 codes two to a byte (the even element in the low half) and one E8M0 scale."""
import torch

GRID = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
MIDDLE = (GRID[1:] + GRID[:-1]) / 2
BLOCK = 32


def _round(x, exponent):
    """(magnitude index, sign) of blocks x at scale 2**exponent."""
    return torch.bucketize((x.abs() * torch.exp2(-exponent)).clamp(max=6), MIDDLE)


def quantize(w):
    """w [..., n*32] -> codes uint8 [..., n, 16], scales uint8 [..., n]. Of the two
    exponents around largest/6 each block takes the one with the smaller error:
    clipping its largest value can be worth a finer grid."""
    x = w.detach().float().unflatten(-1, (-1, BLOCK))
    high = torch.log2(x.abs().amax(-1, keepdim=True).clamp(min=2.0 ** -100) / 6).ceil()
    best, index, exponent = None, None, None
    for e in (high, high - 1):
        i = _round(x, e)
        error = (GRID[i] * torch.exp2(e) - x.abs()).square().sum(-1, keepdim=True)
        if best is None:
            best, index, exponent = error, i, e
        else:
            better = error < best
            index, exponent = torch.where(better, i, index), torch.where(better, e, exponent)
    code = (index + 8 * (x < 0)).to(torch.uint8)
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
        return dequantize(*quantize(w))

    @staticmethod
    def backward(ctx, gradient):
        return gradient
