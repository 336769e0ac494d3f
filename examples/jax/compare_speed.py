# SPDX-License-Identifier: MIT
"""Trains one layer twice, with our MLP and with einsums under jit: the same losses, and the speed of both.

    python compare_speed.py swiglu_jax.so [--steps N] [--tokens N] [--hidden N] [--intermediate N]
"""

import argparse
import os
import time

import jax
import jax.numpy as jnp

import swiglu_jax


def make_weights(options):
    keys = jax.random.split(jax.random.key(1), 4)
    x = jax.random.normal(keys[0], (options.tokens // 16, 16, options.hidden))
    w1, w3 = (
        jax.random.normal(key, (options.hidden, options.intermediate)) / options.hidden**0.5 for key in keys[1:3]
    )
    w2 = jax.random.normal(keys[3], (options.intermediate, options.hidden)) / options.intermediate**0.5
    return x, (w1, w3, w2)


def train(function, options):
    """The losses of a student that is taught by a fixed layer."""
    x, teacher = make_weights(options)
    target = swiglu_jax.einsums(x, *teacher)
    weights = tuple(0.5 * w for w in teacher)

    @jax.jit
    def step(weights):
        loss, gradients = jax.value_and_grad(lambda w: jnp.mean((function(x, *w) - target) ** 2))(weights)
        return loss, tuple(w - 20 * g for w, g in zip(weights, gradients))

    losses = []
    for _ in range(options.steps):
        loss, weights = step(weights)
        losses.append(float(loss))
    return losses


def time_layer(function, options):
    """Seconds of forward and backward, the best of several."""
    x, weights = make_weights(options)

    @jax.jit
    def both_passes(x, weights, grad_out):
        out, pull_back = jax.vjp(function, x, *weights)
        return out, pull_back(grad_out)

    jax.block_until_ready(both_passes(x, weights, x))
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        jax.block_until_ready(both_passes(x, weights, x))
        times.append(time.perf_counter() - begin)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    for name, value in (("steps", 30), ("tokens", 256), ("hidden", 256), ("intermediate", 704)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    swiglu_jax.load(options.library)

    kinds = {"swiglu": swiglu_jax.mlp, "einsums": swiglu_jax.einsums}
    losses = {name: train(function, options) for name, function in kinds.items()}
    ours, theirs = losses["swiglu"], losses["einsums"]
    print(f"{options.tokens} tokens, {options.hidden} x {options.intermediate}, {os.cpu_count()} processors")
    print("step    loss, swiglu    loss, einsums")
    for step in range(0, options.steps, max(1, options.steps // 6)):
        print(f"{step:4}    {ours[step]:.6f}        {theirs[step]:.6f}")
    flops = 18 * options.tokens * options.hidden * options.intermediate
    for name, function in kinds.items():
        seconds = time_layer(function, options)
        print(f"{name:7}  forward and backward: {1e3 * seconds:7.2f} ms, {flops / seconds * 1e-9:6.1f} GFLOP/s")
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    print(f"losses differ by at most {worst:.1e}, relatively")
    if worst > 1e-3:
        raise SystemExit("the losses are not the same")
    if ours[-1] > 0.5 * ours[0]:
        raise SystemExit("nothing was learned")


if __name__ == "__main__":
    main()
