#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pictures of what bench/compare --json wrote, the shapes at which we are not the fastest included.

    bench/plot.py performance.json --to docs [--format svg]

    peers      share of the FMA peak of a step, by shape and implementation: medians, quartiles as whiskers
    tokens     FLOP/s against the number of tokens, of the shapes that differ in nothing else
    roofline   FLOP/s against operations a byte, under the measured peaks
    memory     bytes kept between forward and backward against time, by schedule
    threads    how many times as fast two threads are as one

A picture for which there are no numbers is left out, with a line that says so.
"""

import argparse
import json
import pathlib
import statistics
import sys

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    print("bench/plot.py: skipped, matplotlib is not installed (pip install matplotlib)")
    sys.exit(0)

OTHERS = ("peer_", "torch", "jax", "naive")


def is_ours(variant):
    return not variant.startswith(OTHERS)


def label(variant):
    return variant.removeprefix("peer_")


def middle(row, key):
    return statistics.median(row[key])


def shape_of(row):
    return row["tokens"], row["hidden"], row["intermediate"], row["threads"]


def unique(values):
    return list(dict.fromkeys(values))


def colours(variants):
    """Ours in blues, the others in other colours; the same in every picture."""
    ours, others = [v for v in variants if is_ours(v)], [v for v in variants if not is_ours(v)]
    blues = matplotlib.colormaps["Blues"]
    rest = [*matplotlib.colormaps["Set2"].colors, "tab:brown", "tab:olive", "tab:red", "tab:purple"]
    return {**{v: blues(0.9 - 0.6 * i / max(len(ours), 2)) for i, v in enumerate(ours)},
            **{v: rest[i % len(rest)] for i, v in enumerate(others)}}


def compulsory_bytes(row):
    """Each matrix of the pass read or written once: x, out (and their gradients), the weights (and theirs)."""
    activation = row["tokens"] * row["hidden"] * 4
    weights = 3 * row["hidden"] * row["intermediate"] * 4
    passes = {"forward": (2, 1), "backward": (3, 2), "step": (5, 3)}
    activations, times = passes[row["stage"]]
    return activations * activation + times * weights


def flops(row):
    return {"forward": 6, "backward": 12, "step": 18}[row["stage"]] * row["tokens"] * row["hidden"] * row["intermediate"]


def peers(data, colour):
    rows = [r for r in data["rows"] if r["stage"] == "step"]
    if not rows:
        return None
    shapes, variants = unique(map(shape_of, rows)), [v for v in colour if any(r["variant"] == v for r in rows)]
    figure, axes = plt.subplots(figsize=(max(7, 1.6 * len(shapes)), 4.5))
    width = 0.85 / len(variants)
    for i, variant in enumerate(variants):
        for row in (r for r in rows if r["variant"] == variant):
            share = [100 * v for v in row["peak_frac"]]
            height = statistics.median(share)
            low, _, high = statistics.quantiles(share, n=4, method="inclusive") if len(share) > 1 else (height,) * 3
            first = row is next(r for r in rows if r["variant"] == variant)
            axes.bar(shapes.index(shape_of(row)) + (i + 0.5) * width - 0.425, height, width, color=colour[variant],
                     yerr=[[max(height - low, 0)], [max(high - height, 0)]], error_kw={"linewidth": 0.7},
                     label=label(variant) if first else None)
    axes.set_xticks(range(len(shapes)), ["%d\nx %d x %d\n%d thread%s" % (*s, "s"[:s[3] - 1]) for s in shapes], fontsize=8)
    axes.margins(x=0.01)
    axes.set_ylim(0, 100)
    axes.set_ylabel("% of the FMA peak")
    axes.set_title("A training step, tokens x hidden x intermediate")
    axes.legend(fontsize=8, ncols=min(len(variants), 5), loc="upper center", bbox_to_anchor=(0.5, -0.18))
    return figure


def tokens(data, colour):
    rows = [r for r in data["rows"] if r["stage"] == "step" and r["threads"] == 1]
    layers = [(r["hidden"], r["intermediate"]) for r in rows]
    counts = {layer: len({r["tokens"] for r in rows if (r["hidden"], r["intermediate"]) == layer}) for layer in layers}
    if not counts or max(counts.values()) < 2:
        return None
    hidden, intermediate = max(counts, key=counts.get)
    rows = [r for r in rows if (r["hidden"], r["intermediate"]) == (hidden, intermediate)]
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for variant in colour:
        points = sorted((r["tokens"], middle(r, "flops") / 1e9) for r in rows if r["variant"] == variant)
        if points:
            axes.plot(*zip(*points), marker="o" if is_ours(variant) else "s", markersize=4, color=colour[variant],
                      linewidth=2 if variant == "fused" else 1.2, label=label(variant))
    axes.set_xscale("log")
    ticks = sorted({r["tokens"] for r in rows})
    axes.set_xticks(ticks, map(str, ticks))
    axes.minorticks_off()
    axes.set_ylim(0)
    axes.set_xlabel("tokens")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(f"A training step, hidden {hidden}, intermediate {intermediate}, 1 thread")
    axes.legend(fontsize=8)
    return figure


def roofline(data, colour):
    peaks = data.get("peaks", {})
    peak = peaks.get("peak/fma/f32/threads:1")
    reads = {int(k.split("N:")[1].split("/")[0]): v for k, v in peaks.items()
             if k.startswith("read/best/") and k.endswith("threads:1")}
    rows = [r for r in data["rows"] if r["threads"] == 1]
    if not peak or not reads or not rows:
        return None
    figure, axes = plt.subplots(figsize=(7, 4.5))
    intensity = [flops(r) / compulsory_bytes(r) for r in rows]
    low, high = min(intensity) / 2, max(intensity) * 2
    for elements, rate in sorted(reads.items()):
        ridge = peak / rate
        axes.plot([min(low, ridge), ridge, max(high, ridge)], [min(low, ridge) * rate / 1e9, peak / 1e9, peak / 1e9],
                  color="grey", linewidth=1)
        at = min(low, ridge) * 1.1
        axes.annotate("%.0f GB/s read, %s" % (rate / 1e9, size(4 * elements)), (at, at * rate / 1e9), fontsize=7,
                      color="grey", rotation=35, rotation_mode="anchor")
    axes.annotate("%.0f GFLOP/s of multiply-adds" % (peak / 1e9), (high, peak / 1e9), fontsize=7, color="grey", ha="right",
                  va="bottom")
    marker = {"forward": "^", "backward": "v", "step": "o"}
    seen = set()
    order = list(colour)
    for row, x in sorted(zip(rows, intensity), key=lambda pair: order.index(pair[0]["variant"])):
        key = row["variant"], row["stage"]
        axes.scatter(x, middle(row, "flops") / 1e9, color=colour[row["variant"]], marker=marker[row["stage"]], s=18,
                     zorder=3, label=None if key in seen else "%s, %s" % (label(row["variant"]), row["stage"]))
        seen.add(key)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("FLOP per compulsory byte")
    axes.set_ylabel("GFLOP/s")
    axes.set_title("Measured roofline, 1 thread")
    axes.legend(fontsize=7, loc="lower right")
    return figure


def size(count):
    return "%d MiB" % (count >> 20) if count >= 1 << 20 else "%d KiB" % (count >> 10)


def memory(data, colour):
    rows = [r for r in data["rows"] if r["stage"] == "step" and r["threads"] == 1 and r.get("saved_bytes")]
    if not rows:
        return None
    largest = max(map(shape_of, rows), key=lambda s: (len([r for r in rows if shape_of(r) == s and is_ours(r["variant"])]),
                                                      s[0] * s[1] * s[2]))
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for row in (r for r in rows if shape_of(r) == largest):
        at = (1e3 * flops(row) / middle(row, "flops"), row["saved_bytes"] / 2**20)
        axes.scatter(*at, color=colour[row["variant"]], marker="o" if is_ours(row["variant"]) else "s", s=60, alpha=0.8,
                     zorder=3, label=label(row["variant"]))
    axes.set_xlim(0, 1.1 * axes.get_xlim()[1])
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    axes.legend(fontsize=8, loc="lower left")
    axes.set_xlabel("milliseconds of a training step")
    axes.set_ylabel("MiB kept between forward and backward")
    axes.set_title("%d x %d x %d, 1 thread" % largest[:3])
    return figure


def threads(data, colour):
    rows = {(r["variant"], *shape_of(r)): r for r in data["rows"] if r["stage"] == "step"}
    pairs = [(key, rows[key[:4] + (1,)], row) for key, row in rows.items() if key[4] > 1 and key[:4] + (1,) in rows]
    if not pairs:
        return None
    shapes, variants = unique(key[1:] for key, _, _ in pairs), [v for v in colour if any(k[0] == v for k, _, _ in pairs)]
    figure, axes = plt.subplots(figsize=(7, 4))
    width = 0.85 / len(variants)
    for (variant, *shape), one, many in pairs:
        at = shapes.index(tuple(shape)) + (variants.index(variant) + 0.5) * width - 0.425
        axes.bar(at, middle(many, "flops") / middle(one, "flops"), width, color=colour[variant])
    axes.set_xticks(range(len(shapes)), ["%d x %d x %d, %d threads" % s for s in shapes])
    axes.axhline(max(s[3] for s in shapes), color="grey", linewidth=0.8)
    axes.set_ylabel("times as fast as one thread")
    axes.legend(handles=[matplotlib.patches.Patch(color=colour[v], label=label(v)) for v in variants], fontsize=8,
                loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=min(len(variants), 5))
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=pathlib.Path)
    parser.add_argument("--to", type=pathlib.Path, default=pathlib.Path("docs"))
    parser.add_argument("--format", default="svg", choices=["svg", "png"])
    arguments = parser.parse_args()

    data = json.loads(arguments.json.read_text())
    variants = unique(r["variant"] for r in data["rows"])
    colour = colours(sorted(variants, key=lambda v: (not is_ours(v), v)))
    matplotlib.rcParams["svg.hashsalt"] = "swiglu"  # the same numbers give the same file
    arguments.to.mkdir(parents=True, exist_ok=True)
    for picture in (peers, tokens, roofline, memory, threads):
        figure = picture(data, colour)
        if figure is None:
            print(f"bench/plot.py: no {picture.__name__}: the numbers are not there")
            continue
        figure.text(0.9, 0.885, "%s, %s" % (data["machine"]["cpu"], data["date"]), fontsize=6, color="grey", ha="right", va="bottom")
        file = arguments.to / f"performance_{picture.__name__}.{arguments.format}"
        figure.savefig(file, bbox_inches="tight", dpi=150,
                       **({"metadata": {"Date": None}} if arguments.format == "svg" else {}))
        plt.close(figure)
        print(file)


if __name__ == "__main__":
    main()
