#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The layer in JAX on CPU under jit: XLA fuses what it likes. See framework.py for the options."""

import os

import framework

THREADS = framework.threads_wanted()
if hasattr(os, "sched_setaffinity"):  # XLA starts as many threads as it may use cores
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402  (after the number of threads is set)


def layer(x, gate, up, down):
    return (jax.nn.silu(x @ gate) * (x @ up)) @ down


def training_step(x, gate, up, down, grad_out):
    out, backward = jax.vjp(layer, x, gate, up, down)
    return out, backward(grad_out)


def prepare(_, stage, shape):
    *parameters, grad_out = (jax.device_put(a) for a in framework.inputs(*shape))
    if stage == "forward":
        function, arguments = jax.jit(layer), tuple(parameters)
    else:
        function, arguments = jax.jit(training_step), (*parameters, grad_out)
    return lambda: jax.block_until_ready(function(*arguments)), None


if __name__ == "__main__":
    framework.main("jax " + jax.__version__, ["jax"], prepare)
