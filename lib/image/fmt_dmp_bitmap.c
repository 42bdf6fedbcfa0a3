/*
 * Bitmap crash dumps (DumpType 5, 6, and older kernel dumps of type 2): one bit per physical page;
 * the n-th set bit is the n-th stored page. Only the bitmap and a count per 512 bits are kept, so
 * that a machine of 64 GiB costs 2.3 MiB and opens at once.
 */
#include "image_internal.h"

#include <string.h>

#include "bytes.h"
#include "dmp.h"

/* Offsets in the file. */
enum {
    OFF_FIRST_PAGE = 0x2020,
    OFF_PRESENT = 0x2028,
    OFF_BITS = 0x2030,
    OFF_BITMAP = 0x2038,
};

/* 16 TiB of physical memory; its bitmap has 512 MiB and must be in the file before it is read. */
#define MAX_BITS ((uint64_t)1 << 32)

#define WORD_BITS 64u
#define WORDS_PER_BLOCK 8u
/* Longest run told at once (256 MiB), so that asking for it stays cheap. */
#define MAX_RUN_WORDS 1024u

struct bitmap {
    uint64_t *words;
    uint64_t *before; /* set bits before each block of WORDS_PER_BLOCK words */
    uint64_t bits;    /* pages behind this one are absent */
    size_t word_count;
    uint64_t first_page;
    uint64_t present; /* set bits */
};

static unsigned popcount(uint64_t x)
{
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (unsigned)(x * 0x0101010101010101u >> 56);
}

static unsigned lowest_bit(uint64_t x)
{
    return popcount((x & (~x + 1)) - 1);
}

/* This row also answers for dumps that no other row took. */
static enum kda_status probe(struct kda_image *image, struct kda_error *err)
{
    uint32_t type;
    enum kda_status status = kda_dmp_type(image, &type, err);
    if (status != KDA_OK)
        return status;
    enum kda_dmp_tag tag;
    status = kda_dmp_tag(image, &tag, err);
    if (status != KDA_OK)
        return status;
    if (tag == KDA_DMP_TAG_BITMAP)
        return KDA_OK;
    if (type == KDA_DMP_HEADER_ONLY)
        return kda_fail(err, KDA_UNSUPPORTED, "image",
                        "a header-only crash dump (DumpType 3): it holds no memory");
    if (type < KDA_DMP_SUMMARY || type > KDA_DMP_AUTOMATIC)
        return kda_fail(err, KDA_UNSUPPORTED, "image",
                        "a crash dump of unknown DumpType 0x%x; known are 1, 2, 4, 5, 6, 8, 9, 10",
                        type);
    return kda_fail_at(err, KDA_BAD_DATA, "image", KDA_DMP_HEADER,
                       "a crash dump of DumpType %u without its page bitmap at 0x2000", type);
}

static enum kda_status check_bounds(struct kda_image *image, const uint8_t *section,
                                    struct bitmap *map, struct kda_error *err)
{
    map->first_page = kda_le64(section + (OFF_FIRST_PAGE - KDA_DMP_HEADER));
    map->bits = kda_le64(section + (OFF_BITS - KDA_DMP_HEADER));
    uint64_t size = kda_file_size(image->file);
    if (map->bits > MAX_BITS)
        return kda_fail_at(err, KDA_LIMIT, "image", OFF_BITS,
                           "a page bitmap of %llu bits; at most %llu are taken",
                           (unsigned long long)map->bits, (unsigned long long)MAX_BITS);
    uint64_t end = OFF_BITMAP + (map->bits + 7) / 8;
    if (end > size)
        return kda_fail_at(err, KDA_BAD_DATA, "image", OFF_BITMAP,
                           "the page bitmap ends at 0x%llx, but the file at 0x%llx",
                           (unsigned long long)end, (unsigned long long)size);
    if (map->first_page < end)
        return kda_fail_at(err, KDA_BAD_DATA, "image", OFF_FIRST_PAGE,
                           "the first page (0x%llx) begins inside the page bitmap, which ends at "
                           "0x%llx",
                           (unsigned long long)map->first_page, (unsigned long long)end);
    if (map->first_page > size || size - map->first_page < KDA_PAGE_SIZE)
        return kda_fail_at(err, KDA_BAD_DATA, "image", OFF_FIRST_PAGE,
                           "the file ends at 0x%llx, before its first page (0x%llx)",
                           (unsigned long long)size, (unsigned long long)map->first_page);
    return KDA_OK;
}

static enum kda_status load_bitmap(struct kda_image *image, struct bitmap *map,
                                   struct kda_error *err)
{
    map->word_count = (size_t)((map->bits + WORD_BITS - 1) / WORD_BITS);
    size_t blocks = map->word_count / WORDS_PER_BLOCK + 1;
    map->words = kda_calloc(map->word_count, sizeof(uint64_t));
    map->before = kda_calloc(blocks, sizeof(uint64_t));
    if (!map->words || !map->before)
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory for a page bitmap of %llu bits",
                        (unsigned long long)map->bits);
    enum kda_status status =
        kda_file_read_at(image->file, OFF_BITMAP, map->words, (size_t)((map->bits + 7) / 8), err);
    if (status != KDA_OK)
        return status;
    for (size_t i = 0; i < map->word_count; i++) {
        map->words[i] = kda_le64(&map->words[i]);
        /* Bits past the end are no pages, whatever the last byte holds. */
        if (i == map->word_count - 1 && map->bits % WORD_BITS)
            map->words[i] &= ((uint64_t)1 << map->bits % WORD_BITS) - 1;
        if (i % WORDS_PER_BLOCK == 0)
            map->before[i / WORDS_PER_BLOCK] = map->present;
        map->present += popcount(map->words[i]);
    }
    return KDA_OK;
}

/* Place of page `pfn` among the stored ones; false if it is not stored. */
static bool rank(const struct bitmap *map, uint64_t pfn, uint64_t *ret)
{
    if (pfn >= map->bits)
        return false;
    size_t word = (size_t)(pfn / WORD_BITS);
    uint64_t bit = (uint64_t)1 << pfn % WORD_BITS;
    if (!(map->words[word] & bit))
        return false;
    uint64_t n = map->before[word / WORDS_PER_BLOCK];
    for (size_t i = word - word % WORDS_PER_BLOCK; i < word; i++)
        n += popcount(map->words[i]);
    *ret = n + popcount(map->words[word] & (bit - 1));
    return true;
}

/* First set bit at or after `pfn`; map->bits if there is none. */
static uint64_t next_set(const struct bitmap *map, uint64_t pfn)
{
    if (pfn >= map->bits)
        return map->bits;
    size_t i = (size_t)(pfn / WORD_BITS);
    uint64_t word = map->words[i] & ~(uint64_t)0 << pfn % WORD_BITS;
    while (word == 0) {
        if (++i == map->word_count)
            return map->bits;
        word = map->words[i];
    }
    uint64_t at = (uint64_t)i * WORD_BITS + lowest_bit(word);
    return at < map->bits ? at : map->bits;
}

/* First clear bit after the set bit `pfn`, looking at no more than MAX_RUN_WORDS words. */
static uint64_t run_end(const struct bitmap *map, uint64_t pfn)
{
    size_t i = (size_t)(pfn / WORD_BITS);
    uint64_t clear = ~map->words[i] & ~(uint64_t)0 << pfn % WORD_BITS;
    for (size_t looked = 0; clear == 0; looked++) {
        i++;
        if (i == map->word_count || looked == MAX_RUN_WORDS)
            break;
        clear = ~map->words[i];
    }
    uint64_t end = (uint64_t)i * WORD_BITS + (clear ? lowest_bit(clear) : 0);
    return end < map->bits ? end : map->bits;
}

/* Pages from the n-th stored one on are behind the end of the file: draw the line there. */
static void forget_from(struct bitmap *map, uint64_t n)
{
    size_t block = map->word_count / WORDS_PER_BLOCK;
    while (block > 0 && (block * WORDS_PER_BLOCK >= map->word_count || map->before[block] > n))
        block--;
    uint64_t at = next_set(map, (uint64_t)block * WORDS_PER_BLOCK * WORD_BITS);
    for (uint64_t seen = map->before[block]; at < map->bits && seen < n; seen++)
        at = next_set(map, at + 1);
    map->bits = at;
}

/* Could this be a page-table root: do all present entries lead to memory of this machine? */
static bool is_root(const struct bitmap *map, const uint8_t *page)
{
    size_t present = 0;
    for (size_t i = 0; i < KDA_PAGE_SIZE / 8; i++) {
        uint64_t entry = kda_le64(page + 8 * i);
        if (!(entry & 1))
            continue;
        if ((entry & (KDA_MAX_PA - 1)) / KDA_PAGE_SIZE >= (uint64_t)map->word_count * WORD_BITS)
            return false;
        present++;
    }
    return present > 0;
}

static bool is_zero(const uint8_t *page)
{
    return page[0] == 0 && memcmp(page, page + 1, KDA_PAGE_SIZE - 1) == 0;
}

/*
 * A live dump whose data is too short was either cut or written with compressed pages. In a
 * compressed one something else stands where the bitmap says that the page-table root is.
 * Source: SysDbgGetLiveKernelDump, flag CompressMemoryPagesData; no public description of the
 * compressed form is known.
 */
static enum kda_status check_compressed(struct kda_image *image, const struct bitmap *map,
                                        struct kda_error *err)
{
    const struct kda_image_info *info = &image->info;
    uint8_t page[KDA_PAGE_SIZE];
    uint64_t place, pfn = info->dtb_count ? info->dtb[0] / KDA_PAGE_SIZE : 0;
    if (info->dump_type != KDA_DMP_BITMAP_KERNEL || pfn == 0 || !rank(map, pfn, &place))
        return KDA_OK;
    enum kda_status status = kda_file_read_at(image->file, map->first_page + place * KDA_PAGE_SIZE,
                                              page, sizeof(page), err);
    if (status != KDA_OK)
        return status;
    if (is_zero(page) || is_root(map, page))
        return KDA_OK;
    return kda_fail(err, KDA_UNSUPPORTED, "image",
                    "a live dump with compressed pages: its data is shorter than its %llu pages "
                    "and the page-table root is not in its place; take the dump again without "
                    "the option to compress memory pages",
                    (unsigned long long)map->present);
}

static enum kda_status check_length(struct kda_image *image, struct bitmap *map,
                                    struct kda_error *err)
{
    uint64_t stored = (kda_file_size(image->file) - map->first_page) / KDA_PAGE_SIZE;
    if (stored >= map->present) {
        image->info.page_count = map->present;
        return KDA_OK;
    }
    forget_from(map, stored);
    image->info.page_count = stored;
    kda_image_warn(image,
                   "the file ends early: %llu of its %llu pages are missing (a copy that was "
                   "stopped, or compressed pages)",
                   (unsigned long long)(map->present - stored), (unsigned long long)map->present);
    return check_compressed(image, map, err);
}

static uint64_t one_past_last(const struct bitmap *map)
{
    uint64_t bits = map->bits;
    while (bits > 0) {
        uint64_t word = map->words[(bits - 1) / WORD_BITS];
        if (word == 0)
            bits = (bits - 1) / WORD_BITS * WORD_BITS;
        else if (word >> (bits - 1) % WORD_BITS & 1)
            break;
        else
            bits--;
    }
    return bits;
}

static enum kda_status open_map(struct kda_image *image, struct bitmap *map, struct kda_error *err)
{
    uint8_t section[OFF_BITMAP - KDA_DMP_HEADER];
    enum kda_status status =
        kda_file_read_at(image->file, KDA_DMP_HEADER, section, sizeof(section), err);
    if (status == KDA_OK)
        status = check_bounds(image, section, map, err);
    if (status == KDA_OK)
        status = load_bitmap(image, map, err);
    if (status != KDA_OK)
        return status;
    if (map->present == 0)
        return kda_fail_at(err, KDA_BAD_DATA, "image", OFF_BITMAP,
                           "the page bitmap says that no page is in this dump");
    uint64_t stated = kda_le64(section + (OFF_PRESENT - KDA_DMP_HEADER));
    if (stated != map->present)
        kda_image_warn(image, "the header counts %llu pages, the page bitmap %llu",
                       (unsigned long long)stated, (unsigned long long)map->present);
    status = check_length(image, map, err);
    image->info.max_pa = one_past_last(map) * KDA_PAGE_SIZE;
    return status;
}

static enum kda_status open(struct kda_image *image, struct kda_error *err)
{
    uint8_t header[KDA_DMP_HEADER];
    enum kda_status status = kda_dmp_read_header(image, header, err);
    if (status != KDA_OK)
        return status;
    struct bitmap *map = kda_calloc(1, sizeof(*map));
    if (!map)
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory");
    image->priv = map;
    return open_map(image, map, err);
}

static enum kda_status read(struct kda_image *image, uint64_t pa, void *buf, size_t size,
                            struct kda_error *err)
{
    const struct bitmap *map = image->priv;
    uint64_t n;
    if (!rank(map, pa / KDA_PAGE_SIZE, &n))
        return kda_fail_at(err, KDA_ABSENT, "image", pa, "the page at 0x%llx is not in the dump",
                           (unsigned long long)pa);
    return kda_file_read_at(image->file, map->first_page + n * KDA_PAGE_SIZE + (pa & KDA_PAGE_MASK),
                            buf, size, err);
}

static bool next_run(struct kda_image *image, uint64_t pa, uint64_t *start, uint64_t *size)
{
    const struct bitmap *map = image->priv;
    uint64_t from = pa / KDA_PAGE_SIZE + ((pa & KDA_PAGE_MASK) != 0);
    uint64_t first = next_set(map, from);
    if (first >= map->bits)
        return false;
    *start = first * KDA_PAGE_SIZE;
    *size = (run_end(map, first) - first) * KDA_PAGE_SIZE;
    return true;
}

static bool place(struct kda_image *image, uint64_t pa, uint64_t *off, uint64_t *left)
{
    const struct bitmap *map = image->priv;
    uint64_t n, pfn = pa / KDA_PAGE_SIZE, inside = pa & KDA_PAGE_MASK;
    if (!rank(map, pfn, &n))
        return false;
    *off = map->first_page + n * KDA_PAGE_SIZE + inside;
    *left = (run_end(map, pfn) - pfn) * KDA_PAGE_SIZE - inside;
    return true;
}

static void close(struct kda_image *image)
{
    struct bitmap *map = image->priv;
    if (map) {
        kda_free(map->words);
        kda_free(map->before);
    }
    kda_free(map);
    image->priv = NULL;
}

const struct kda_image_ops kda_fmt_dmp_bitmap = {
    .probe = probe,
    .open = open,
    .read = read,
    .next_run = next_run,
    .place = place,
    .close = close,
};
