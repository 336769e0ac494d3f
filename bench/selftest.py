#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of what the scripts compute, without measuring anything."""

import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
loader = importlib.machinery.SourceFileLoader("compare", str(HERE / "compare"))
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
loader.exec_module(compare)

NAME = "step/%s/f32/T:1/H:2/I:3/threads:1/manual_time"

# A framework that does nothing, but says when it was asked.
FRAMEWORK = """
import sys
sys.path.insert(0, %r)
import framework
framework.main("nothing 1.0", ["idle"], lambda variant, stage, shape: ((lambda: None), 12))
""" % str(HERE / "peers")


class Recorded:
    """A program whose figures are given beforehand."""

    def __init__(self, rows, log):
        self.rows, self.log = iter(rows), log

    def measure(self, name, min_time):
        self.log.append(name.split("/")[1])
        return next(self.rows)


def contest(key, ours, theirs):
    log = []
    rows = [[{"peak_frac": 0.5, "FLOPS": 1e9, key: value} for value in values] for values in (ours, theirs)]
    entries = [(v, Recorded(r, log), NAME % v) for v, r in zip(("fused", "peer_x"), rows)]
    arguments = types.SimpleNamespace(rounds=len(ours), min_time="0")
    return {r["variant"]: r for r in compare.contest(entries, (1, 2, 3, 1), "step", arguments)}, log


class Compare(unittest.TestCase):
    def test_names_of_the_layer_and_no_others(self):
        self.assertEqual(compare.NAME.match(NAME % "fused").groups(), ("step", "fused", "1", "2", "3", "1"))
        self.assertIsNone(compare.NAME.match("all_reduce/threads/f32/N:64/threads:2/manual_time"))

    def test_takes_turns(self):
        _, log = contest("peak_frac", [0.5, 0.5], [0.5, 0.5])
        self.assertEqual(log, ["fused", "peer_x", "fused", "peer_x"])

    def test_ratio_is_taken_round_by_round(self):
        # The medians would say 0.4 / 0.3.
        records, _ = contest("peak_frac", [0.8, 0.4, 0.2], [0.4, 0.3, 0.1])
        self.assertAlmostEqual(records["peer_x"]["fused_over_this"], 2)
        self.assertNotIn("fused_over_this", records["fused"])

    def test_work_that_waits_for_memory_is_compared_by_time(self):
        ours = {"read_frac": [0.9], "flops": [6.0], "peak_frac": [0.1]}
        theirs = {"read_frac": [0.9], "flops": [2.0], "peak_frac": [0.1]}
        self.assertAlmostEqual(compare.ratio(ours, theirs), 3)

    def test_quartiles(self):
        self.assertEqual(compare.quartiles([1, 2, 3, 4, 5]), (2, 4))
        self.assertEqual(compare.quartiles([7]), (7, 7))

    def test_table_shows_the_strongest_peer(self):
        def row(variant, ratio=None):
            of_shape = {"stage": "step", "variant": variant, "tokens": 1, "hidden": 2, "intermediate": 3, "threads": 1,
                        "peak_frac": [0.5]}
            return of_shape if ratio is None else {**of_shape, "fused_over_this": ratio}
        lines = list(compare.table([row("peer_x", 1.5), row("fused"), row("peer_y", 0.9), row("xla", 0.5)]))
        self.assertEqual(lines[0],
                         "| stage | T x H x I, threads | fused | xla | x | y | against the best peer |")
        self.assertTrue(lines[2].endswith("| 0.90 |"), lines[2])


class Frameworks(unittest.TestCase):
    def run_framework(self, *options, **more):
        return subprocess.run([sys.executable, "-B", "-c", FRAMEWORK, *options], capture_output=True, text=True, check=True,
                              **more).stdout

    def test_lists_names_that_compare_understands(self):
        names = self.run_framework("--threads=2", "--benchmark_list_tests").splitlines()
        self.assertTrue(names)
        for name in names:
            self.assertEqual(compare.NAME.match(name).group(6), "2", name)

    def test_shapes_are_those_of_the_programs(self):
        header = (HERE / "layer_case.hpp").read_text()
        names = self.run_framework("--benchmark_list_tests").splitlines()
        for name in names:
            tokens, hidden, intermediate = compare.NAME.match(name).groups()[2:5]
            self.assertIn("{%s, %s, %s}" % (tokens, hidden, intermediate), header)

    def test_rows_like_those_of_the_programs(self):
        printed = self.run_framework("--benchmark_filter=^step/idle/f32/T:16/", "--benchmark_min_time=0",
                                     "--benchmark_format=json")
        row, = json.loads(printed)["benchmarks"]
        self.assertGreater(row["FLOPS"], 0)
        self.assertEqual(row["saved_bytes"], 12)

    def test_serves_one_row_a_line(self):
        name = "forward/idle/f32/T:16/H:16/I:16/threads:1"
        answers = self.run_framework("--serve", input=2 * (json.dumps({"name": name, "min_time": 0}) + "\n"))
        self.assertEqual([json.loads(a)["name"] for a in answers.splitlines()], [name, name])


if __name__ == "__main__":
    unittest.main()
