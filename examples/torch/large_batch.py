"""Optimizers for very large batches. They know nothing of ranks: hvd.DistributedOptimizer wraps them as it wraps any other.

    optimizer = hvd.DistributedOptimizer(Lamb(model.parameters(), lr=0.002), named_parameters=model.named_parameters())
"""

import torch


class Lars(torch.optim.Optimizer):
    """Layer-wise adaptive rate scaling (You, Gitman, Ginsburg: Large Batch Training of Convolutional Networks, 2017).

    trust: how far a layer may move in one step, in parts of its norm.
    """

    def __init__(self, params, lr, momentum=0.9, weight_decay=1e-4, trust=0.001):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for parameter in (p for p in group["params"] if p.grad is not None):
                update = parameter.grad + group["weight_decay"] * parameter
                rate = group["lr"] * group["trust"] * _ratio(parameter, update, 1.0 / group["trust"])
                velocity = self.state[parameter].setdefault("velocity", torch.zeros_like(parameter))
                velocity.mul_(group["momentum"]).add_(update * rate)
                parameter.sub_(velocity)
        return loss


class Lamb(torch.optim.Optimizer):
    """Adam with a rate for each layer (You et al.: Large Batch Optimization for Deep Learning, 2019)."""

    def __init__(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for parameter in (p for p in group["params"] if p.grad is not None):
                update = self._adam(parameter, group) + group["weight_decay"] * parameter
                parameter.sub_(update * (group["lr"] * _ratio(parameter, update, 1.0)))
        return loss

    def _adam(self, parameter, group):
        """Adam's direction, with its means corrected for having begun at zero."""
        state = self.state[parameter]
        if not state:
            state.update(step=0, mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
        state["step"] += 1
        first, second = group["betas"]
        state["mean"].lerp_(parameter.grad, 1 - first)
        state["square"].lerp_(parameter.grad * parameter.grad, 1 - second)
        mean = state["mean"] / (1 - first ** state["step"])
        return mean / ((state["square"] / (1 - second ** state["step"])).sqrt() + group["eps"])


def _ratio(parameter, update, otherwise):
    """The norm of a parameter divided by the norm of its update; `otherwise` if one of the norms is 0."""
    norms = parameter.norm(), update.norm()
    return norms[0] / norms[1] if min(norms) > 0 else otherwise
