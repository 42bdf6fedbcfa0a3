#include "runs.h"

#include <stdlib.h>

#include "bytes.h"

void kda_runs_deinit(struct kda_runs *runs)
{
    kda_free(runs->items);
    *runs = (struct kda_runs){0};
}

enum kda_status kda_runs_add(struct kda_runs *runs, uint64_t start, uint64_t size, uint64_t off,
                             struct kda_error *err)
{
    if (size == 0)
        return KDA_OK;
    uint64_t end;
    if (!kda_add64(start, size, &end) || !kda_add64(off, size, &end))
        return kda_fail_at(err, KDA_BAD_DATA, "image", start,
                           "a memory range of 0x%llx bytes at 0x%llx runs past the last address",
                           (unsigned long long)size, (unsigned long long)start);
    if (runs->count > 0) {
        struct kda_run *last = &runs->items[runs->count - 1];
        if (last->start + last->size == start && last->off + last->size == off) {
            last->size += size;
            return KDA_OK;
        }
    }
    if (runs->count >= KDA_IMAGE_MAX_RUNS)
        return kda_fail(err, KDA_LIMIT, "image", "more than %zu memory ranges", KDA_IMAGE_MAX_RUNS);
    void *items = runs->items;
    if (!kda_grow(&items, &runs->capacity, runs->count + 1, sizeof(*runs->items),
                  KDA_IMAGE_MAX_RUNS))
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory for %zu memory ranges",
                        runs->count + 1);
    runs->items = items;
    runs->items[runs->count++] = (struct kda_run){start, size, off};
    return KDA_OK;
}

static void cut_at_end(struct kda_runs *runs, uint64_t file_size)
{
    size_t kept = 0;
    for (size_t i = 0; i < runs->count; i++) {
        struct kda_run run = runs->items[i];
        uint64_t room = run.off < file_size ? file_size - run.off : 0;
        if (run.size > room) {
            runs->cut += run.size - room;
            run.size = room;
        }
        if (run.size > 0)
            runs->items[kept++] = run;
    }
    runs->count = kept;
}

static bool in_order(const struct kda_runs *runs)
{
    for (size_t i = 1; i < runs->count; i++)
        if (runs->items[i - 1].start + runs->items[i - 1].size > runs->items[i].start)
            return false;
    return true;
}

/* A run with its place in the file's own list, which decides who wins an overlap. */
struct ranked {
    struct kda_run run;
    size_t rank;
};

static int by_start(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->run.start != y->run.start)
        return x->run.start < y->run.start ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Min-heap by rank of the runs that cover the sweep's position, as indices into `all`. */
struct heap {
    size_t *items;
    size_t count;
    const struct ranked *all;
};

static bool before(const struct heap *heap, size_t a, size_t b)
{
    return heap->all[heap->items[a]].rank < heap->all[heap->items[b]].rank;
}

static void swap(struct heap *heap, size_t a, size_t b)
{
    size_t item = heap->items[a];
    heap->items[a] = heap->items[b];
    heap->items[b] = item;
}

static void heap_push(struct heap *heap, size_t item)
{
    size_t at = heap->count++;
    heap->items[at] = item;
    for (; at > 0 && before(heap, at, (at - 1) / 2); at = (at - 1) / 2)
        swap(heap, at, (at - 1) / 2);
}

static void heap_pop(struct heap *heap)
{
    heap->items[0] = heap->items[--heap->count];
    for (size_t at = 0;;) {
        size_t least = at, left = 2 * at + 1;
        if (left < heap->count && before(heap, left, least))
            least = left;
        if (left + 1 < heap->count && before(heap, left + 1, least))
            least = left + 1;
        if (least == at)
            return;
        swap(heap, at, least);
        at = least;
    }
}

/* Sweeps over the addresses; at each one the run of lowest rank answers. O(n log n), because a
 * hostile file may hold any number of overlaps. */
static enum kda_status sweep(const struct ranked *all, size_t count, struct heap *heap,
                             struct kda_runs *ret, struct kda_error *err)
{
    uint64_t pos = 0;
    for (size_t next = 0; next < count || heap->count > 0;) {
        if (heap->count == 0)
            pos = all[next].run.start;
        while (next < count && all[next].run.start == pos)
            heap_push(heap, next++);
        const struct kda_run *top = &all[heap->items[0]].run;
        uint64_t end = top->start + top->size;
        if (end <= pos) {
            heap_pop(heap);
            continue;
        }
        if (next < count && all[next].run.start < end)
            end = all[next].run.start;
        enum kda_status status =
            kda_runs_add(ret, pos, end - pos, top->off + (pos - top->start), err);
        if (status != KDA_OK)
            return status;
        pos = end;
    }
    return KDA_OK;
}

static uint64_t total(const struct kda_runs *runs)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < runs->count; i++)
        if (!kda_add64(sum, runs->items[i].size, &sum))
            return UINT64_MAX;
    return sum;
}

static enum kda_status resolve(struct kda_runs *runs, struct kda_error *err)
{
    struct kda_runs clean = {0};
    enum kda_status status = KDA_NO_MEMORY;
    struct heap heap = {kda_calloc(runs->count, sizeof(size_t)), 0, NULL};
    struct ranked *all = kda_calloc(runs->count, sizeof(*all));
    if (!all || !heap.items) {
        (void)kda_fail(err, status, "image", "out of memory sorting %zu memory ranges",
                       runs->count);
        goto out;
    }
    for (size_t i = 0; i < runs->count; i++)
        all[i] = (struct ranked){runs->items[i], i};
    qsort(all, runs->count, sizeof(*all), by_start);
    heap.all = all;
    status = sweep(all, runs->count, &heap, &clean, err);
    if (status != KDA_OK)
        goto out;
    clean.overlap = total(runs) - total(&clean);
    clean.cut = runs->cut;
    kda_runs_deinit(runs);
    *runs = clean;
    clean = (struct kda_runs){0};
out:
    kda_runs_deinit(&clean);
    kda_free(all);
    kda_free(heap.items);
    return status;
}

enum kda_status kda_runs_finish(struct kda_runs *runs, uint64_t file_size, struct kda_error *err)
{
    cut_at_end(runs, file_size);
    return in_order(runs) ? KDA_OK : resolve(runs, err);
}

/* Index of the first run that ends after `at`; runs->count if there is none. */
static size_t first_after(const struct kda_runs *runs, uint64_t at)
{
    size_t low = 0, high = runs->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (runs->items[mid].start + runs->items[mid].size > at)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static const struct kda_run *find(struct kda_runs *runs, uint64_t at)
{
    if (runs->hint < runs->count) {
        const struct kda_run *run = &runs->items[runs->hint];
        if (at >= run->start && at - run->start < run->size)
            return run;
    }
    size_t index = first_after(runs, at);
    if (index == runs->count || runs->items[index].start > at)
        return NULL;
    runs->hint = index;
    return &runs->items[index];
}

static bool covers(struct kda_runs *runs, uint64_t start, size_t size)
{
    while (size > 0) {
        const struct kda_run *run = find(runs, start);
        if (!run)
            return false;
        uint64_t left = run->size - (start - run->start);
        if (left >= size)
            return true;
        start += left;
        size -= (size_t)left;
    }
    return true;
}

static enum kda_status absent(struct kda_error *err, uint64_t start)
{
    return kda_fail_at(err, KDA_ABSENT, "image", start, "address 0x%llx is not in the image",
                       (unsigned long long)start);
}

enum kda_status kda_runs_read(struct kda_runs *runs, struct kda_file *file, uint64_t start,
                              void *buf, size_t size, struct kda_error *err)
{
    const struct kda_run *run = find(runs, start);
    if (!run)
        return absent(err, start);
    if (size <= run->size - (start - run->start))
        return kda_file_read_at(file, run->off + (start - run->start), buf, size, err);
    /* In pieces, but all or nothing. */
    if (!covers(runs, start, size))
        return absent(err, start);
    uint8_t *out = buf;
    while (size > 0) {
        run = find(runs, start);
        uint64_t left = run->size - (start - run->start);
        size_t part = left < size ? (size_t)left : size;
        enum kda_status status =
            kda_file_read_at(file, run->off + (start - run->start), out, part, err);
        if (status != KDA_OK)
            return status;
        out += part;
        start += part;
        size -= part;
    }
    return KDA_OK;
}

bool kda_runs_next(const struct kda_runs *runs, uint64_t pa, uint64_t *start, uint64_t *size)
{
    for (size_t i = first_after(runs, pa); i < runs->count; i++) {
        uint64_t from = runs->items[i].start > pa ? runs->items[i].start : pa;
        from = (from + KDA_PAGE_MASK) & ~(uint64_t)KDA_PAGE_MASK;
        uint64_t end = runs->items[i].start + runs->items[i].size;
        /* A page may be put together from neighbours. */
        while ((end & KDA_PAGE_MASK) && i + 1 < runs->count && runs->items[i + 1].start == end) {
            i++;
            end = runs->items[i].start + runs->items[i].size;
        }
        end &= ~(uint64_t)KDA_PAGE_MASK;
        if (from < end) {
            *start = from;
            *size = end - from;
            return true;
        }
    }
    return false;
}

enum kda_status kda_image_new_runs(struct kda_image *image, struct kda_runs **ret,
                                   struct kda_error *err)
{
    image->priv = kda_calloc(1, sizeof(struct kda_runs));
    if (!image->priv)
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory");
    *ret = image->priv;
    return KDA_OK;
}

enum kda_status kda_image_add_run(struct kda_runs *runs, uint64_t pa, uint64_t size, uint64_t off,
                                  struct kda_error *err)
{
    if (pa > KDA_MAX_PA || size > KDA_MAX_PA - pa)
        return kda_fail_at(err, KDA_BAD_DATA, "image", pa,
                           "a memory range of 0x%llx bytes at 0x%llx is outside of the 52-bit "
                           "physical address space",
                           (unsigned long long)size, (unsigned long long)pa);
    return kda_runs_add(runs, pa, size, off, err);
}

enum kda_status kda_image_finish_runs(struct kda_image *image, struct kda_runs *runs,
                                      struct kda_error *err)
{
    enum kda_status status = kda_runs_finish(runs, kda_file_size(image->pages), err);
    if (status != KDA_OK)
        return status;
    uint64_t start, size;
    for (uint64_t pa = 0; kda_runs_next(runs, pa, &start, &size); pa = start + size) {
        image->info.page_count += size / KDA_PAGE_SIZE;
        image->info.max_pa = start + size;
    }
    if (image->info.page_count == 0)
        return kda_fail(err, KDA_BAD_DATA, "image",
                        "not one whole page of memory is in this file%s",
                        runs->cut ? ": it ends before its data" : "");
    if (runs->cut)
        kda_image_warn(
            image, "the file ends early: %llu pages that its header names are missing",
            (unsigned long long)(runs->cut / KDA_PAGE_SIZE + (runs->cut % KDA_PAGE_SIZE != 0)));
    if (runs->overlap)
        kda_image_warn(image,
                       "memory ranges overlap (0x%llx bytes are claimed more than once); the "
                       "range named first was taken",
                       (unsigned long long)runs->overlap);
    return KDA_OK;
}

enum kda_status kda_image_runs_read(struct kda_image *image, uint64_t pa, void *buf, size_t size,
                                    struct kda_error *err)
{
    return kda_runs_read(image->priv, image->pages, pa, buf, size, err);
}

bool kda_image_runs_next(struct kda_image *image, uint64_t pa, uint64_t *start, uint64_t *size)
{
    return kda_runs_next(image->priv, pa, start, size);
}

bool kda_image_runs_place(struct kda_image *image, uint64_t pa, uint64_t *off, uint64_t *left)
{
    const struct kda_run *run = find(image->priv, pa);
    if (!run)
        return false;
    *off = run->off + (pa - run->start);
    *left = run->size - (pa - run->start);
    return true;
}

void kda_image_runs_close(struct kda_image *image)
{
    if (image->priv)
        kda_runs_deinit(image->priv);
    kda_free(image->priv);
    image->priv = NULL;
}
