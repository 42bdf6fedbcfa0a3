"""Wine for the tests: a prefix of their own in the build folder, and programs run in it."""
import ctypes
import os
import shutil
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = os.environ.get("KDA_TEST_WORK", os.path.join(ROOT, "build/work"))
WINDOWS = os.environ.get("KDA_TEST_WINDOWS", os.path.join(ROOT, "build/windows"))
PREFIX = os.path.join(WORK, "wine")
# Debian puts them there and links them only with the package `wine`.
FOLDER = "/usr/lib/wine"
# Far above what a loaded machine needs: a test that hangs has to end.
TIMEOUT = 600


def program(name):
    return shutil.which(name) or next(
        (p for p in (os.path.join(FOLDER, name),) if os.access(p, os.X_OK)), None)


def find():
    return program("wine64")


def environment(extra=None):
    """Depends on nothing of the machine but where programs are."""
    home = os.path.join(WORK, "wine-home")
    os.makedirs(home, exist_ok=True)
    env = {"PATH": os.environ["PATH"], "HOME": home, "WINEPREFIX": PREFIX, "LC_ALL": "C.UTF-8",
           "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml="}
    env.update(extra or {})
    return env


def command(exe, *args):
    return [find(), exe] + list(args)


def start(exe, *args, env=None, **kw):
    return subprocess.Popen(command(exe, *args), env=environment(env), **kw)


def run(exe, *args, env=None, text=True, cwd=None):
    """Ends with the program's exit code, its output and its errors as bytes or UTF-8 text."""
    return subprocess.run(command(exe, *args), env=environment(env), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT,
                          cwd=cwd, **({"encoding": "utf-8"} if text else {}))


# Source: personality(2).
ADDR_NO_RANDOMIZE, ASK = 0x0040000, 0xFFFFFFFF


def keep_addresses():
    """Programs that are started from here get no random addresses. Wine has to have the page at
    0x7ffe0000; where something else comes to lie there, once in about 5,000 starts, a program ends
    with 1 or 53 and not a word. Where a sandbox does not allow it, it stays as it is."""
    libc = ctypes.CDLL(None)
    now = libc.personality(ctypes.c_ulong(ASK))
    if now >= 0:
        libc.personality(ctypes.c_ulong(now | ADDR_NO_RANDOMIZE))


KEEPER = []


def server(option, env=None):
    name = program("wineserver")
    if name:
        subprocess.run([name, option], env=env or environment(), timeout=TIMEOUT,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)


def begin(env, errors):
    """Makes the prefix. The server first and alone, then one program: those that start at the same
    time would each want to make it, and one fails or waits for ever. The server stays a minute for
    the next program, and not for good where the tests are killed."""
    keep_addresses()
    server("-p60", env)
    subprocess.run(command("cmd.exe", "/c", "exit"), env=env, timeout=TIMEOUT, check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)


def prepare():
    """Makes the prefix, and starts something that stays: Wine's services then live on between the
    programs of the tests, and do not hold their pipes open."""
    if KEEPER:
        return
    if not find():
        raise unittest.SkipTest("needs wine64")
    os.makedirs(WORK, exist_ok=True)
    begin(environment(), subprocess.DEVNULL)
    KEEPER.append(subprocess.Popen(command("cmd.exe"), env=environment(), stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


def stop():
    """Ends everything that runs in the prefix, and waits for it."""
    while KEEPER:
        keeper = KEEPER.pop()
        keeper.stdin.close()
        keeper.wait(timeout=TIMEOUT)
    if os.path.isdir(PREFIX):
        for option in ("-k", "-w"):
            server(option)


def windows_path(path):
    """Wine's drive Z: is the root of this system."""
    return "Z:" + os.path.abspath(path).replace("/", "\\")
