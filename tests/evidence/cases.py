"""Cases of damage: words for kda-evidence, made from seeds so that each can be made again."""
import random

PAGE = 4096
KINDS = ("missing", "zero", "0x41", "other")


def each_page(memory, frames, kind, seed=1):
    """One case per frame: missing, zero, 0x41, or another page ("other")."""
    frames = sorted(frames)
    rng = random.Random("%s %d" % (kind, seed))
    for pfn in frames:
        if kind == "other":
            source = rng.choice(frames)
            while source == pfn or memory.page(source) == memory.page(pfn):
                source = rng.choice(frames)
            yield "=%x:%x" % (pfn, source)
        else:
            yield {"missing": "-", "zero": "z", "0x41": "A"}[kind] + "%x" % pfn


def is_pointer(value):
    return 0xFFFF800000000000 <= value < 0xFFFFFFFFFFFFF000


def edit_of(rng, value, pool):
    """A single edit of a qword, of the kinds that memory shows: a link beside its place, another
    object's address, a bit, a count, a type byte, nothing."""
    how = rng.randrange(8)
    if is_pointer(value):
        if how < 3:
            return value + rng.choice((8, -8, 16, -16, 0x20))
        if how < 5:
            return rng.choice(pool)
        return (0, value ^ 1 << rng.randrange(48), value & ~0xFFF, rng.getrandbits(64))[how % 4]
    if how < 2:
        return value + rng.choice((1, -1, 8, 0x100))
    if how < 4:
        return value ^ 1 << rng.randrange(64)
    if how < 6:
        shift = 8 * rng.randrange(8)  # a type or count byte
        return value & ~(0xFF << shift) | rng.randrange(256) << shift
    return rng.choice(pool) if how == 6 else rng.choice((0, 2 ** 64 - 1, 0x4141414141414141, 1))


def mutants(memory, frames, count, seed):
    """`count` single edits. Three of four hit a qword that is not zero (what holds something is
    what readers go by), the others any qword of a page that is read."""
    rng = random.Random(seed)
    frames = sorted(frames)
    used, pool = [], []
    for pfn in frames:
        page = memory.page(pfn)
        for at in range(0, PAGE, 8):
            value = int.from_bytes(page[at:at + 8], "little")
            if value:
                used.append(pfn * PAGE + at)
            if is_pointer(value) and value % 8 == 0:
                pool.append(value)
    for _ in range(count):
        pa = rng.choice(used) if rng.randrange(4) else \
            rng.choice(frames) * PAGE + rng.randrange(PAGE // 8) * 8
        value = memory.qword(pa)
        new = edit_of(rng, value, pool) % 2 ** 64
        if new == value:
            new = value ^ 1
        yield "@%x:%x" % (pa, new)


def uniform(frames, rate, seed):
    """Each page is lost with the same chance."""
    rng = random.Random("uniform %g %d" % (rate, seed))
    return {pfn for pfn in frames if rng.random() < rate}


def clustered(frames, rate, seed, run=16):
    """Runs of neighbours in virtual memory are lost together; `frames` in the order of addresses."""
    rng = random.Random("clustered %g %d" % (rate, seed))
    frames, lost = list(frames), set()
    while len(lost) < rate * len(frames):
        start, length = rng.randrange(len(frames)), rng.randrange(1, 2 * run)
        lost.update(frames[start:start + length])
    return lost


def missing(frames):
    return " ".join("-%x" % pfn for pfn in sorted(frames))


def pairs(frames, count, seed):
    """Two pages at a time, each missing, zero or 0x41."""
    rng = random.Random("pairs %d" % seed)
    frames = sorted(frames)
    for _ in range(count):
        yield " ".join("%s%x" % (rng.choice("--zA"), pfn) for pfn in rng.sample(frames, 2))
