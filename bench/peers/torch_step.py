#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The layer in PyTorch on CPU, eager and compiled: its own silu, its own autograd. See framework.py for the options."""

import framework

THREADS = framework.threads_wanted()

import torch  # noqa: E402  (after the number of threads is known)

torch.set_num_threads(THREADS)


def layer(x, gate, up, down):
    return (torch.nn.functional.silu(x @ gate) * (x @ up)) @ down


def saved_bytes(function, parameters):
    """Of the tensors that autograd keeps, without the parameters and x."""
    own = {p.data_ptr() for p in parameters}
    kept = {}

    def pack(tensor):
        if tensor.data_ptr() not in own:
            kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function(*parameters)
    return sum(kept.values())


def prepare(variant, stage, shape):
    *parameters, grad_out = (torch.from_numpy(a) for a in framework.inputs(*shape))
    for p in parameters:
        p.requires_grad_(stage == "step")
    function = torch.compile(layer, dynamic=False) if variant == "torch_compile" else layer

    def forward():
        with torch.no_grad():
            function(*parameters)

    def step():
        return torch.autograd.grad(function(*parameters), parameters, grad_out)
    if stage == "forward":
        return forward, None
    step()
    return step, saved_bytes(function, parameters)


if __name__ == "__main__":
    framework.main("torch " + torch.__version__, ["torch_eager", "torch_compile"], prepare)
