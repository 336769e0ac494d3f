# SPDX-License-Identifier: MIT
"""What the scripts that time a framework have in common: the shapes, the inputs, the names, the rows and the options.

They take the options of Google Benchmark that bench/compare uses, and print what a C++ program would:

    --threads=n              on so many threads; chosen before the framework starts
    --benchmark_list_tests   the names
    --benchmark_filter=regex --benchmark_min_time=seconds --benchmark_format=json
    --serve                  stay: for every line {"name": ..., "min_time": ...} of the input, answer with a row
"""

import argparse
import json
import re
import sys
import time

SHAPES = [(16, 16, 16), (64, 64, 192), (1, 1024, 2816), (7, 1024, 2816), (33, 1024, 2816), (100, 1024, 2816),
          (512, 320, 853), (512, 768, 2048), (512, 1024, 2816), (1000, 1024, 2816), (1024, 2048, 5632)]
SHAPES_OF_TWO_THREADS = [(512, 1024, 2816), (1024, 2048, 5632)]
FLOPS = {"forward": 6, "step": 18}  # of tokens * hidden * intermediate


def inputs(tokens, hidden, intermediate):
    """x, gate, up, down, grad_out in float32."""
    import numpy
    generator = numpy.random.default_rng(1)

    def matrix(rows, cols, scale):
        return generator.uniform(-scale, scale, (rows, cols)).astype(numpy.float32)
    return (matrix(tokens, hidden, 1), matrix(hidden, intermediate, 0.03), matrix(hidden, intermediate, 0.03),
            matrix(intermediate, hidden, 0.03), matrix(tokens, hidden, 1))


def seconds_of_a_run(run, min_time, threads):
    """(mean seconds, runs): batches grow until they take long enough. By the processor time of the process for work on
    one thread, like the programs."""
    clock = time.process_time if threads == 1 else time.perf_counter
    run()
    n, elapsed = 1, 0
    while True:
        begin = clock()
        for _ in range(n):
            run()
        elapsed = max(clock() - begin, 1e-9)
        if elapsed >= min_time:
            return elapsed / n, n
        n = max(n + 1, min(10 * n, int(1.2 * n * min_time / elapsed)))


def main(version, variants, prepare):
    """`prepare(variant, stage, shape)` gives (run, bytes saved between forward and backward or None) once; `run()` does
    the whole pass and waits for it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--benchmark_list_tests", action="store_true")
    parser.add_argument("--benchmark_filter", default=".")
    parser.add_argument("--benchmark_format", default="console")
    parser.add_argument("--benchmark_min_time", type=float, default=0.5)
    arguments = parser.parse_args()

    shapes = SHAPES if arguments.threads == 1 else SHAPES_OF_TWO_THREADS
    cases = {"%s/%s/f32/T:%d/H:%d/I:%d/threads:%d" % (stage, variant, *shape, arguments.threads): (variant, stage, shape)
             for shape in shapes for variant in variants for stage in FLOPS}
    if arguments.benchmark_list_tests:
        print("\n".join(cases))
        return
    prepared = {}

    def row_of(name, min_time):
        variant, stage, shape = cases[name]
        if name not in prepared:
            prepared.clear()  # the large ones do not all fit beside each other
            prepared[name] = prepare(variant, stage, shape)
        run, saved = prepared[name]
        seconds, runs = seconds_of_a_run(run, min_time, arguments.threads)
        flops = FLOPS[stage] * shape[0] * shape[1] * shape[2]
        row = {"name": name, "run_name": name, "run_type": "iteration", "iterations": runs, "real_time": seconds * 1e6,
               "time_unit": "us", "FLOPS": flops / seconds, "version": version}
        return row if saved is None else {**row, "saved_bytes": saved}

    if arguments.serve:
        for line in sys.stdin:
            order = json.loads(line)
            print(json.dumps(row_of(order["name"], order["min_time"])), flush=True)
        return
    rows = [row_of(name, arguments.benchmark_min_time) for name in cases if re.search(arguments.benchmark_filter, name)]
    if arguments.benchmark_format == "json":
        print(json.dumps({"context": {"compiler": version}, "benchmarks": rows}, indent=1))
    else:
        for row in rows:
            print("%-60s %12.2f us  FLOPS=%.2fG/s" % (row["name"], row["real_time"], row["FLOPS"] / 1e9))


def threads_wanted():
    """What --threads says: frameworks want to know before they are imported."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_known_args()[0].threads
