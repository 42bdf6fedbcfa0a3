#!/usr/bin/env python3
"""Builds everything and runs every test; prints `N passed, N failed, N skipped` at the end.

Usage: run.py [--build DIR] [--jobs N] [--only PART,PART] [--test NAME] [--whole] [--times]

Parts, each of which builds what it needs:
  style        the rules of CONTRIBUTING.md, the driver's facts, headers that compile alone
  models       Spin
  unit         every test program, built by gcc
  integration  tests/integration with the finished programs, a process for each file
  wine         what is built for Windows
  sanitizers   every test program with AddressSanitizer, UBSan and fault injection, built by clang
  fuzz         every fuzz target, in the build of the sanitizers
  threads      the ring and the simulator under ThreadSanitizer
  mutants      seeded mistakes
  plain        with --whole only: every test program, built by clang without sanitizers

Without --whole, sweeps take a sample (KDA_TEST_WHOLE is not set), and so do mutants.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Tally:
    """Counts and prints; threads share it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.passed = self.skipped = 0
        self.failures = []
        self.times = []

    def ok(self, count=1):
        with self.lock:
            self.passed += count

    def skip(self, name, why):
        with self.lock:
            self.skipped += 1
            print("skipped: %s (%s)" % (name, why), flush=True)

    def fail(self, name, text=""):
        with self.lock:
            self.failures.append(name)
            print("FAILED: %s\n%s" % (name, text.rstrip()), flush=True)


def run(args, **kw):
    return subprocess.run(args, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **kw)


def say(text):
    print("== %s" % text, flush=True)


def each(tally, options, tasks):
    """Runs (name, function) pairs, as many at a time as there are jobs."""
    def timed(task):
        begin = time.time()
        task[1]()
        with tally.lock:
            tally.times.append((time.time() - begin, task[0]))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for _ in pool.map(timed, tasks):
            pass


def check(tally, name, args):
    result = run(args)
    if result.returncode == 0:
        tally.ok()
    else:
        tally.fail(name, result.stdout)


def style(tally, options):
    say("style")
    tools = [("include direction", ["python3", "tools/check_includes.py", "."]),
             ("circles of files", ["python3", "tools/check_circles.py", "."]),
             ("rules of the kernel's interfaces", ["python3", "tools/check_rules.py", "."]),
             ("pages", ["python3", "tools/check_docs.py", "."]),
             ("style rules", ["python3", "tools/check_style.py", "."])]
    files = [f for pattern in ("include/kda/*.h", "event/*.[ch]", "tools/*.c", "lib/**/*.[ch]",
                               "cli/*.[ch]", "driver/**/*.[ch]", "sim/*.[ch]", "tests/**/*.[ch]")
             for f in glob.glob(os.path.join(ROOT, pattern), recursive=True)
             if not f.endswith("_data.c")]
    for part in range(options.jobs):
        tools.append(("clang-format", ["clang-format-14", "--dry-run", "-Werror"] +
                      sorted(files)[part::options.jobs]))
    each(tally, options, [(name, lambda name=name, args=args: check(tally, name, args))
                          for name, args in tools] +
         [("headers", lambda: headers(tally, options)),
          ("facts of the driver", lambda: driver_facts(tally, options))])


def headers(tally, _):
    """Every public header compiles alone, as C11 and as C++."""
    for header in sorted(glob.glob(os.path.join(ROOT, "include/kda/*.h"))):
        name = os.path.basename(header)
        check(tally, "header %s" % name,
              ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-fsyntax-only",
               "-x", "c", header])


def driver_facts(tally, _):
    """Constants and layouts of the driver's own headers, against those that come with mingw-w64."""
    result = run([sys.executable, "tools/check_ddk.py"])
    if result.returncode == 77:
        tally.skip("facts of the driver's headers", "mingw-w64 is not installed")
    elif result.returncode != 0:
        tally.fail("facts of the driver's headers", result.stdout)
    else:
        tally.ok()


def one_model(tally, options, model):
    result = run([sys.executable, "tests/models/check.py", model,
                  os.path.join(options.build, "models")])
    print(result.stdout, end="", flush=True)
    if result.returncode == 0:
        tally.ok()
    else:
        tally.fail("model %s" % os.path.basename(model), result.stdout)


def models(tally, options):
    """Spin models: each file says on its first lines how large it is and what must come out."""
    spin = shutil.which("spin")
    if not spin:
        tally.skip("models", "spin is not installed")
        return
    say("models")
    each(tally, options, [(model, lambda model=model: one_model(tally, options, model))
                          for model in sorted(glob.glob(os.path.join(ROOT, "tests/models/*.pml")))])


def build(tally, options, name, extra, targets=()):
    folder = os.path.join(options.build, name)
    say("build %s" % name)
    args = ["cmake", "-S", ".", "-B", folder] + extra
    result = run(args)
    if result.returncode == 0:
        result = run(["cmake", "--build", folder, "-j", str(options.jobs)] +
                     (["--target"] + list(targets) if targets else []))
    if result.returncode != 0:
        tally.fail("build %s" % name, result.stdout[-6000:])
        return None
    tally.ok()
    return folder


# cmocka's TAP: "ok 1 - name", "not ok 1 - name", "ok 1 # SKIP name" or "not ok 1 # SKIP name".
TAP = re.compile(r"^\s*(ok|not ok) \d+\s*(.*)$", re.M)


def program(tally, path, label):
    """Runs a program of tests that prints TAP."""
    name = os.path.basename(path)
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", ASAN_OPTIONS="detect_leaks=1",
               UBSAN_OPTIONS="print_stacktrace=1")
    try:
        result = run([path], env=env, timeout=900)
    except subprocess.TimeoutExpired:
        tally.fail("%s (%s)" % (name, label), "no end after 900 s")
        return
    seen = 0
    for verdict, rest in TAP.findall(result.stdout):
        seen += 1
        if "SKIP" in rest:
            tally.skip("%s: %s" % (name, rest.replace("# SKIP", "").strip()), label)
        elif verdict == "ok":
            tally.ok()
        else:
            tally.fail("%s: %s (%s)" % (name, rest.lstrip("- "), label), result.stdout[-3000:])
    if result.returncode < 0 or seen == 0:
        tally.fail("%s (%s)" % (name, label), "ended with %d after %d tests\n%s" %
                   (result.returncode, seen, result.stdout[-3000:]))
    elif result.returncode != 0 and "not ok" not in result.stdout:
        tally.fail("%s (%s)" % (name, label), result.stdout[-3000:])


def programs(tally, options, folder, label):
    """A task for each program of tests in a build; the simulator's, which are long, first."""
    wanted = "test_%s" % options.test if options.test else "test_*"
    found = sorted((p for p in glob.glob(os.path.join(folder, wanted))
                    if os.access(p, os.X_OK) and os.path.isfile(p)),
                   key=lambda path: ("/test_sim" not in path, path))
    return [("%s (%s)" % (os.path.basename(path), label),
             lambda path=path: program(tally, path, label)) for path in found]


class Result(unittest.TestResult):
    def __init__(self, tally):
        super().__init__()
        self.tally = tally

    def addSuccess(self, test):
        self.tally.ok()

    def addFailure(self, test, err):
        self.tally.fail(test.id(), self._exc_info_to_string(err, test))

    addError = addFailure

    def addSkip(self, test, reason):
        self.tally.skip(test.id(), reason)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.tally.fail(subtest.id(), self._exc_info_to_string(err, test))


def module(tally, folder, pattern):
    """The tests of one file of a folder, in this process."""
    sys.path.insert(0, os.path.join(ROOT, "tests/integration"))
    sys.path.insert(0, folder)
    suite = unittest.TestLoader().discover(folder, pattern=pattern)
    if folder.endswith("wine"):
        import wine_host
        try:
            suite.run(Result(tally))
        finally:
            wine_host.stop()
    else:
        suite.run(Result(tally))


def in_process(tally, options, folder, pattern, binaries):
    """module() in a process of its own, with a work folder of its own."""
    name = pattern.replace("*", "all").replace(".py", "")
    work = os.path.join(options.build, "work", name)
    os.makedirs(work, exist_ok=True)
    counts = os.path.join(work, "counts.json")
    if os.path.exists(counts):
        os.remove(counts)
    env = dict(os.environ, KDA_TEST_WORK=os.path.abspath(work), **binaries)
    result = run([sys.executable, "tests/run.py", "--module", folder, "--pattern", pattern,
                  "--counts", counts], env=env)
    print(result.stdout, end="", flush=True)
    if not os.path.exists(counts):
        tally.fail(name, "ended with %d" % result.returncode)
        return
    with open(counts, encoding="utf-8") as f:
        passed, skipped, failures = json.load(f)
    with tally.lock:
        tally.passed += passed
        tally.skipped += skipped
        tally.failures += failures


def integration(tally, options, folder):
    wanted = "test_%s.py" % options.test if options.test else "test_*.py"
    binaries = {"KDA_TEST_BIN": os.path.abspath(folder)}
    where = os.path.join(ROOT, "tests/integration")
    names = sorted(os.path.basename(p) for p in glob.glob(os.path.join(where, wanted)))
    return [(name, lambda name=name: in_process(tally, options, where, name, binaries))
            for name in names]


def wine(tally, options, folder):
    """Programs for Windows in Wine; `folder` has those of this system, to compare with. One task:
    they share a Windows."""
    compiler = "x86_64-w64-mingw32-gcc-win32"
    if not shutil.which(compiler):
        tally.skip("wine", "%s is not installed" % compiler)
        return []
    windows = build(tally, options, "windows", ["-DCMAKE_TOOLCHAIN_FILE=cmake/mingw.cmake"])
    if not windows:
        return []
    where = os.path.join(ROOT, "tests/wine")
    sys.path.insert(0, where)
    import wine_host
    if not wine_host.find():
        tally.skip("wine", "wine64 is not installed")
        return []
    binaries = {"KDA_TEST_BIN": os.path.abspath(folder),
                "KDA_TEST_WINDOWS": os.path.abspath(windows)}
    wanted = "test_%s.py" % options.test if options.test else "test_*.py"
    return [("wine", lambda: in_process(tally, options, where, wanted, binaries))]


def fuzz_target(tally, options, path):
    name = os.path.basename(path)
    corpus = os.path.join(ROOT, "tests/fuzz/corpus", name[5:])
    work = os.path.join(options.build, "fuzz", name)
    os.makedirs(work, exist_ok=True)
    args = [path, work] + ([corpus] if os.path.isdir(corpus) else [])
    args += ["-max_total_time=%d" % options.fuzz_seconds, "-timeout=25", "-rss_limit_mb=2048",
             "-max_len=%d" % options.fuzz_max_len, "-verbosity=0",
             "-print_final_stats=1", "-artifact_prefix=%s/" % work]
    started = time.time()
    result = run(args)
    runs = re.search(r"number_of_executed_units:\s*(\d+)", result.stdout)
    if result.returncode == 0 and runs and int(runs.group(1)) > 0:
        tally.ok()
        print("%s: %s runs in %d s" % (name, runs.group(1), time.time() - started), flush=True)
    else:
        tally.fail(name, result.stdout[-6000:])


def fuzz(tally, options, folder):
    wanted = "fuzz_%s" % options.test if options.test else "fuzz_*"
    return [(os.path.basename(path), lambda path=path: fuzz_target(tally, options, path))
            for path in sorted(glob.glob(os.path.join(folder, wanted)))
            if os.access(path, os.X_OK) and os.path.isfile(path)]


def mutants(tally, options):
    """Seeded mistakes: some of them here, all of them by `make mutants`."""
    say("seeded mistakes, every %d. of them" % options.mutants)
    result = run([sys.executable, "tests/mutants/run.py", "--jobs", str(options.jobs), "--every",
                  str(options.mutants), "--work", os.path.join(options.build, "mutants")])
    print(result.stdout, end="", flush=True)
    if result.returncode == 0:
        tally.ok()
    else:
        tally.fail("seeded mistakes", result.stdout)


def only(options):
    """The one program that --test needs, or all where a file of tests may need any."""
    if not options.test or os.path.exists(
            os.path.join(ROOT, "tests/integration/test_%s.py" % options.test)):
        return ()
    return [kind + "_" + options.test for kind, where in
            (("test", "tests/unit/test"), ("test", "tests/sim/test"), ("fuzz", "tests/fuzz/fuzz"))
            if os.path.exists(os.path.join(ROOT, "%s_%s.c" % (where, options.test)))]


def with_gcc(tally, options, wanted):
    gcc = build(tally, options, "gcc", ["-DCMAKE_C_COMPILER=gcc"], only(options))
    if not gcc:
        return
    tasks = wine(tally, options, gcc) if wanted("wine") else []
    if wanted("unit"):
        tasks += programs(tally, options, gcc, "gcc")
    if wanted("integration"):
        tasks += integration(tally, options, gcc)
    say("tests of %s" % ", ".join(p for p in ("wine", "unit", "integration") if wanted(p)))
    each(tally, options, tasks)


def with_clang(tally, options, wanted):
    """One build for tests and fuzz targets: what measures coverage slows the tests little."""
    folder = build(tally, options, "asan", ["-DCMAKE_C_COMPILER=clang", "-DKDA_SANITIZE=ON",
                                            "-DKDA_FAULTS=ON", "-DKDA_FUZZ=ON"],
                   only(options))
    if not folder:
        return
    tasks = programs(tally, options, folder, "sanitizers, faults") if wanted("sanitizers") else []
    if wanted("fuzz"):
        tasks += fuzz(tally, options, folder)
    say("tests of %s" % ", ".join(p for p in ("sanitizers", "fuzz") if wanted(p)))
    each(tally, options, tasks)


def threads(tally, options):
    names = ["test_event_ring", "test_event_ring_threads"] + sorted(
        os.path.basename(p)[:-2] for p in glob.glob(os.path.join(ROOT, "tests/sim/test_*.c")))
    folder = build(tally, options, "tsan", ["-DCMAKE_C_COMPILER=clang", "-DKDA_TSAN=ON"], names)
    if folder:
        say("tests of threads")
        each(tally, options, programs(tally, options, folder, "threads"))


def plain(tally, options):
    folder = build(tally, options, "clang", ["-DCMAKE_C_COMPILER=clang"])
    if folder:
        say("tests of plain")
        each(tally, options, programs(tally, options, folder, "clang"))


def everything(tally, options):
    wanted = lambda part: not options.only or part in options.only.split(",")
    if wanted("style"):
        style(tally, options)
    if wanted("models"):
        models(tally, options)
    if wanted("unit") or wanted("integration") or wanted("wine"):
        with_gcc(tally, options, wanted)
    if wanted("sanitizers") or wanted("fuzz"):
        with_clang(tally, options, wanted)
    if wanted("threads"):
        threads(tally, options)
    if wanted("mutants"):
        mutants(tally, options)
    if options.whole and wanted("plain"):
        plain(tally, options)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only")
    parser.add_argument("--test", help="NAME of test_NAME, fuzz_NAME or test_NAME.py")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--times", action="store_true", help="the slowest tests at the end")
    parser.add_argument("--mutants", type=int, default=10, help="every n-th seeded mistake")
    parser.add_argument("--fuzz-seconds", type=int, default=2)
    parser.add_argument("--fuzz-max-len", type=int, default=400000)
    parser.add_argument("--module", help=argparse.SUPPRESS)
    parser.add_argument("--pattern", help=argparse.SUPPRESS)
    parser.add_argument("--counts", help=argparse.SUPPRESS)
    options = parser.parse_args()
    tally = Tally()
    if options.module:
        module(tally, options.module, options.pattern)
        with open(options.counts, "w", encoding="utf-8") as f:
            json.dump([tally.passed, tally.skipped, tally.failures], f)
        return 0
    options.build = os.path.join(ROOT, options.build)
    os.makedirs(options.build, exist_ok=True)
    if options.whole:
        os.environ["KDA_TEST_WHOLE"] = "1"
        options.mutants = 1
    else:
        os.environ["KDA_SIM_CYCLES"] = "100"
    everything(tally, options)
    if options.times:
        for seconds, name in sorted(tally.times, reverse=True)[:20]:
            print("%6.1f s  %s" % (seconds, name))
    for name in tally.failures:
        print("failed: %s" % name)
    print("%d passed, %d failed, %d skipped" % (tally.passed, len(tally.failures), tally.skipped))
    return 1 if tally.failures or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
