# SPDX-License-Identifier: MIT
"""Tests of the PyTorch operators: python test_swiglu_torch.py swiglu_torch.so"""

import sys
import threading
import time
import unittest

import torch
from torch.profiler import ProfilerActivity, profile

import swiglu_torch
from swiglu_torch import EagerMLP, SwigluMLP, mlp

LIBRARY = sys.argv.pop()
swiglu_torch.load(LIBRARY)


def example(tokens, hidden, intermediate, dtype, seed=0):
    random = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=random, dtype=dtype)

    return (
        normal(*tokens, hidden).requires_grad_(),
        (normal(intermediate, hidden) / hidden**0.5).requires_grad_(),
        (normal(intermediate, hidden) / hidden**0.5).requires_grad_(),
        (normal(hidden, intermediate) / intermediate**0.5).requires_grad_(),
    )


def eager(x, gate, up, down):
    linear, silu = torch.nn.functional.linear, torch.nn.functional.silu
    return linear(silu(linear(x, gate)) * linear(x, up), down)


def all_of(function, inputs, grad_out):
    out = function(*inputs)
    return (out, *torch.autograd.grad(out, inputs, grad_out))


def distance(a, b):
    """Of two tensors, relative to the length of the second."""
    return ((a - b).norm() / b.norm()).item()


class Mathematics(unittest.TestCase):
    def test_gradcheck_in_double(self):
        for tokens in ((3,), (2, 2)):
            self.assertTrue(torch.autograd.gradcheck(mlp, example(tokens, 5, 7, torch.float64)))

    def test_float_matches_eager(self):
        for tokens, hidden, intermediate in (((1,), 8, 8), ((4, 9), 64, 176), ((50,), 100, 129), ((128,), 256, 704)):
            inputs = example(tokens, hidden, intermediate, torch.float32)
            grad_out = torch.randn(*tokens, hidden, generator=torch.Generator().manual_seed(1))
            ours, theirs = all_of(mlp, inputs, grad_out), all_of(eager, inputs, grad_out)
            for name, a, b in zip(("out", "grad_x", "grad_gate", "grad_up", "grad_down"), ours, theirs):
                with self.subTest(name=name, tokens=tokens, hidden=hidden):
                    self.assertEqual(a.shape, b.shape)
                    self.assertLess(distance(a, b), 1e-6)

    def test_float_is_as_near_to_double_as_eager_is(self):
        inputs, grad_out = example((128,), 256, 704, torch.float32), torch.ones(128, 256)
        exact = all_of(eager, [t.detach().double().requires_grad_() for t in inputs], grad_out.double())
        for a, b, e in zip(all_of(mlp, inputs, grad_out), all_of(eager, inputs, grad_out), exact):
            self.assertLess(distance(a, e), 2 * distance(b, e))

    def test_no_tokens(self):
        inputs = example((0,), 8, 16, torch.float32)
        results = all_of(mlp, inputs, torch.empty(0, 8))
        self.assertEqual(results[0].shape, (0, 8))
        self.assertEqual(results[2].abs().max(), 0)

    def test_any_number_of_threads_has_the_same_bits(self):
        inputs, grad_out = example((37,), 64, 176, torch.float32), torch.ones(37, 64)
        threads = torch.get_num_threads()
        results = []
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            results.append(all_of(mlp, inputs, grad_out))
        torch.set_num_threads(threads)
        for other in results[1:]:
            for a, b in zip(results[0], other):
                self.assertTrue(torch.equal(a, b))


class Operators(unittest.TestCase):
    def test_opcheck(self):
        for dtype in (torch.float32, torch.float64):
            torch.library.opcheck(torch.ops.swiglu.mlp_forward.default, example((3, 2), 8, 20, dtype))

    def test_traces_whole(self):
        inputs, grad_out = example((6,), 16, 24, torch.float32), torch.ones(6, 16)
        compiled = torch.compile(mlp, backend="aot_eager", fullgraph=True)
        for a, b in zip(all_of(compiled, inputs, grad_out), all_of(mlp, inputs, grad_out)):
            self.assertTrue(torch.equal(a, b))

    def test_some_inputs_need_no_gradient(self):
        inputs = [t.detach() for t in example((5,), 16, 24, torch.float32)]
        inputs[1].requires_grad_()
        mlp(*inputs).sum().backward()
        self.assertIsNone(inputs[0].grad)
        reference = [t.detach().requires_grad_(t.requires_grad) for t in inputs]
        eager(*reference).sum().backward()
        self.assertLess(distance(inputs[1].grad, reference[1].grad), 1e-6)

    def test_modules_share_their_parameters(self):
        torch.manual_seed(2)
        ours, theirs = SwigluMLP(24, 40), EagerMLP(24, 40)
        theirs.load_state_dict(ours.state_dict())
        self.assertEqual(set(ours.state_dict()), {f"{p}_proj.weight" for p in ("gate", "up", "down")})
        x = torch.randn(3, 24)
        self.assertLess(distance(ours(x), theirs(x)), 1e-6)

    def test_wrong_arguments_are_named(self):
        x, gate, up, down = (t.detach() for t in example((3,), 8, 16, torch.float32))
        for arguments, message in (
            ((x[:, :7], gate, up, down), "columns of x: expected 8, got 7"),
            ((x, gate, up[1:], down), "shape of up: expected \\[16, 8\\], got \\[15, 8\\]"),
            ((x, gate, up, down.T), "shape of down: expected \\[8, 16\\], got \\[16, 8\\]"),
            ((x, gate[0], up, down), "expected x \\[.., hidden\\] and gate"),
            ((x.half(), gate, up, down), "dtype of x: expected float32 or float64, got Half"),
            ((x, gate, up, down.double()), "dtype of a weight: expected Float, got Double"),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                mlp(*arguments)
        out, saved = torch.ops.swiglu.mlp_forward(x, gate, up, down)
        with self.assertRaisesRegex(RuntimeError, "saved is not what mlp_forward returned"):
            torch.ops.swiglu.mlp_backward(out, x, gate, up, down, saved[:, 1:])
        with self.assertRaisesRegex(RuntimeError, "grad_out: expected Float \\[3, 8\\], got Float \\[2, 8\\]"):
            torch.ops.swiglu.mlp_backward(out[1:], x, gate, up, down, saved)


class Memory(unittest.TestCase):
    def copies(self, x, gate, up, down):
        """Operations other than ours and the making of results while both passes run."""
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            out, saved = torch.ops.swiglu.mlp_forward(x, gate, up, down)
            torch.ops.swiglu.mlp_backward(out, x, gate, up, down, saved)
        allowed = ("swiglu::", "aten::empty", "aten::view", "aten::reshape", "aten::_reshape_alias", "aten::as_strided")
        return [e.key for e in profiled.key_averages() if "::" in e.key and not e.key.startswith(allowed)]

    def test_nothing_is_copied(self):
        x, gate, up, down = (t.detach() for t in example((4, 6), 16, 24, torch.float32))
        self.assertEqual(self.copies(x, gate, up, down), [])
        # A part of a larger matrix: rows are contiguous, further apart.
        wide = torch.randn(24, 100)[:, 10:26]
        self.assertEqual(self.copies(wide, gate, up, down), [])
        self.assertLess(distance(mlp(wide, gate, up, down), eager(wide, gate, up, down)), 1e-6)
        # The other way round it has to be.
        self.assertIn("aten::copy_", self.copies(x.reshape(24, 16).T.contiguous().T, gate, up, down))

    def test_what_is_not_contiguous_is_correct(self):
        x, gate, up, down = (t.detach() for t in example((6,), 16, 24, torch.float32))
        odd = (x.T.contiguous().T, gate.T.contiguous().T, up.flip(0), down.expand(16, 24))
        ours, theirs = mlp(*odd), eager(*odd)
        self.assertLess(distance(ours, theirs), 1e-6)
        broadcast = x[0].expand(6, 16)
        self.assertLess(distance(mlp(broadcast, gate, up, down), eager(broadcast, gate, up, down)), 1e-6)

    def test_the_gil_is_released(self):
        inputs = [t.detach() for t in example((512,), 512, 1408, torch.float32)]
        times, done = [], threading.Event()

        def note_the_time():
            while not done.is_set():
                times.append(time.perf_counter())
                time.sleep(0.0005)

        other = threading.Thread(target=note_the_time)
        other.start()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(10)  # a thread that holds the GIL is not asked for it
        try:
            for _ in range(20):  # until the other thread got a turn well within a call
                begin = time.perf_counter()
                mlp(*inputs)
                end = time.perf_counter()
                within = [t for t in times if begin < t < end]
                if len(within) > 1:
                    break
        finally:
            sys.setswitchinterval(interval)
            done.set()
            other.join()
        self.assertGreater(len(within), 1)


if __name__ == "__main__":
    unittest.main()
