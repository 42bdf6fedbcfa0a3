#!/usr/bin/env python3
"""Speed of `kda events -f jsonl`: from trace files to JSON lines, on one core.

Usage: bench_events.py [--build DIR] [--runs N]

Measures the file that kda-bench-etl generated, and the samples of ../shared/data/etl that have
enough records. Rates count processor time, because the machine may be shared.
"""
import argparse
import glob
import os
import re
import resource
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LEAST = 1 << 20  # bytes of a sample that is worth measuring
LIMIT_KIB = 16 * 64 + (16 << 10)


def once(kda, path):
    """(lines, processor seconds, peak KiB) of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.Popen([kda, "events", "-f", "jsonl", "-v", path], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lines = 0
    while True:
        part = run.stdout.read(1 << 20)
        if not part:
            break
        lines += part.count(b"\n")
    errors = run.stderr.read().decode(errors="replace")
    run.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode not in (0, 4):
        sys.exit("kda events %s ended with %d\n%s" % (path, run.returncode, errors))
    found = re.search(r"stat peak_kib (\d+)", errors)
    return (lines, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            int(found.group(1)) if found else 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    build = os.path.join(ROOT, options.build)
    kda = os.path.join(build, "release/kda")
    listed = subprocess.run([kda, "--help"], stdout=subprocess.PIPE, text=True).stdout
    if not re.search(r"^\s+events\b", listed, re.M):
        print("kda events: skipped, this build has no such command")
        return
    files = [os.path.join(build, "bench/generated-1g.etl")]
    files += sorted(glob.glob(os.path.join(ROOT, "../shared/data/etl/*.etl")))
    files = [path for path in files if os.path.exists(path) and os.path.getsize(path) >= LEAST]
    print("\nkda events -f jsonl, one core, best of %d; thousand events/s of processor time" %
          options.runs)
    print("%-50s %10s %12s %10s" % ("file", "events", "k events/s", "peak KiB"))
    for path in files:
        lines, seconds, peak = min((once(kda, path) for _ in range(options.runs)),
                                   key=lambda figures: figures[1])
        print("%-50s %10d %12.0f %10d" % (os.path.basename(path)[:50], lines,
                                          lines / seconds / 1000, peak))
    print("targets: 500 k events/s (goal 1,000); peak %d KiB for the generated file" % LIMIT_KIB)


if __name__ == "__main__":
    main()
