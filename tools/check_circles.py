#!/usr/bin/env python3
"""Fails when files of one folder of the library, or of event/, use each other in a circle.

Usage: check_circles.py ROOT

A file uses another of its folder when it names a function or a table that the other defines. Files
that use each other in a circle cannot be read, tested or moved one at a time. KNOWN lists the
circles that stand; one that is broken up must leave the list, so that it does not come back.
"""
import os
import re
import sys

from check_style import strip_comments

# Folder: sets of files, by their names without ".c".
KNOWN = {
    "lib/etw": [("buffer_bytes", "buffers", "buffers_user"),
                ("consumer", "handles", "registration"),
                ("plausible", "provider", "session"),
                ("recall", "recall_etw", "recall_table")],
    "lib/fit": [("fit", "fit_anchor"),
                ("fit_handle", "fit_nt", "fit_process", "fit_start"),
                ("fit_module", "fit_provider", "fit_state", "fit_witness")],
    "lib/kernel": [("handle", "pool_object", "process", "process_proof", "process_read"),
                   ("kdbg", "kernel", "pool")],
    "lib/log": [("totals", "verify")],
    "lib/report": [("columns", "csv", "escape", "json", "report", "table"),
                   ("map", "map_providers")],
    "lib/symbols": [("fetch", "http")],
}

FUNCTION = re.compile(r"^(?!static\b|typedef\b|extern\b)[a-z][^;{}=]*?\b(kda_\w+)\([^;{}]*\)"
                      r"\s*\n\{", re.M)
TABLE = re.compile(r"^(?!static\b|typedef\b|extern\b)[a-z][^;{}()=]*?\b(kda_\w+)"
                   r"(?:\[[^=;]*\])?\s*=", re.M)
NAME = re.compile(r"(?<!struct )(?<!enum )\bkda_\w+")  # functions and tables, not types


def uses(folder):
    """File -> files of the folder that define what it names."""
    texts = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".c"):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                node = re.sub(r"_(posix|win)$", "", name[:-2])  # one file for each system
                texts[node] = texts.get(node, "") + strip_comments(f.read())
    owner = {}
    for name, text in texts.items():
        for pattern in (FUNCTION, TABLE):
            for found in pattern.findall(text):
                owner.setdefault(found, set()).add(name)
    return {name: {o for word in NAME.findall(text) for o in owner.get(word, ()) if o != name}
            for name, text in texts.items()}


def circles(graph):
    """Strongly connected components of more than one file: who reaches whom and back."""
    reach = {}
    for start in graph:
        seen, todo = set(), [start]
        while todo:
            for other in graph[todo.pop()] - seen:
                seen.add(other)
                todo.append(other)
        reach[start] = seen
    return sorted({tuple(sorted(b for b in reach[a] if a in reach[b]))
                   for a in graph if a in reach[a]})


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    problems = []
    layers = ["lib/" + name for name in sorted(os.listdir(os.path.join(root, "lib")))]
    for layer in ["event"] + layers:
        folder = os.path.join(root, layer)
        if not os.path.isdir(folder):
            continue
        graph = uses(folder)
        found, known = circles(graph), {tuple(sorted(c)) for c in KNOWN.get(layer, ())}
        for circle in found:
            if circle not in known:
                edges = ["%s -> %s" % (a, b) for a in circle
                         for b in sorted(graph[a] & set(circle))]
                problems.append("%s: a circle of files: %s" % (layer, ", ".join(edges)))
        for circle in sorted(known - set(found)):
            problems.append("%s: no circle any more, take it out of KNOWN: %s" % (
                layer, ", ".join(circle)))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
