"""What the integration tests share: where things are, running kda, unpacking real files."""
import json
import lzma
import os
import shutil
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("KDA_TEST_BIN", os.path.join(ROOT, "build/gcc"))
WORK = os.environ.get("KDA_TEST_WORK", os.path.join(ROOT, "build/work"))
DATA = os.path.join(ROOT, "../shared/data")
KDA = os.path.join(BIN, "kda")
FORGE = os.path.join(BIN, "kda-forge")


def need_data(path):
    """Full path of a file of ../shared/data, or skips the test."""
    full = os.path.join(DATA, path)
    if not os.path.exists(full):
        raise unittest.SkipTest("needs ../shared/data/" + path)
    return full


def need_tool(name):
    if not shutil.which(name):
        raise unittest.SkipTest("needs " + name)
    return name


def work(name):
    os.makedirs(WORK, exist_ok=True)
    return os.path.join(WORK, name)


def unpack(path):
    """Unpacks an .xz of ../shared/data once, into the build folder."""
    source = need_data(path)
    target = work(os.path.basename(path)[:-3])
    if not os.path.exists(target):
        part = "%s.part%d" % (target, os.getpid())
        with lzma.open(source) as packed, open(part, "wb") as out:
            copy_sparse(packed, out)
        os.rename(part, target)
    return target


def copy_sparse(source, out, block=1 << 14):
    """Copies; blocks of zeros become holes."""
    zeros = bytes(block)
    while True:
        data = source.read(block)
        if not data:
            break
        if data == zeros[:len(data)]:
            out.seek(len(data), os.SEEK_CUR)
        else:
            out.write(data)
    out.truncate()


def kda(*args, env=None, stdin=None, timeout=300, cwd=None):
    """Runs the tool with an environment that depends on nothing of the machine."""
    clean = {"PATH": os.environ["PATH"], "HOME": work("home"), "LC_ALL": "C.UTF-8"}
    for key in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        if key in os.environ:
            clean[key] = os.environ[key]
    clean.update(env or {})
    return subprocess.run([KDA] + list(args), env=clean, stdin=stdin or subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="strict", timeout=timeout, cwd=cwd)


def rows(result, kind=None):
    out = [json.loads(line) for line in result.stdout.splitlines()]
    return out if kind is None else [row for row in out if row["row"] == kind]


def forge(scenario, name, *args):
    """Builds an image from tests/images/scenarios; returns its path."""
    target = work(name)
    source = scenario if os.path.sep in scenario else os.path.join(
        ROOT, "tests/images/scenarios", scenario + ".txt")
    subprocess.run([FORGE, source, "-o", target] + list(args), check=True,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return target


def hexint(text):
    return int(text, 16)
