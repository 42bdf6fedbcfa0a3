"""Physical memory of an image, and virtual addresses through its page tables.

Written for the judge alone, from the processor's manual, so that nothing of what it says about an
image comes from the reader that is judged (which only unpacks the file's format).
"""
import mmap
import os
import subprocess

PAGE = 4096
FRAME = 0x000FFFFFFFFFF000
KERNEL = 0xFFFF800000000000


class Memory:
    def __init__(self, engine, image, work):
        path = os.path.join(work, os.path.basename(image) + ".memory")
        if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(image):
            part = "%s.%d" % (path, os.getpid())
            subprocess.run([engine, image, "--memory", part], check=True)
            os.rename(part, path)
        with open(path, "rb") as file:
            self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.frames = len(self.bytes) // (PAGE + 1)
        self.present = self.bytes[self.frames * PAGE:]

    def has(self, pfn):
        return pfn < self.frames and self.present[pfn] == 1

    def page(self, pfn):
        return self.bytes[pfn * PAGE:(pfn + 1) * PAGE]

    def qword(self, pa):
        return int.from_bytes(self.bytes[pa:pa + 8], "little")


class Space:
    """One address space: `dtb` is the root of its page tables."""

    def __init__(self, memory, dtb, levels=4):
        self.memory, self.dtb, self.levels = memory, dtb, levels
        self.cache = {}

    @staticmethod
    def follow(entry):
        """Frame address of a present or transition entry, or None."""
        if entry & 1:
            return entry & FRAME
        if entry & 0x800 and not entry & 0x400:  # transition, not prototype
            return entry & FRAME
        return None

    def translate(self, va):
        """(physical address or None, frames looked at on the way, the page's own one last)."""
        key = va // PAGE
        if key not in self.cache:
            self.cache[key] = self.walk(va)
        pa, frames = self.cache[key]
        return (None if pa is None else pa | va % PAGE), frames

    def walk(self, va):
        table, frames = self.dtb, []
        for level in range(self.levels - 1, -1, -1):
            frames.append(table // PAGE)
            if not self.memory.has(table // PAGE):
                return None, tuple(frames)
            entry = self.memory.qword(table + (va >> (12 + 9 * level) & 511) * 8)
            table = self.follow(entry) if level == 0 or entry & 1 else None
            if table is None:
                return None, tuple(frames)
            if 0 < level < 3 and entry & 0x80:
                span = 1 << (12 + 9 * level)
                table = (table & ~(span - 1)) | (va & (span - 1) & ~(PAGE - 1))
                break
        frames.append(table // PAGE)
        if not self.memory.has(table // PAGE):
            return None, tuple(frames)
        return table, tuple(frames)

    def read(self, va, size):
        """Bytes, or None where a page is not in the image."""
        out = b""
        while size > 0:
            pa, _ = self.translate(va)
            if pa is None:
                return None
            step = min(size, PAGE - va % PAGE)
            out += self.memory.bytes[pa:pa + step]
            va += step
            size -= step
        return out

    def u64(self, va):
        data = self.read(va, 8)
        return None if data is None else int.from_bytes(data, "little")

    def frames_of(self, va, size):
        """All frames that reading these bytes needs, page tables included."""
        out = set()
        for page in range(va // PAGE, (va + max(size, 1) - 1) // PAGE + 1):
            out.update(self.translate(page * PAGE)[1])
        return frozenset(out)

    def frame_at(self, va):
        """The frame that holds the byte, or None."""
        pa, _ = self.translate(va)
        return None if pa is None else pa // PAGE

    def kernel_pages(self):
        """(virtual address, frame) of every page that the kernel's half maps, in order."""
        def down(table, level, prefix, first):
            if not self.memory.has(table // PAGE):
                return
            for index in range(first, 512):
                entry = self.memory.qword(table + index * 8)
                va = prefix | index << (12 + 9 * level)
                into = self.follow(entry) if level == 0 or entry & 1 else None
                if into is None:
                    continue
                if level == 0:
                    yield va, into // PAGE
                elif level < 3 and entry & 0x80:
                    pages = 1 << 9 * level
                    base = into // PAGE & ~(pages - 1)
                    for page in range(pages):
                        yield va + page * PAGE, base + page
                elif into // PAGE != self.dtb // PAGE:  # not the map of the page tables themselves
                    yield from down(into, level - 1, va, 0)
        top = 0xFFFF << 48 if self.levels == 4 else 0xFE << 56
        return down(self.dtb, self.levels - 1, top, 256)
