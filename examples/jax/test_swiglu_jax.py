# SPDX-License-Identifier: MIT
"""Tests of the XLA FFI targets: python test_swiglu_jax.py swiglu_jax.so"""

import sys
import unittest

import jax
import jax.numpy as jnp
import numpy

import swiglu_jax
from swiglu_jax import einsums, mlp

LIBRARY = sys.argv.pop()
swiglu_jax.load(LIBRARY)


def example(sequence, batch, hidden, intermediate, seed=0):
    keys = jax.random.split(jax.random.key(seed), 5)
    x = jax.random.normal(keys[0], (sequence, batch, hidden))
    w1 = jax.random.normal(keys[1], (hidden, intermediate)) / hidden**0.5
    w3 = jax.random.normal(keys[2], (hidden, intermediate)) / hidden**0.5
    w2 = jax.random.normal(keys[3], (intermediate, hidden)) / intermediate**0.5
    return (x, w1, w3, w2), jax.random.normal(keys[4], x.shape)


def both_passes(function):
    def run(inputs, grad_out):
        out, pull_back = jax.vjp(function, *inputs)
        return (out, *pull_back(grad_out))

    return jax.jit(run)


def distance(a, b):
    a, b = numpy.asarray(a, numpy.float64), numpy.asarray(b, numpy.float64)
    return numpy.linalg.norm(a - b) / numpy.linalg.norm(b)


class Mlp(unittest.TestCase):
    def compare(self, *shape):
        inputs, grad_out = example(*shape)
        ours, theirs = both_passes(mlp)(inputs, grad_out), both_passes(einsums)(inputs, grad_out)
        for name, a, b in zip(("out", "grad_x", "grad_w1", "grad_w3", "grad_w2"), ours, theirs):
            with self.subTest(name=name, shape=shape):
                self.assertEqual(a.shape, b.shape)
                self.assertEqual(a.dtype, jnp.float32)
                self.assertLess(distance(a, b), 1e-6)

    def test_matches_the_einsums(self):
        self.compare(4, 8, 16, 32)  # the seed program, before it is cut over devices
        self.compare(1, 1, 8, 8)
        self.compare(3, 7, 100, 129)
        self.compare(8, 16, 256, 704)

    def test_grad_of_a_loss(self):
        inputs, target = example(4, 4, 16, 16)
        losses = [lambda *a, f=f: jnp.mean((f(*a) - target) ** 2) for f in (mlp, einsums)]
        ours, theirs = (jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3)))(*inputs) for loss in losses)
        self.assertLess(distance(ours[0], theirs[0]), 1e-6)
        for a, b in zip(ours[1], theirs[1]):
            self.assertLess(distance(a, b), 1e-6)

    def test_without_jit_and_of_other_ranks(self):
        inputs, _ = example(4, 4, 16, 24)
        x, *weights = inputs
        expected = einsums(*inputs)
        self.assertLess(distance(mlp(*inputs), expected), 1e-6)
        self.assertLess(distance(mlp(x.reshape(16, 16), *weights).reshape(4, 4, 16), expected), 1e-6)
        self.assertLess(distance(mlp(x[0, 0], *weights), expected[0, 0]), 1e-6)

    def test_transposed_arguments(self):
        (x, w1, w3, w2), _ = example(4, 4, 16, 24)
        f = jax.jit(lambda x, w1, w3, w2: mlp(x, w1.T, w3.T, w2.T))
        self.assertLess(distance(f(x, w1.T, w3.T, w2.T), einsums(x, w1, w3, w2)), 1e-6)

    def test_vmap(self):
        inputs, _ = example(4, 3, 16, 24)
        mapped = jax.jit(jax.vmap(mlp, in_axes=(0, None, None, None)))(*inputs)
        self.assertLess(distance(mapped, einsums(*inputs)), 1e-6)

    def test_several_calls_at_once(self):
        # XLA may run independent calls on its threads side by side, each of which wants threads itself.
        inputs = [example(8, 16, 64, 176, seed)[0] for seed in range(8)]
        together = jax.jit(lambda all_inputs: [mlp(*i) for i in all_inputs])
        for _ in range(20):
            results = together(inputs)
        for i, result in zip(inputs, results):
            self.assertTrue(numpy.array_equal(result, mlp(*i)))

    def test_no_tokens(self):
        inputs, grad_out = example(0, 4, 16, 24)
        out, grad_x, grad_w1, grad_w3, grad_w2 = both_passes(mlp)(inputs, grad_out)
        self.assertEqual(out.shape, (0, 4, 16))
        self.assertEqual(jnp.abs(grad_w1).max(), 0)

    def test_wrong_arguments_are_named(self):
        (x, w1, w3, w2), _ = example(2, 2, 8, 16)
        for arguments, error, message in (
            ((x[..., :7], w1, w3, w2), Exception, "columns of x: expected 8, got 7"),
            ((x, w1, w3[:, 1:], w2), Exception, r"shape of up: expected \[8, 16\], got \[8, 15\]"),
            ((x, w1, w3, w2.T), Exception, r"shape of down: expected \[16, 8\], got \[8, 16\]"),
            ((x.astype(jnp.bfloat16), w1, w3, w2), TypeError, "dtype of x: expected float32, got bfloat16"),
            ((x, w1[0], w3, w2), TypeError, "expected x"),
        ):
            with self.assertRaisesRegex(error, message):
                mlp(*arguments).block_until_ready()


if __name__ == "__main__":
    unittest.main()
