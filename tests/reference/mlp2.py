#!/usr/bin/env python3
"""The layer as a JAX program on a 2 x 2 mesh of CPU devices, checked against the golden values.

It reconstructs the program whose partitioned HLO the library reproduces, and answers two questions:

  collectives   does XLA, in its optimized HLO, reduce in exactly two calls: the three weight gradients over the data
                axis, in groups {0,2} and {1,3}, and the two halves of grad_x over the tensor axis, in {0,1} and {2,3}?
  numbers       does every shard of every result agree with the golden file of its rank? `out` is the partial sum.

How it is said in JAX: the mesh axes are explicit, so each array's type carries its sharding. `out` is declared
unreduced over the tensor axis. The cotangent of an unreduced value is a *reduced* one, the same on every rank of the
axis, and JAX does not take grad_out without that mark, although no data moves by giving it. Without the reshard in
`forward_and_backward` it refuses with

    ValueError: unexpected JAX type (e.g. shape/dtype) for argument to VJP function: got float32[4,8@data,16], but
    expected float32[4,8@data,16]{R:tensor} because the corresponding output of the differentiated function had JAX
    type float32[4,8@data,16]{U:tensor}

The arguments and results are ordered as the HLO has them. The order of the tensors within an all-reduce is the
compiler's choice and is not checked; nor is the notation of the groups, which changed between versions.
"""

import argparse
import os
import pathlib
import re
import sys

# JAX reads these when it is imported.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from golden import DIRECTORY, relative_difference

ACTIVATIONS = PartitionSpec(None, "data", None)
PARTIAL_SUMS = PartitionSpec(None, "data", None, unreduced={"tensor"})
REDUCED = PartitionSpec(None, "data", None, reduced={"tensor"})
COLUMNS = PartitionSpec(None, "tensor")
ROWS = PartitionSpec("tensor", None)
ARGUMENTS = {"x": ACTIVATIONS, "w1": COLUMNS, "w3": COLUMNS, "w2": ROWS, "grad_out": ACTIVATIONS}
RESULTS = ("out", "grad_x", "grad_w1", "grad_w3", "grad_w2")

EXPECTED_COLLECTIVES = [
    ("all-reduce", ("16,16", "16,16", "16,16"), [[0, 2], [1, 3]]),
    ("all-reduce", ("4,4,16", "4,4,16"), [[0, 1], [2, 3]]),
]
TOLERANCE = 2e-6  # float32 against float64


def forward(x, w1, w3, w2):
    h1 = jnp.einsum("sbh,hi->sbi", x, w1)
    h3 = jnp.einsum("sbh,hi->sbi", x, w3)
    h = jnp.einsum("sbi,sbi->sbi", jax.nn.silu(h1), h3)
    return jnp.einsum("sbi,ih->sbh", h, w2, out_sharding=PARTIAL_SUMS)


def forward_and_backward(x, w1, w3, w2, grad_out):
    out, backward = jax.vjp(forward, x, w1, w3, w2)
    grad_x, grad_w1, grad_w3, grad_w2 = backward(jax.reshard(grad_out, REDUCED))
    return out, grad_x, grad_w1, grad_w3, grad_w2


def load_arguments(directory, mesh):
    """The golden inputs, cut and placed on the devices."""
    return [
        jax.device_put(np.load(directory / f"global_{name}.npy"), NamedSharding(mesh, spec))
        for name, spec in ARGUMENTS.items()
    ]


def parse_groups(text):
    """The replica groups, sorted, from XLA's list or iota notation; text in any other notation is returned as it is.

    >>> parse_groups("{{2,0},{1,3}}")
    [[0, 2], [1, 3]]
    >>> parse_groups("[2,2]<=[4]")
    [[0, 1], [2, 3]]
    >>> parse_groups("[2,2]<=[2,2]T(1,0)")
    [[0, 2], [1, 3]]
    >>> parse_groups("mesh['a'=2,'b'=2] {'a'}")
    "mesh['a'=2,'b'=2] {'a'}"
    """
    iota = re.fullmatch(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text)
    if iota:
        groups, shape, order = (numbers(part) if part else None for part in iota.groups())
        lists = np.arange(np.prod(shape)).reshape(shape).transpose(order).reshape(groups).tolist()
    elif re.fullmatch(r"\{(\{[\d,]+\},?)+\}", text):
        lists = [numbers(part) for part in re.findall(r"\{([\d,]+)\}", text)]
    else:
        return text
    return sorted(sorted(group) for group in lists)


def numbers(text):
    return [int(number) for number in text.split(",")]


def find_collectives(hlo):
    """Every collective in the HLO text: (operation, extents of each tensor, replica groups or None)."""
    collective = re.compile(
        r"= (?P<types>.+?) (?P<operation>all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)"
        r"(?:-start)?\((?:.*?replica_groups=(?P<groups>.+?), \w+=)?"
    )
    return [
        (
            found["operation"],
            tuple(re.findall(r"f32\[([\d,]*)\]", found["types"])),
            found["groups"] and parse_groups(found["groups"]),
        )
        for found in collective.finditer(hlo)
    ]


def check_collectives(hlo):
    """Prints what was found against what was expected; returns whether they are the same, in any order."""
    found = find_collectives(hlo)
    print("collectives")
    for collective in found:
        operation, tensors, groups = collective
        verdict = "ok" if collective in EXPECTED_COLLECTIVES else "UNEXPECTED"
        shapes = ", ".join(f"[{extents}]" for extents in tensors)
        print(f"  {operation} of {len(tensors)} tensors {shapes:25} groups {groups}   {verdict}")
    for operation, tensors, groups in EXPECTED_COLLECTIVES:
        if found.count((operation, tensors, groups)) != 1:
            print(f"  expected once: {operation} of {len(tensors)} tensors, groups {groups}")
    return sorted(found, key=str) == sorted(EXPECTED_COLLECTIVES, key=str)


def check_numbers(results, directory):
    """Prints the relative difference of every shard; returns whether all are below the tolerance."""
    print(f"numbers   relative difference from golden, tolerance {TOLERANCE:.0e}")
    print("           rank 0    rank 1    rank 2    rank 3")
    correct = True
    for name, result in zip(RESULTS, results, strict=True):
        shards = sorted(result.addressable_shards, key=lambda shard: shard.device.id)
        differences = [
            relative_difference(np.asarray(shard.data), np.load(directory / f"rank{shard.device.id}_{name}.npy"))
            for shard in shards
        ]
        close = len(differences) == 4 and all(difference < TOLERANCE for difference in differences)
        correct &= close
        print(f"  {name:8}", *(f"{value:.1e}  " for value in differences), "ok" if close else "FAIL")
    return correct


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=pathlib.Path, default=DIRECTORY, help="where the golden files are")
    parser.add_argument("--hlo", type=pathlib.Path, metavar="FILE", help="write the optimized HLO to FILE as well")
    arguments = parser.parse_args()

    mesh = jax.make_mesh((2, 2), ("data", "tensor"), axis_types=(AxisType.Explicit, AxisType.Explicit))
    with jax.set_mesh(mesh):
        values = load_arguments(arguments.directory, mesh)
        program = jax.jit(forward_and_backward).lower(*values).compile()
        results = program(*values)

    if arguments.hlo:
        arguments.hlo.write_text(program.as_text())
    print(f"jax {jax.__version__}, mesh {dict(mesh.shape)}, devices {mesh.device_ids.tolist()}")
    correct = check_collectives(program.as_text())
    correct &= check_numbers(results, arguments.directory)
    return 0 if correct else 1


if __name__ == "__main__":
    sys.exit(main())
