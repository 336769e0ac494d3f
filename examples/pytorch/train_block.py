# SPDX-License-Identifier: MIT
"""Trains the same small network twice, with our MLP and with torch.nn.Linear: the same losses, and the speed of both.

    python train_block.py swiglu_torch.so [--steps N] [--tokens N] [--hidden N] [--intermediate N]
"""

import argparse
import time

import torch

import swiglu_torch


class Network(torch.nn.Module):
    """One residual block of a language model, less the attention, and a head."""

    def __init__(self, mlp, hidden, classes):
        super().__init__()
        self.norm = torch.nn.LayerNorm(hidden)
        self.mlp = mlp
        self.head = torch.nn.Linear(hidden, classes, bias=False)

    def forward(self, x):
        return self.head(x + self.mlp(self.norm(x)))


def train(kind, options):
    torch.manual_seed(options.seed)  # the same weights and batches for both
    network = Network(kind(options.hidden, options.intermediate), options.hidden, classes=10)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3)
    centres = torch.randn(10, options.hidden)
    losses, times = [], []
    for _ in range(options.steps):
        labels = torch.randint(10, (options.tokens,))
        x = centres[labels] + 3 * torch.randn(options.tokens, options.hidden)
        begin = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(network(x), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        times.append(time.perf_counter() - begin)
        losses.append(loss.item())
    return losses, sorted(times)[len(times) // 2]


def time_layer(kind, options):
    """Seconds of forward and backward of the MLP alone, the best of several."""
    torch.manual_seed(options.seed)
    layer = kind(options.hidden, options.intermediate)
    x = torch.randn(options.tokens, options.hidden, requires_grad=True)
    grad_out = torch.randn(options.tokens, options.hidden)
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        layer(x).backward(grad_out)
        times.append(time.perf_counter() - begin)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    for name, value in (("steps", 30), ("tokens", 256), ("hidden", 256), ("intermediate", 704), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    swiglu_torch.load(options.library)

    kinds = {"swiglu": swiglu_torch.SwigluMLP, "nn.Linear": swiglu_torch.EagerMLP}
    runs = {name: train(kind, options) for name, kind in kinds.items()}
    (ours, _), (theirs, _) = runs["swiglu"], runs["nn.Linear"]
    print(f"{options.tokens} tokens, {options.hidden} x {options.intermediate}, {torch.get_num_threads()} threads")
    print("step    loss, swiglu    loss, nn.Linear")
    for step in range(0, options.steps, max(1, options.steps // 6)):
        print(f"{step:4}    {ours[step]:.6f}        {theirs[step]:.6f}")
    flops = 18 * options.tokens * options.hidden * options.intermediate
    for name, kind in kinds.items():
        seconds = time_layer(kind, options)
        print(
            f"{name:9}  {1e3 * runs[name][1]:7.2f} ms a step; the MLP alone, forward and backward: "
            f"{1e3 * seconds:7.2f} ms, {flops / seconds * 1e-9:6.1f} GFLOP/s"
        )
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    print(f"losses differ by at most {worst:.1e}, relatively")
    if worst > 1e-3:
        raise SystemExit("the losses are not the same")
    if ours[-1] > 0.5 * ours[0]:
        raise SystemExit("nothing was learned")


if __name__ == "__main__":
    main()
