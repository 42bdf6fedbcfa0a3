#include "overlay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/image_internal.h"

#define MAX_FRAMES ((uint64_t)1 << 19) /* 2 GiB */
#define MAX_CHANGES 65536u
#define COPY_BYTES ((size_t)16384)

/* A page as it was before it was changed. */
struct change {
    uint64_t pfn;
    uint8_t *page;
};

struct overlay {
    struct kda_image *image;
    const struct kda_image_ops *format; /* the image's own */
    struct kda_image_ops ops;
    uint8_t *memory;
    bool *present;
    uint8_t *touched;
    uint64_t frames;
    struct change *changed; /* in the order they were made */
    size_t changes;
};

/* The operations get only the image; one overlay is open at a time. */
static struct overlay *open_overlay;

static uint64_t frame_of(uint64_t pa)
{
    return pa / KDA_PAGE_SIZE;
}

static enum kda_status read_copy(struct kda_image *image, uint64_t pa, void *buf, size_t size,
                                 struct kda_error *err)
{
    struct overlay *o = open_overlay;
    (void)image;
    uint8_t how = size <= KDA_PAGE_SIZE ? OVERLAY_READ : OVERLAY_SCANNED;
    for (uint64_t pfn = frame_of(pa); size > 0 && pfn <= frame_of(pa + size - 1); pfn++) {
        if (pfn < o->frames)
            o->touched[pfn] |= how;
        if (pfn >= o->frames || !o->present[pfn])
            return kda_fail_at(err, KDA_ABSENT, "image", pfn * KDA_PAGE_SIZE,
                               "the page at 0x%" PRIx64 " is not in the image",
                               pfn * KDA_PAGE_SIZE);
    }
    memcpy(buf, o->memory + pa, size);
    return KDA_OK;
}

static bool next_run(struct kda_image *image, uint64_t pa, uint64_t *start, uint64_t *size)
{
    const struct overlay *o = open_overlay;
    (void)image;
    uint64_t pfn = frame_of(pa);
    while (pfn < o->frames && !o->present[pfn])
        pfn++;
    if (pfn >= o->frames)
        return false;
    uint64_t end = pfn;
    while (end < o->frames && o->present[end])
        end++;
    *start = pfn * KDA_PAGE_SIZE;
    *size = (end - pfn) * KDA_PAGE_SIZE;
    return true;
}

/* Holes of a sparse file are zeros here as there: not read, and no memory is spent on them. */
static bool copy_run(struct overlay *o, uint64_t start, uint64_t end)
{
    for (uint64_t pa = start; pa < end; pa += KDA_PAGE_SIZE)
        o->present[frame_of(pa)] = true;
    for (uint64_t pa = start; (pa = kda_image_next_data(o->image, pa)) < end;) {
        size_t size = end - pa < COPY_BYTES ? (size_t)(end - pa) : COPY_BYTES;
        if (kda_image_read(o->image, pa, o->memory + pa, size, NULL) != KDA_OK)
            return false;
        pa += size;
        if (pa == end)
            break;
    }
    return true;
}

static bool copy_pages(struct overlay *o)
{
    uint64_t start, size;
    for (uint64_t pa = 0; kda_image_next_run(o->image, pa, &start, &size); pa = start + size)
        if (!copy_run(o, start, start + size))
            return false;
    return true;
}

static bool allocate(struct overlay *o)
{
    o->frames = kda_image_info(o->image)->max_pa / KDA_PAGE_SIZE;
    if (o->frames == 0 || o->frames > MAX_FRAMES)
        return false;
    o->memory = calloc(o->frames, KDA_PAGE_SIZE);
    o->present = calloc(o->frames, sizeof(*o->present));
    o->touched = calloc(o->frames, sizeof(*o->touched));
    o->changed = calloc(MAX_CHANGES, sizeof(*o->changed));
    return o->memory && o->present && o->touched && o->changed;
}

struct overlay *overlay_open(const char *path)
{
    struct kda_error err;
    struct overlay *o = calloc(1, sizeof(*o));
    if (!o)
        return NULL;
    if (kda_image_open(path, &o->image, &err) != KDA_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        overlay_close(o);
        return NULL;
    }
    o->format = o->image->ops;
    if (!allocate(o) || !copy_pages(o)) {
        (void)fprintf(stderr, "%s: not held in memory\n", path);
        overlay_close(o);
        return NULL;
    }
    o->ops = *o->format;
    o->ops.read = read_copy;
    o->ops.next_run = next_run;
    o->ops.place = NULL;
    o->image->ops = &o->ops;
    open_overlay = o;
    return o;
}

void overlay_close(struct overlay *overlay)
{
    if (!overlay)
        return;
    if (overlay->format)
        overlay->image->ops = overlay->format;
    kda_image_close(overlay->image);
    if (overlay->changed)
        overlay_undo(overlay);
    free(overlay->memory);
    free(overlay->present);
    free(overlay->touched);
    free(overlay->changed);
    free(overlay);
    open_overlay = NULL;
}

struct kda_image *overlay_image(struct overlay *overlay)
{
    return overlay->image;
}

uint64_t overlay_frames(const struct overlay *overlay)
{
    return overlay->frames;
}

bool overlay_has(const struct overlay *overlay, uint64_t pfn)
{
    return pfn < overlay->frames && overlay->present[pfn];
}

static bool note_change(struct overlay *o, uint64_t pfn)
{
    if (!overlay_has(o, pfn) || o->changes == MAX_CHANGES)
        return false;
    uint8_t *page = malloc(KDA_PAGE_SIZE);
    if (!page)
        return false;
    memcpy(page, o->memory + pfn * KDA_PAGE_SIZE, KDA_PAGE_SIZE);
    o->changed[o->changes++] = (struct change){.pfn = pfn, .page = page};
    return true;
}

/* "NUMBER" or "NUMBER:NUMBER", in hex; *second is untouched without the colon. */
static bool numbers(const char *text, uint64_t *first, uint64_t *second)
{
    char *end;
    *first = strtoull(text, &end, 16);
    if (end == text)
        return false;
    if (*end != ':')
        return *end == '\0';
    const char *more = end + 1;
    *second = strtoull(more, &end, 16);
    return end != more && *end == '\0';
}

static bool write_qword(struct overlay *o, uint64_t pa, uint64_t value)
{
    if (pa % sizeof(value) != 0 || !note_change(o, frame_of(pa)))
        return false;
    for (unsigned i = 0; i < sizeof(value); i++)
        o->memory[pa + i] = (uint8_t)(value >> (8 * i));
    return true;
}

bool overlay_change(struct overlay *overlay, const char *word)
{
    uint64_t first, second = UINT64_MAX;
    if (word[0] == '\0' || !numbers(word + 1, &first, &second))
        return false;
    if (word[0] == '@')
        return write_qword(overlay, first, second);
    if (word[0] == '=' && !overlay_has(overlay, second))
        return false;
    if (!strchr("-zA=", word[0]) || !note_change(overlay, first))
        return false;
    uint8_t *page = overlay->memory + first * KDA_PAGE_SIZE;
    if (word[0] == '-')
        overlay->present[first] = false;
    else if (word[0] == '=')
        memcpy(page, overlay->memory + second * KDA_PAGE_SIZE, KDA_PAGE_SIZE);
    else
        memset(page, word[0] == 'A' ? 0x41 : 0, KDA_PAGE_SIZE);
    return true;
}

void overlay_undo(struct overlay *overlay)
{
    while (overlay->changes > 0) {
        struct change *change = &overlay->changed[--overlay->changes];
        overlay->present[change->pfn] = true;
        memcpy(overlay->memory + change->pfn * KDA_PAGE_SIZE, change->page, KDA_PAGE_SIZE);
        free(change->page);
    }
}

unsigned overlay_touched(const struct overlay *overlay, uint64_t pfn)
{
    return overlay->touched[pfn];
}

void overlay_forget(struct overlay *overlay)
{
    memset(overlay->touched, 0, overlay->frames);
}

bool overlay_write(const struct overlay *overlay, const char *path)
{
    static const uint8_t zeros[KDA_PAGE_SIZE];
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    bool ok = true;
    for (uint64_t pfn = 0; ok && pfn < overlay->frames; pfn++) {
        const uint8_t *page = overlay->memory + pfn * KDA_PAGE_SIZE;
        bool hole = memcmp(page, zeros, KDA_PAGE_SIZE) == 0;
        ok = hole ? fseek(file, KDA_PAGE_SIZE, SEEK_CUR) == 0
                  : fwrite(page, KDA_PAGE_SIZE, 1, file) == 1;
    }
    ok = ok && fwrite(overlay->present, 1, overlay->frames, file) == overlay->frames;
    return fclose(file) == 0 && ok;
}
