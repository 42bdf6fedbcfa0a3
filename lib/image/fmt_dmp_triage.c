/*
 * Triage dumps (DumpType 4, "small memory dump"): no physical pages, but facts, a driver list and
 * pieces of virtual memory. Source: TRIAGE_DUMP64 at 0x2000, checked against real dumps of 19041,
 * 22000 and 26100.
 */
#include "triage.h"

#include <string.h>

#include "bytes.h"
#include "dmp.h"
#include "runs.h"
#include "text.h"

/* Offsets in the file. */
enum {
    OFF_VALID = 0x2008,
    OFF_PROCESS = 0x2020,
    OFF_THREAD = 0x2024,
    OFF_CALL_STACK = 0x2028,
    OFF_CALL_STACK_SIZE = 0x202C,
    OFF_DRIVER_LIST = 0x2030,
    OFF_DRIVER_COUNT = 0x2034,
    OFF_TOP_OF_STACK = 0x2048,
    OFF_KDBG = 0x2070,
    OFF_KDBG_SIZE = 0x2074,
    OFF_BLOCKS = 0x2078,
    OFF_BLOCK_COUNT = 0x207C,
    DIRECTORY_END = 0x2080,
};

/* Driver entry of x64; the list of another machine has another size. */
enum {
    DRIVER_BASE = 0x38,
    DRIVER_SIZE = 0x48,
    DRIVER_CHECKSUM = 0x80,
    DRIVER_STAMP = 0x88,
    DRIVER_ENTRY = 0x90,
};

#define MACHINE_X64 0x8664u
#define MAX_DRIVERS 4096u
#define MAX_BLOCKS 65536u
#define MAX_NAME 512u /* UTF-16 units; real names have some 12 */
#define BLOCK_ENTRY 16u

/* Debugger data block. Source: KDDEBUGGER_DATA64; sizes seen 0x340 to 0x3A0. */
enum { KDBG_TAG = 0x10, KDBG_LENGTH = 0x14, KDBG_BASE = 0x18, KDBG_MIN = 0x20, KDBG_MAX = 0x1000 };
enum { KDBG_SIZE_EPROCESS = 0x2A8, KDBG_OFFSET_PARENT = 0x2AC };

static enum kda_status probe(struct kda_image *image, struct kda_error *err)
{
    uint32_t type;
    enum kda_status status = kda_dmp_type(image, &type, err);
    if (status != KDA_OK)
        return status;
    return type == KDA_DMP_TRIAGE ? KDA_OK : KDA_NOT_MINE;
}

static uint32_t entry32(const uint8_t *directory, size_t off)
{
    return kda_le32(directory + (off - KDA_DMP_HEADER));
}

/* Does [off, off + size) lie in the file? */
static bool in_file(const struct kda_image *image, uint64_t off, uint64_t size)
{
    uint64_t end = kda_file_size(image->file);
    return off <= end && size <= end - off;
}

/* Text of a driver's name, in the arena; "" if it cannot be told. */
static enum kda_status read_name(struct kda_image *image, uint32_t off, const char **ret,
                                 struct kda_error *err)
{
    uint8_t bytes[4 + 2 * MAX_NAME];
    char text[KDA_UTF8_MAX(MAX_NAME) + 1];
    *ret = "";
    if (!in_file(image, off, 4))
        return KDA_OK;
    enum kda_status status = kda_file_read_at(image->file, off, bytes, 4, err);
    if (status != KDA_OK)
        return status;
    uint32_t units = kda_le32(bytes);
    if (units == 0 || units > MAX_NAME || !in_file(image, (uint64_t)off + 4, 2 * (uint64_t)units))
        return KDA_OK;
    status = kda_file_read_at(image->file, (uint64_t)off + 4, bytes + 4, 2 * (size_t)units, err);
    if (status != KDA_OK)
        return status;
    size_t length = kda_utf16_to_utf8(bytes + 4, units, false, text, sizeof(text));
    char *copy = kda_arena_strndup(&image->arena, text, length);
    if (!copy)
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory for driver names");
    *ret = copy;
    return KDA_OK;
}

/* How many entries of `size` bytes at `off` to read: what is stated, but no more than the file
 * holds and the limit allows. */
static size_t usable(struct kda_image *image, const char *what, uint32_t off, uint32_t count,
                     uint32_t size, uint32_t limit)
{
    uint64_t end = kda_file_size(image->file);
    uint64_t room = off < end ? (end - off) / size : 0;
    uint64_t n = count < limit ? count : limit;
    if (n > room)
        n = room;
    if (n < count)
        kda_image_warn(image, "the header counts %u %s, but only %llu of them are usable", count,
                       what, (unsigned long long)n);
    return (size_t)n;
}

static enum kda_status read_drivers(struct kda_image *image, const uint8_t *directory,
                                    struct kda_error *err)
{
    uint32_t off = entry32(directory, OFF_DRIVER_LIST);
    uint32_t stated = entry32(directory, OFF_DRIVER_COUNT);
    if (image->info.machine != MACHINE_X64) {
        kda_image_warn(image, "not an x64 dump: its driver list is not read");
        return KDA_OK;
    }
    size_t count = usable(image, "drivers", off, stated, DRIVER_ENTRY, MAX_DRIVERS);
    struct kda_image_driver *drivers =
        kda_arena_alloc(&image->arena, (count + 1) * sizeof(*drivers));
    if (!drivers)
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory for %zu drivers", count);
    for (size_t i = 0; i < count; i++) {
        uint8_t entry[DRIVER_ENTRY];
        enum kda_status status =
            kda_file_read_at(image->file, off + i * DRIVER_ENTRY, entry, sizeof(entry), err);
        if (status == KDA_OK)
            status = read_name(image, kda_le32(entry), &drivers[i].name, err);
        if (status != KDA_OK)
            return status;
        drivers[i].base = kda_le64(entry + DRIVER_BASE);
        drivers[i].size = kda_le32(entry + DRIVER_SIZE);
        drivers[i].checksum = kda_le32(entry + DRIVER_CHECKSUM);
        drivers[i].timestamp = kda_le32(entry + DRIVER_STAMP);
    }
    image->info.drivers = drivers;
    image->info.driver_count = count;
    return KDA_OK;
}

/* The array of data blocks; those that lie in the file also go to the searchable `pieces`. */
static enum kda_status read_blocks(struct kda_image *image, const uint8_t *directory,
                                   struct kda_runs *pieces, struct kda_error *err)
{
    uint32_t off = entry32(directory, OFF_BLOCKS);
    uint32_t stated = entry32(directory, OFF_BLOCK_COUNT);
    size_t count = usable(image, "data blocks", off, stated, BLOCK_ENTRY, MAX_BLOCKS), kept = 0;
    struct kda_image_block *blocks = kda_arena_alloc(&image->arena, (count + 1) * sizeof(*blocks));
    if (!blocks)
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory for %zu data blocks", count);
    for (size_t i = 0; i < count; i++) {
        uint8_t entry[BLOCK_ENTRY];
        enum kda_status status =
            kda_file_read_at(image->file, off + i * BLOCK_ENTRY, entry, sizeof(entry), err);
        if (status != KDA_OK)
            return status;
        struct kda_image_block block = {kda_le64(entry), kda_le32(entry + 8), kda_le32(entry + 12)};
        if (!in_file(image, block.file_off, block.size) || block.va > UINT64_MAX - block.size)
            continue;
        blocks[kept++] = block;
        status = kda_runs_add(pieces, block.va, block.size, block.file_off, err);
        if (status != KDA_OK)
            return status;
    }
    if (kept < count)
        kda_image_warn(image, "%zu data blocks lie outside of the file", count - kept);
    image->info.blocks = blocks;
    image->info.block_count = kept;
    return KDA_OK;
}

/* The copy of the debugger data block is never encoded in these dumps. */
static enum kda_status read_kdbg(struct kda_image *image, const uint8_t *directory,
                                 struct kda_triage_process *process, struct kda_error *err)
{
    uint32_t off = entry32(directory, OFF_KDBG), size = entry32(directory, OFF_KDBG_SIZE);
    uint8_t block[KDBG_OFFSET_PARENT + 2] = {0};
    if (size < KDBG_MIN || size > KDBG_MAX || !in_file(image, off, size))
        return KDA_OK;
    size_t n = size < sizeof(block) ? size : sizeof(block);
    enum kda_status status = kda_file_read_at(image->file, off, block, n, err);
    if (status != KDA_OK)
        return status;
    if (memcmp(block + KDBG_TAG, "KDBG", 4) != 0) {
        kda_image_warn(image, "the copy of the debugger data block is damaged");
        return KDA_OK;
    }
    uint32_t own = kda_le32(block + KDBG_LENGTH);
    image->info.kdbg_off = off;
    image->info.kdbg_size = own >= KDBG_MIN && own < size ? own : size;
    image->info.kernel_base = kda_le64(block + KDBG_BASE);
    if (image->info.kdbg_size >= sizeof(block)) {
        process->size = kda_le16(block + KDBG_SIZE_EPROCESS);
        process->parent_off = kda_le16(block + KDBG_OFFSET_PARENT);
    }
    return KDA_OK;
}

static enum kda_status add_stack(struct kda_image *image, const uint8_t *directory,
                                 struct kda_runs *pieces, struct kda_error *err)
{
    uint64_t va = kda_le64(directory + (OFF_TOP_OF_STACK - KDA_DMP_HEADER));
    uint32_t off = entry32(directory, OFF_CALL_STACK),
             size = entry32(directory, OFF_CALL_STACK_SIZE);
    if (va == 0 || !in_file(image, off, size) || va > UINT64_MAX - size)
        return KDA_OK;
    return kda_runs_add(pieces, va, size, off, err);
}

static enum kda_status check_complete(struct kda_image *image, const uint8_t *directory,
                                      struct kda_error *err)
{
    uint32_t off = entry32(directory, OFF_VALID);
    uint8_t tag[4];
    if (in_file(image, off, sizeof(tag))) {
        enum kda_status status = kda_file_read_at(image->file, off, tag, sizeof(tag), err);
        if (status != KDA_OK)
            return status;
        if (memcmp(tag, "TRGD", 4) == 0)
            return KDA_OK;
    }
    kda_image_warn(image, "the triage dump is incomplete: its end mark is missing");
    return KDA_OK;
}

static enum kda_status read_parts(struct kda_image *image, const uint8_t *directory,
                                  struct kda_runs *pieces, struct kda_error *err)
{
    struct kda_triage_process process = {.off = entry32(directory, OFF_PROCESS),
                                         .thread_off = entry32(directory, OFF_THREAD)};
    enum kda_status status = check_complete(image, directory, err);
    if (status == KDA_OK)
        status = read_kdbg(image, directory, &process, err);
    if (status == KDA_OK)
        status = read_drivers(image, directory, err);
    if (status == KDA_OK)
        status = read_blocks(image, directory, pieces, err);
    if (status == KDA_OK)
        status = add_stack(image, directory, pieces, err);
    if (status == KDA_OK)
        status = kda_triage_read_process(image, &process, err);
    if (status == KDA_OK && image->info.process_va != 0 &&
        in_file(image, process.off, process.size))
        status = kda_runs_add(pieces, image->info.process_va, process.size, process.off, err);
    return status == KDA_OK ? kda_runs_finish(pieces, kda_file_size(image->file), err) : status;
}

static enum kda_status open(struct kda_image *image, struct kda_error *err)
{
    uint8_t header[KDA_DMP_HEADER], directory[DIRECTORY_END - KDA_DMP_HEADER];
    enum kda_status status = kda_dmp_read_header(image, header, err);
    if (status != KDA_OK)
        return status;
    if (!in_file(image, KDA_DMP_HEADER, sizeof(directory)))
        return kda_fail(err, KDA_BAD_DATA, "image", "the triage dump ends before its directory");
    status = kda_file_read_at(image->file, KDA_DMP_HEADER, directory, sizeof(directory), err);
    if (status != KDA_OK)
        return status;
    image->info.kind = KDA_IMAGE_TRIAGE;
    struct kda_runs *pieces;
    status = kda_image_new_runs(image, &pieces, err);
    return status == KDA_OK ? read_parts(image, directory, pieces, err) : status;
}

static bool no_runs(struct kda_image *image, uint64_t pa, uint64_t *start, uint64_t *size)
{
    (void)image;
    (void)pa;
    (void)start;
    (void)size;
    return false;
}

const struct kda_image_ops kda_fmt_dmp_triage = {
    .probe = probe,
    .open = open,
    .read = kda_image_runs_read,
    .next_run = no_runs,
    .close = kda_image_runs_close,
};
