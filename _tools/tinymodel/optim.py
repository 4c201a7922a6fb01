"""Muon for the matrices inside the layers, Adam for everything else."""
import torch


def orthogonal(g, steps=5):
    """The nearest matrices with equal singular values, by Newton-Schulz iterations
    (quintic; coefficients of Jordan et al., 2024). g [count, rows, columns]."""
    a, b, c = 3.4445, -4.7750, 2.0315
    turned = g.shape[-2] > g.shape[-1]
    x = (g.mT if turned else g).bfloat16()  # enough, and four times as fast
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(s, s, s, beta=b, alpha=c), x, beta=a)
    return (x.mT if turned else x).type_as(g)


class Optimizer:
    def __init__(self, model, muon_rate=0.02, adam_rate=3e-3, decay=0.01):
        named = list(model.named_parameters())
        inner = lambda name, p: name.startswith("layers.") and p.ndim >= 2 and "bias" not in name and "router" not in name
        self.matrices = [p for name, p in named if inner(name, p)]
        rest = [p for name, p in named if not inner(name, p)]
        self.shapes = {}  # those of one shape are one batch
        for p in self.matrices:
            self.shapes.setdefault(p.shape[-2:], []).append(p)
        self.moment = [torch.cat([torch.zeros_like(p).view(-1, *shape) for p in group]) for shape, group in self.shapes.items()]
        self.adam = torch.optim.AdamW(rest, lr=adam_rate, betas=(0.9, 0.98), weight_decay=0.0, foreach=True)
        self.muon_rate, self.adam_rate, self.decay = muon_rate, adam_rate, decay

    @torch.no_grad()
    def step(self, factor):
        """One step at factor times the full rates; clears the gradients."""
        for group in self.adam.param_groups:
            group["lr"] = self.adam_rate * factor
        torch.nn.utils.clip_grad_norm_(self.adam.param_groups[0]["params"], 1.0)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        rate = self.muon_rate * factor
        for (shape, group), m in zip(self.shapes.items(), self.moment):
            g = torch.cat([p.grad.view(-1, *shape) for p in group])
            m.lerp_(g, 0.05)
            update = orthogonal(g.lerp_(m, 0.95))
            for p, u in zip(group, update.split([p.numel() // shape.numel() for p in group])):
                p.mul_(1 - rate * self.decay)
                p.add_(u.view_as(p), alpha=-rate * max(1, shape[0] / shape[1]) ** 0.5)
                p.grad = None

    def state_dict(self):
        return {"adam": self.adam.state_dict(), "moment": self.moment}

    def load_state_dict(self, state):
        self.adam.load_state_dict(state["adam"])
        for m, saved in zip(self.moment, state["moment"]):
            m.copy_(saved)
