#!/usr/bin/env python3
"""Recomputes the golden values of the SwiGLU layer on a 2 x 2 mesh, and checks the stored files against them.

The stored files are what the C++ tests compare with, so this script must not take them on trust: it starts from the
float32 inputs alone (x, grad_out and the three weights), computes everything in float64 with NumPy, and checks

  differences   the gradients against central finite differences of the forward pass, every element;
  sharding      the results of the ranks against the slices of the unsharded results;
  files         every stored file: that it is there, and its type, shape and numbers.

The weights keep the names of the files: w1 is gate, w3 is up, w2 is down. Rank r has data coordinate r / 2, which
chooses its half of the batch, and tensor coordinate r % 2, which chooses its half of the intermediate columns.
"""

import argparse
import pathlib
import sys

import numpy as np

DIRECTORY = pathlib.Path(__file__).resolve().parent.parent / "golden" / "mesh2x2"
INPUTS = ("x", "grad_out", "w1", "w3", "w2")
RANKS = range(4)
EXACT = 1e-12  # float64 rounding, in whatever order the products are summed
STEP = 1e-5  # of the finite differences: their error, about STEP ** 2, is below the next tolerance
DIFFERENCED = 1e-8


def relative_difference(found, expected):
    """Norm of the difference over the norm of the expected values."""
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def load_inputs(directory):
    """The inputs by name, converted to float64."""
    return {name: np.load(directory / f"global_{name}.npy").astype(np.float64) for name in INPUTS}


def mlp(x, grad_out, w1, w3, w2):
    """All values of one forward and backward pass; x and grad_out are [tokens, hidden]."""
    h1 = x @ w1
    h3 = x @ w3
    sigmoid = 1 / (1 + np.exp(-h1))
    h = h1 * sigmoid * h3
    g_h = grad_out @ w2.T
    g_h1 = g_h * h3 * sigmoid * (1 + h1 * (1 - sigmoid))
    g_h3 = g_h * h1 * sigmoid
    return {
        "h1": h1, "h3": h3, "sigmoid": sigmoid, "h": h, "out": h @ w2,
        "g_h": g_h, "g_h1": g_h1, "g_h3": g_h3, "g_x_h1": g_h1 @ w1.T, "g_x_h3": g_h3 @ w3.T,
        "g_w1": x.T @ g_h1, "g_w3": x.T @ g_h3, "g_w2": h.T @ grad_out,
    }


def mlp_of_batch(x, grad_out, w1, w3, w2):
    """The same for [sequence, batch, hidden] arrays: token = sequence * batch size + batch."""
    values = mlp(x.reshape(-1, x.shape[-1]), grad_out.reshape(-1, x.shape[-1]), w1, w3, w2)
    for name in ("out", "g_x_h1", "g_x_h3"):
        values[name] = values[name].reshape(x.shape)
    return values


def unsharded(inputs):
    """The results of the whole layer, by name."""
    values = mlp_of_batch(**inputs)
    results = {f"grad_{name}": values[f"g_{name}"] for name in ("w1", "w3", "w2")}
    return results | {"out": values["out"], "grad_x": values["g_x_h1"] + values["g_x_h3"]}


def shard(arrays, rank):
    """The part of each named array that the rank holds."""
    data, tensor = divmod(rank, 2)
    batch = np.s_[:, 4 * data : 4 * data + 4]
    columns = np.s_[:, 16 * tensor : 16 * tensor + 16]
    rows = np.s_[16 * tensor : 16 * tensor + 16]
    cuts = {"x": batch, "out": batch, "w1": columns, "w3": columns, "w2": rows}
    return {name: array[cuts[name.removeprefix("grad_")]] for name, array in arrays.items()}


def sharded(inputs):
    """The values of every rank, before and after the all-reduces: a list of dictionaries."""
    ranks = [mlp_of_batch(**shard(inputs, rank)) for rank in RANKS]
    for rank in RANKS:
        tensor_axis = [ranks[rank - rank % 2], ranks[rank - rank % 2 + 1]]
        data_axis = [ranks[rank % 2], ranks[rank % 2 + 2]]
        ranks[rank]["grad_x"] = sum(peer["g_x_h1"] + peer["g_x_h3"] for peer in tensor_axis)
        for name in ("w1", "w3", "w2"):
            ranks[rank][f"grad_{name}"] = sum(peer[f"g_{name}"] for peer in data_axis)
    return ranks


def golden_files(inputs, results, ranks):
    """The contents of the directory, by file name."""
    files = {f"global_{name}": array.astype(np.float32) for name, array in inputs.items()}
    files |= {f"global_{name}": array for name, array in results.items()}
    for rank in RANKS:
        files |= {f"rank{rank}_{name}": array for name, array in ranks[rank].items()}
    return {f"{name}.npy": array for name, array in files.items()}


def finite_difference(inputs, name):
    """Central differences of sum(grad_out * out) by every element of one input."""
    array = inputs[name].copy()
    moved = inputs | {name: array}
    gradient = np.empty_like(array)
    for index in np.ndindex(array.shape):
        centre = array[index]
        array[index] = centre + STEP
        above = np.vdot(inputs["grad_out"], mlp_of_batch(**moved)["out"])
        array[index] = centre - STEP
        below = np.vdot(inputs["grad_out"], mlp_of_batch(**moved)["out"])
        array[index] = centre
        gradient[index] = (above - below) / (2 * STEP)
    return gradient


def check_differences(inputs, results):
    """Yields (what, relative difference) for each gradient."""
    for name in ("x", "w1", "w3", "w2"):
        yield f"grad_{name}", relative_difference(results[f"grad_{name}"], finite_difference(inputs, name))


def check_sharding(results, ranks):
    """Yields (what, relative difference) for each result of each rank; partial sums of out are added first."""
    for rank in RANKS:
        found = ranks[rank] | {"out": ranks[rank]["out"] + ranks[rank ^ 1]["out"]}
        for name, expected in shard(results, rank).items():
            yield f"rank{rank}_{name}", relative_difference(found[name], expected)


def check_files(directory, files):
    """Yields (what, relative difference) for each file; infinity for one that is missing, odd or unexpected."""
    stored = {path.name for path in directory.glob("*.npy")}
    for name in sorted(stored | files.keys()):
        difference = np.inf
        if name in stored and name in files:
            found, expected = np.load(directory / name), files[name]
            if (found.dtype, found.shape) == (expected.dtype, expected.shape):
                difference = relative_difference(found, expected)
        yield name, difference


def report(title, differences, tolerance):
    """Prints the failures and the largest difference; returns whether all are below the tolerance."""
    differences = dict(differences)
    failures = {what: value for what, value in differences.items() if not value < tolerance}
    for what, value in failures.items():
        odd = np.isposinf(value)
        print(f"  {what}", "is missing, unexpected or of another type or shape" if odd else f"differs by {value:.1e}")
    verdict = "FAIL" if failures else "ok"
    largest = np.max(list(differences.values()))
    print(f"{title:12} {len(differences):3} arrays   largest {largest:.1e}   tolerance {tolerance:.0e}   {verdict}")
    return not failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=pathlib.Path, default=DIRECTORY, help="where the stored files are")
    parser.add_argument(
        "--write", type=pathlib.Path, metavar="DIR", help="write the files to DIR instead of checking the stored ones"
    )
    arguments = parser.parse_args()

    inputs = load_inputs(arguments.directory)
    results, ranks = unsharded(inputs), sharded(inputs)
    files = golden_files(inputs, results, ranks)

    correct = report("differences", check_differences(inputs, results), DIFFERENCED)
    correct &= report("sharding", check_sharding(results, ranks), EXACT)
    if not correct:
        return 1
    if arguments.write is None:
        return 0 if report("files", check_files(arguments.directory, files), EXACT) else 1
    arguments.write.mkdir(parents=True, exist_ok=True)
    for name, array in files.items():
        np.save(arguments.write / name, array)
    print(f"wrote {len(files)} files to {arguments.write}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
