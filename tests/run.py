#!/usr/bin/env python3
"""Builds everything and runs every test; prints `N passed, N failed, N skipped` at the end.

Usage: run.py [--build DIR] [--jobs N] [--only PART] [--fuzz-seconds N]

Parts: style, headers, models, unit (gcc, clang, AddressSanitizer with fault injection, and
ThreadSanitizer for the ring), integration, wine (what is built for Windows), fuzz. Each part builds
what it needs.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []

    def ok(self):
        self.passed += 1

    def skip(self, name, why):
        self.skipped += 1
        print("skipped: %s (%s)" % (name, why), flush=True)

    def fail(self, name, text=""):
        self.failed += 1
        self.failures.append(name)
        print("FAILED: %s\n%s" % (name, text.rstrip()), flush=True)


def run(args, **kw):
    return subprocess.run(args, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **kw)


def say(text):
    print("== %s" % text, flush=True)


def check(tally, name, args):
    result = run(args)
    if result.returncode == 0:
        tally.ok()
    else:
        tally.fail(name, result.stdout)


def style(tally, _):
    say("style")
    check(tally, "include direction", ["python3", "tools/check_includes.py", "."])
    check(tally, "rules of the kernel's interfaces", ["python3", "tools/check_rules.py", "."])
    check(tally, "style rules", ["python3", "tools/check_style.py", "."])
    files = [f for pattern in ("include/kda/*.h", "event/*.[ch]", "tools/*.c", "lib/**/*.[ch]",
                               "cli/*.[ch]", "driver/**/*.[ch]", "sim/*.[ch]", "tests/**/*.[ch]")
             for f in glob.glob(os.path.join(ROOT, pattern), recursive=True)
             if not f.endswith("_data.c")]
    formatter = "clang-format-14"
    check(tally, "clang-format", [formatter, "--dry-run", "-Werror"] + sorted(files))


def headers(tally, _):
    """Every public header compiles alone, as C11 and as C++."""
    say("public headers")
    for header in sorted(glob.glob(os.path.join(ROOT, "include/kda/*.h"))):
        name = os.path.basename(header)
        check(tally, "header %s" % name,
              ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-fsyntax-only",
               "-x", "c", header])


def driver_facts(tally, _):
    """Constants and layouts of the driver's own headers, against those that come with mingw-w64."""
    say("facts of the driver's headers")
    result = run([sys.executable, "tools/check_ddk.py"])
    if result.returncode == 77:
        tally.skip("facts of the driver's headers", "mingw-w64 is not installed")
    elif result.returncode != 0:
        tally.fail("facts of the driver's headers", result.stdout)
    else:
        tally.ok()


def models(tally, options):
    """Spin models: each file says on its first lines how large it is and what must come out."""
    spin = shutil.which("spin")
    if not spin:
        tally.skip("models", "spin is not installed")
        return
    say("models")
    for model in sorted(glob.glob(os.path.join(ROOT, "tests/models/*.pml"))):
        result = run([sys.executable, "tests/models/check.py", model,
                      os.path.join(options.build, "models")])
        print(result.stdout, end="", flush=True)
        if result.returncode == 0:
            tally.ok()
        else:
            tally.fail("model %s" % os.path.basename(model), result.stdout)


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


def unit(tally, options, folder, label):
    say("unit tests, %s" % label)
    programs = sorted(p for p in glob.glob(os.path.join(folder, "test_*"))
                      if os.access(p, os.X_OK) and os.path.isfile(p))
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", ASAN_OPTIONS="detect_leaks=1",
               UBSAN_OPTIONS="print_stacktrace=1")
    for program in programs:
        name = os.path.basename(program)
        try:
            result = run([program], env=env, timeout=900)
        except subprocess.TimeoutExpired:
            tally.fail("%s (%s)" % (name, label), "no end after 900 s")
            continue
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
            tally.fail("%s (%s)" % (name, label),
                       "ended with %d after %d tests\n%s" % (result.returncode, seen,
                                                              result.stdout[-3000:]))
        elif result.returncode != 0 and "not ok" not in result.stdout:
            tally.fail("%s (%s)" % (name, label), result.stdout[-3000:])


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


def integration(tally, options, folder):
    say("integration tests")
    os.environ["KDA_TEST_BIN"] = os.path.abspath(folder)
    os.environ["KDA_TEST_WORK"] = os.path.abspath(os.path.join(options.build, "work"))
    sys.path.insert(0, os.path.join(ROOT, "tests/integration"))
    suite = unittest.TestLoader().discover(os.path.join(ROOT, "tests/integration"),
                                                pattern=options.pattern)
    suite.run(Result(tally))


def wine(tally, options, folder):
    """Programs for Windows in Wine; `folder` has those of this system, to compare with."""
    compiler = "x86_64-w64-mingw32-gcc-win32"
    if not shutil.which(compiler):
        tally.skip("wine", "%s is not installed" % compiler)
        return
    windows = build(tally, options, "windows", ["-DCMAKE_TOOLCHAIN_FILE=cmake/mingw.cmake"])
    if not windows:
        return
    sys.path.insert(0, os.path.join(ROOT, "tests/wine"))
    os.environ["KDA_TEST_BIN"] = os.path.abspath(folder)
    os.environ["KDA_TEST_WORK"] = os.path.abspath(os.path.join(options.build, "work"))
    os.environ["KDA_TEST_WINDOWS"] = os.path.abspath(windows)
    import wine_host
    if not wine_host.find():
        tally.skip("wine", "wine64 is not installed")
        return
    say("tests in Wine")
    sys.path.insert(0, os.path.join(ROOT, "tests/integration"))
    suite = unittest.TestLoader().discover(os.path.join(ROOT, "tests/wine"),
                                                pattern=options.pattern)
    try:
        suite.run(Result(tally))
    finally:
        wine_host.stop()


def fuzz(tally, options, folder):
    say("fuzzing, %d s per target" % options.fuzz_seconds)
    for program in sorted(glob.glob(os.path.join(folder, "fuzz_*"))):
        if not os.access(program, os.X_OK) or not os.path.isfile(program):
            continue
        name = os.path.basename(program)
        corpus = os.path.join(ROOT, "tests/fuzz/corpus", name[5:])
        work = os.path.join(options.build, "fuzz", name)
        os.makedirs(work, exist_ok=True)
        args = [program, work] + ([corpus] if os.path.isdir(corpus) else [])
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", choices=["style", "models", "unit", "integration", "wine",
                                           "mutants", "fuzz"])
    parser.add_argument("--mutants", type=int, default=5, help="every n-th seeded mistake")
    parser.add_argument("--pattern", default="test_*.py")
    parser.add_argument("--fuzz-seconds", type=int, default=5)
    parser.add_argument("--fuzz-max-len", type=int, default=400000)
    options = parser.parse_args()
    options.build = os.path.join(ROOT, options.build)
    os.makedirs(options.build, exist_ok=True)
    tally = Tally()
    wanted = lambda part: options.only in (None, part)

    if wanted("style"):
        style(tally, options)
        headers(tally, options)
        driver_facts(tally, options)
    if wanted("models"):
        models(tally, options)
    if wanted("unit") or wanted("integration") or wanted("wine"):
        gcc = build(tally, options, "gcc", ["-DCMAKE_C_COMPILER=gcc"])
        if gcc and wanted("unit"):
            unit(tally, options, gcc, "gcc")
        if gcc and wanted("integration"):
            integration(tally, options, gcc)
        if gcc and wanted("wine"):
            wine(tally, options, gcc)
    if wanted("unit"):
        clang = build(tally, options, "clang", ["-DCMAKE_C_COMPILER=clang"])
        if clang:
            unit(tally, options, clang, "clang")
        asan = build(tally, options, "asan", ["-DCMAKE_C_COMPILER=clang", "-DKDA_SANITIZE=ON",
                                              "-DKDA_FAULTS=ON"])
        if asan:
            unit(tally, options, asan, "sanitizers, faults")
        threaded = ["test_event_ring", "test_event_ring_threads"] + sorted(
            os.path.basename(p)[:-2] for p in glob.glob(os.path.join(ROOT, "tests/sim/test_*.c")))
        tsan = build(tally, options, "tsan", ["-DCMAKE_C_COMPILER=clang", "-DKDA_TSAN=ON"],
                     threaded)
        if tsan:
            unit(tally, options, tsan, "threads")
    if wanted("mutants"):
        mutants(tally, options)
    if wanted("fuzz"):
        folder = build(tally, options, "fuzzers",
                       ["-DCMAKE_C_COMPILER=clang", "-DKDA_SANITIZE=ON", "-DKDA_FUZZ=ON",
                        "-DKDA_TESTS=OFF"])
        if folder:
            fuzz(tally, options, folder)

    for name in tally.failures:
        print("failed: %s" % name)
    print("%d passed, %d failed, %d skipped" % (tally.passed, tally.failed, tally.skipped))
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
