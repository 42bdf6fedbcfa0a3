"""Wine for the tests: a prefix of their own in the build folder, and programs run in it."""
import os
import shutil
import subprocess

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


KEEPER = []


def prepare():
    """Makes the prefix, and starts something that stays: Wine's services then live on between the
    programs of the tests, and do not hold their pipes open."""
    if KEEPER:
        return
    os.makedirs(WORK, exist_ok=True)
    KEEPER.append(subprocess.Popen(command("cmd.exe"), env=environment(), stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    # The prefix is complete when a second program has come and gone.
    subprocess.run(command("cmd.exe", "/c", "exit"), env=environment(), timeout=TIMEOUT,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   check=True)


def stop():
    """Ends everything that runs in the prefix, and waits for it."""
    while KEEPER:
        keeper = KEEPER.pop()
        keeper.stdin.close()
        keeper.wait(timeout=TIMEOUT)
    server = program("wineserver")
    if server and os.path.isdir(PREFIX):
        for option in ("-k", "-w"):
            subprocess.run([server, option], env=environment(), timeout=TIMEOUT,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def windows_path(path):
    """Wine's drive Z: is the root of this system."""
    return "Z:" + os.path.abspath(path).replace("/", "\\")
