# SPDX-License-Identifier: MIT
"""The SwiGLU MLP as a PyTorch function and module, computed by the library on CPU.

    import swiglu_torch

    swiglu_torch.load("build/pytorch/swiglu_torch.so")
    layer = swiglu_torch.SwigluMLP(hidden=1024, intermediate=2816)
    out = layer(x)  # x: [.., 1024], float32 or float64

The parameters are those of three bias-free torch.nn.Linear, named as Hugging Face names them: gate_proj.weight and
up_proj.weight [intermediate, hidden], down_proj.weight [hidden, intermediate], so that state dicts go back and forth.
"""

import torch

SAVED_MULTIPLE = 64  # any_shape.hpp: saved_columns


def load(path):
    """Loads the compiled operators and attaches what PyTorch has to know about them."""
    torch.ops.load_library(str(path))

    @torch.library.register_fake("swiglu::mlp_forward")
    def _(x, gate, up, down):
        tokens = x.numel() // x.shape[-1]
        columns = (gate.shape[0] + SAVED_MULTIPLE - 1) // SAVED_MULTIPLE * SAVED_MULTIPLE
        return x.new_empty(x.shape), x.new_empty((tokens, 3 * columns))

    @torch.library.register_fake("swiglu::mlp_backward")
    def _(grad_out, x, gate, up, down, saved):
        return tuple(t.new_empty(t.shape) for t in (x, gate, up, down))

    def setup_context(ctx, inputs, output):
        out, saved = output
        ctx.mark_non_differentiable(saved)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, saved)

    def backward(ctx, grad_out, grad_saved):
        if grad_out is None:
            return None, None, None, None
        return torch.ops.swiglu.mlp_backward(grad_out, *ctx.saved_tensors)

    torch.library.register_autograd("swiglu::mlp_forward", backward, setup_context=setup_context)


def mlp(x, gate, up, down):
    """(silu(x gate^T) * (x up^T)) down^T, with gradients for all four."""
    return torch.ops.swiglu.mlp_forward(x, gate, up, down)[0]


class SwigluMLP(torch.nn.Module):
    def __init__(self, hidden, intermediate, dtype=None):
        super().__init__()
        self.gate_proj = torch.nn.Linear(hidden, intermediate, bias=False, dtype=dtype)
        self.up_proj = torch.nn.Linear(hidden, intermediate, bias=False, dtype=dtype)
        self.down_proj = torch.nn.Linear(intermediate, hidden, bias=False, dtype=dtype)

    def forward(self, x):
        return mlp(x, self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight)


class EagerMLP(SwigluMLP):
    """The same layer in PyTorch's own operations: what to compare with."""

    def forward(self, x):
        return self.down_proj(torch.nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))
