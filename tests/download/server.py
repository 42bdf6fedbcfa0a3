#!/usr/bin/env python3
"""Symbol server for the download tests: serves a store, and misbehaves on request.

usage: server.py ROOT

ROOT/good.pdb and ROOT/other.pdb are made by the test. The first component of a request's path is
the mode. The server prints its port, then one line per request ("METHOD path [Range]") into
ROOT/requests.log. It ends when its standard input closes.
"""

import http.server
import os
import struct
import sys
import threading
import time
import zlib

ROOT = sys.argv[1]
LOCK = threading.Lock()
SEEN = {}  # mode -> requests so far, for modes that change their answer
HALF = threading.Event()  # never set: a stalled answer waits on it


def load(name):
    with open(os.path.join(ROOT, name), "rb") as file:
        return file.read()


def cabinet(name, data):
    """One MSZIP folder with one file, as symstore /compress writes it."""
    blocks, history = [], b""
    for pos in range(0, len(data), 32768):
        piece = data[pos:pos + 32768]
        packer = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=history)
        packed = b"CK" + packer.compress(piece) + packer.flush()
        blocks.append(struct.pack("<IHH", 0, len(packed), len(piece)) + packed)
        history = piece
    entry = struct.pack("<IIHHHH", len(data), 0, 0, 0x5821, 0, 0x20) + name.encode() + b"\0"
    files_at = 36 + 8
    data_at = files_at + len(entry)
    body = b"".join(blocks)
    head = struct.pack("<4sIIIIIBBHHHHH", b"MSCF", 0, data_at + len(body), 0, files_at, 0, 3, 1, 1,
                       1, 0, 0, 0)
    folder = struct.pack("<IHH", data_at, len(blocks), 1)
    return head + folder + entry + body


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    wbufsize = 1 << 16  # head and body in one packet: no wait for the client's ACK

    def log_message(self, *args):
        pass

    def send(self, code, body=b"", **headers):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def missing(self):
        self.send(404, b"<html>not here</html>", Content_Type="text/html")

    def announce(self, code, length, **headers):
        """Head of an answer whose body will not be what it promises."""
        self.send_response(code)
        self.send_header("Content-Length", str(length))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.close_connection = True

    def wanted(self):
        """Offset of a Range request, or None."""
        value = self.headers.get("Range", "")
        return int(value[6:-1]) if value.startswith("bytes=") and value.endswith("-") else None

    def ranged(self, data, etag):
        start = self.wanted()
        if start is None or self.headers.get("If-Range", etag) != etag:
            self.send(200, data, ETag=etag)
        elif start >= len(data):
            self.send(416, b"", Content_Range="bytes */%d" % len(data))
        else:
            self.send(206, data[start:], ETag=etag,
                      Content_Range="bytes %d-%d/%d" % (start, len(data) - 1, len(data)))

    def do_GET(self):
        path = self.path
        if path.startswith("http://"):  # asked as a proxy
            path = "/proxied/" + path.split("/", 3)[3]
        with LOCK:
            with open(os.path.join(ROOT, "requests.log"), "a", encoding="utf-8") as log:
                log.write("GET %s %s\n" % (self.path, self.headers.get("Range", "")))
            mode = path.split("/")[1]
            SEEN[mode] = SEEN.get(mode, 0) + 1
            count = SEEN[mode]
        rest = path.split("/")[2:]
        getattr(self, "mode_" + mode, self.mode_unknown)(rest, count)

    def mode_unknown(self, rest, count):
        self.missing()

    def is_pdb(self, rest):
        return len(rest) == 3 and rest[0] == rest[2] and rest[1].upper() == rest[1]

    # --- honest stores ---

    def mode_store(self, rest, count):
        if self.is_pdb(rest):
            self.ranged(load("good.pdb"), '"good"')
        else:
            self.missing()

    def mode_proxied(self, rest, count):
        self.mode_store(rest[1:], count)

    def mode_cab(self, rest, count):
        if len(rest) == 3 and rest[2] == rest[0][:-1] + "_":
            self.send(200, cabinet(rest[0], load("good.pdb")))
        else:
            self.missing()

    def mode_index2(self, rest, count):
        if rest == ["index2.txt"]:
            self.send(200, b"two levels\n")
        elif len(rest) == 4 and rest[0] == rest[1][:2] and self.is_pdb(rest[1:]):
            self.send(200, load("good.pdb"))
        else:
            self.missing()

    def mode_case(self, rest, count):
        if len(rest) == 3 and all(part == part.lower() for part in rest) and rest[0] == rest[2]:
            self.send(200, load("good.pdb"))
        else:
            self.missing()

    def pointer(self, rest, text):
        if len(rest) == 3 and rest[2] == "file.ptr":
            self.send(200, text.encode())
        elif rest == ["elsewhere", "the file.bin"] or rest == ["elsewhere", "the%20file.bin"]:
            self.send(200, load("good.pdb"))
        else:
            self.missing()

    def mode_ptrrel(self, rest, count):
        self.pointer(rest, "PATH:\\ptrrel\\elsewhere\\the file.bin\r\n")

    def mode_ptrurl(self, rest, count):
        self.pointer(rest, "PATH:http://%s/ptrurl/elsewhere/the%%20file.bin" % self.headers["Host"])

    def mode_ptrlocal(self, rest, count):
        self.pointer(rest, "PATH:file://%s/good.pdb" % ROOT)

    def mode_ptrabs(self, rest, count):
        self.pointer(rest, "PATH:%s/good.pdb" % ROOT)

    def mode_ptrshare(self, rest, count):
        self.pointer(rest, "PATH:\\\\server\\share\\nt.pdb")

    def mode_ptrmsg(self, rest, count):
        self.pointer(rest, "MSG: ask the \x1b[31mbuild team")

    # --- redirects ---

    def mode_redirect(self, rest, count):
        self.send(302, b"moved", Location="/store/" + "/".join(rest))

    def mode_loop(self, rest, count):
        self.send(302, b"", Location="/loop/" + "/".join(rest))

    def mode_tofile(self, rest, count):
        self.send(302, b"", Location="file://%s/good.pdb" % ROOT)

    # --- breakdowns ---

    def mode_truncate(self, rest, count):
        """Always breaks off, cannot resume."""
        data = load("good.pdb")
        self.announce(200, len(data))
        self.wfile.write(data[:len(data) // 2])

    def mode_cutclean(self, rest, count):
        """Ends early without having promised a length."""
        data = load("good.pdb")
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.wfile.write(data[:len(data) // 2])

    def mode_resume(self, rest, count):
        """Breaks off once, then gives the rest."""
        data = load("good.pdb")
        if self.wanted() is None:
            self.announce(200, len(data), ETag='"good"')
            self.wfile.write(data[:len(data) // 2])
        else:
            self.ranged(data, '"good"')

    def mode_norange(self, rest, count):
        """Breaks off once, then sends the whole file, whatever was asked."""
        data = load("good.pdb")
        if count == 1:
            self.announce(200, len(data), ETag='"good"')
            self.wfile.write(data[:len(data) // 2])
        else:
            self.send(200, data, ETag='"good"')

    def mode_changed(self, rest, count):
        """Breaks off once in another file; a part of it must not become the head of this one."""
        data, other = load("good.pdb"), load("other.pdb")
        if count == 1:
            self.announce(200, len(other), ETag='"other"')
            self.wfile.write(other[:len(other) // 2])
        else:
            self.ranged(data, '"good"')

    def mode_badrange(self, rest, count):
        """Breaks off once, then answers a Range with another one."""
        data = load("good.pdb")
        start = self.wanted()
        if count == 1:
            self.announce(200, len(data), ETag='"good"')
            self.wfile.write(data[:len(data) // 2])
        elif start is not None:
            self.send(206, data[:100], Content_Range="bytes 0-99/%d" % len(data))
        else:
            self.send(200, data, ETag='"good"')

    def mode_stall(self, rest, count):
        data = load("good.pdb")
        self.announce(200, len(data))
        self.wfile.write(data[:1000])
        self.wfile.flush()
        HALF.wait(20)

    def mode_slow(self, rest, count):
        data = load("good.pdb")
        start = self.wanted() or 0
        if start:
            self.announce(206, len(data) - start, ETag='"good"', Content_Range="bytes %d-%d/%d" %
                          (start, len(data) - 1, len(data)))
        else:
            self.announce(200, len(data), ETag='"good"')
        for pos in range(start, len(data), 4096):
            self.wfile.write(data[pos:pos + 4096])
            self.wfile.flush()
            time.sleep(0.02)

    def mode_busy(self, rest, count):
        self.send(503, b"later")

    # --- lies ---

    def mode_html(self, rest, count):
        self.send(200, b"<!DOCTYPE html><html>please log in</html>", Content_Type="text/html")

    def mode_other(self, rest, count):
        self.send(200, load("other.pdb"))

    def mode_badcab(self, rest, count):
        data = bytearray(cabinet(rest[0], load("good.pdb")))
        data[len(data) // 2] ^= 0xff
        self.send(200, bytes(data[:-100]))

    def mode_endless(self, rest, count):
        """A sound head, and then it never ends."""
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        data = load("good.pdb")
        for _ in range(10000):
            self.wfile.write(data)

    def mode_empty(self, rest, count):
        self.send(200, b"")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients that hang up are the point of several tests


def main():
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


main()
