#!/usr/bin/env python3
"""Speed of the reader, side by side, on generated images: wall time, pages and bytes read, the floor
of pages that hold what is shown, peak memory.

Usage: bench.py [--build DIR] [--runs N]

Images are sparse files of the project's own generator. Runs of all cases are alternated, so that a
slow moment of the machine hits all of them; medians are printed.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIZES = ["64M", "1G", "16G"]
FORMATS = [("dmp-bitmap", "dump with header"), ("raw", "raw")]
TARGETS = "targets: 1 GiB under 60 ms and 32 MiB; pages at most 3x the floor; 16 GiB dump within " \
          "1.5x of 1 GiB;\n         PDB under 100 ms, ISF under 600 ms, symbol-free run under 400 ms " \
          "for 1 GiB"


def forge(tool, scenario, image_format, size, folder):
    path = os.path.join(folder, "%s-%s.%s" % (scenario, size, image_format))
    if not os.path.exists(path):
        source = os.path.join(ROOT, "tests/images/scenarios", scenario + ".txt")
        subprocess.run([tool, source, "-o", path, "--format", image_format, "--size", size],
                       check=True)
    return path


def once(command):
    started = time.perf_counter()
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)
    wall = (time.perf_counter() - started) * 1000
    if result.returncode not in (0, 4):
        sys.exit("%s ended with %d\n%s" % (" ".join(command), result.returncode, result.stderr))
    stats = dict(re.findall(r"^stat (\w+) (\d+)$", result.stderr, re.M))
    return wall, {name: int(value) for name, value in stats.items()}


def measure(cases, runs):
    """cases: name -> command. Alternated; returns name -> (median wall ms, stats of a run)."""
    walls = {name: [] for name in cases}
    stats = {}
    for command in cases.values():
        once(command)  # fills the page cache and loads the program
    for _ in range(runs):
        for name, command in cases.items():
            wall, stats[name] = once(command)
            walls[name].append(wall)
    return {name: (statistics.median(walls[name]), stats[name]) for name in cases}


def map_table(kda, tool, folder, runs):
    cases = {}
    for image_format, title in FORMATS:
        for size in SIZES:
            image = forge(tool, "win11", image_format, size, folder)
            cases["%s %s" % (size, title)] = [kda, "map", "-f", "json", "-v", "-q", image]
    print("kda map -f json, Windows 11 scenario, built-in profile, median of %d runs" % runs)
    print("%-26s %9s %7s %7s %6s %10s %9s" % ("image", "wall ms", "pages", "floor", "ratio",
                                             "bytes read", "peak KiB"))
    results = measure(cases, runs)
    for name, (wall, s) in results.items():
        print("%-26s %9.1f %7d %7d %6.2f %10d %9d" % (
            name, wall, s["pages_touched"], s["pages_floor"],
            s["pages_touched"] / max(1, s["pages_floor"]), s["file_bytes"], s["peak_kib"]))
    one, sixteen = (results[size + " dump with header"][0] for size in ("1G", "16G"))
    print("16 GiB against 1 GiB (dump): %.2fx" % (sixteen / one))


def source_table(kda, tool, folder, runs, build):
    """Symbol sources on the same image, where their files are at hand."""
    image = forge(tool, "win11", "raw", "64M", folder)
    command = [kda, "sessions", "-f", "json", "-v", "-q", image, "--symbols"]
    cases = {"profile": command + ["profile"]}
    large = forge(tool, "win11", "raw", "1G", folder)
    cases["none (fitted), 1 GiB raw"] = [kda, "map", "-f", "json", "-v", "-q", large, "--symbols",
                                         "none"]
    isf = os.path.join(ROOT, "../shared/data/isf/8E3373D6124E747F0E72EF8E02E676B3-1.json.xz")
    if os.path.exists(isf):
        cases["isf (.json.xz)"] = command + [isf]
    pdb = os.path.join(build, "gcc/ntfake-10.0.22000.795/ntkrnlmp.pdb")
    if os.path.exists(pdb):
        cases["pdb (named structures only)"] = command + [pdb]
    print("\nsymbol sources, 64 MiB raw image: time to find and read symbols")
    for name, (wall, s) in measure(cases, runs).items():
        print("%-30s %9.1f ms (whole run %.1f ms)" % (name, s["symbols_us"] / 1000, wall))
    # A PDB of a real kernel's size is made in memory by its unit test, which times the reader.
    test = os.path.join(build, "gcc/test_pdb")
    if os.path.exists(test):
        out = subprocess.run([test], capture_output=True, text=True)
        found = re.search(r"(\d+) bytes, (\d+ type and \d+ symbol records): ([\d.]+) ms",
                          out.stdout + out.stderr)
        if found:
            print("%-30s %9s ms (%s bytes, %s)" % ("pdb, size of a real kernel's", found.group(3),
                                                   found.group(1), found.group(2)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    build = os.path.join(ROOT, options.build)
    release = os.path.join(build, "release")
    folder = os.path.join(build, "bench")
    os.makedirs(folder, exist_ok=True)
    kda, tool = os.path.join(release, "kda"), os.path.join(release, "kda-forge")
    map_table(kda, tool, folder, options.runs)
    source_table(kda, tool, folder, options.runs, build)
    print("\n" + TARGETS)


if __name__ == "__main__":
    main()
