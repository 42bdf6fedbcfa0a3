#!/usr/bin/env python3
"""Writes a copy of a driver that takes from kdatestk.sys what it took from ntoskrnl.exe.

Usage: rename_kernel.py DRIVER COPY
"""
import sys

OLD, NEW = b"ntoskrnl.exe\0", b"kdatestk.sys\0"


def main():
    with open(sys.argv[1], "rb") as f:
        data = f.read()
    if data.count(OLD) != 1:
        print("%s names the kernel %d times" % (sys.argv[1], data.count(OLD)), file=sys.stderr)
        return 1
    with open(sys.argv[2], "wb") as f:
        f.write(data.replace(OLD, NEW))
    return 0


if __name__ == "__main__":
    sys.exit(main())
