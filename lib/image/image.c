#include "kda/image.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "image_internal.h"
#include "refused.h"

/*
 * The table of formats, in probe order: strongest magic first, the formats known by their file
 * name next, raw last. A new format is a row here and a file beside this one. Columns: variable,
 * name, title, advice (NULL = readable).
 */
#define READABLE_FORMATS(X)                                                                        \
    X(dmp_triage, "dmp-triage", "Windows triage dump (small memory dump)", NULL)                   \
    X(dmp_full, "dmp-full", "Windows crash dump, full", NULL)                                      \
    X(dmp_rdmp, "dmp-rdmp", "Windows crash dump, page ranges (RDMP)", NULL)                        \
    X(dmp_bitmap, "dmp-bitmap", "Windows crash dump, page bitmap", NULL)                           \
    X(elf_core, "elf-core", "ELF core of a machine (QEMU, VirtualBox)", NULL)                      \
    X(lime, "lime", "LiME memory dump", NULL)                                                      \
    X(vmware, "vmware-state", "VMware suspend or snapshot file (.vmss, .vmsn)", NULL)
#define NAMED_FORMATS(X)                                                                           \
    X(vmem, "vmware-vmem", "VMware memory file (.vmem) with its state file", NULL)                 \
    X(raw, "raw", "raw physical memory", NULL)

#define KDA_X(id, name, title, advice) {name, title, (advice) == NULL, advice},
static const struct kda_image_format formats[] = {READABLE_FORMATS(KDA_X) KDA_REFUSED_FORMATS(KDA_X)
                                                      NAMED_FORMATS(KDA_X)};
#undef KDA_X
#define KDA_X(id, name, title, advice) &kda_fmt_##id,
static const struct kda_image_ops *const format_ops[] = {
    READABLE_FORMATS(KDA_X) KDA_REFUSED_FORMATS(KDA_X) NAMED_FORMATS(KDA_X)};
#undef KDA_X

#define FORMAT_COUNT (sizeof(formats) / sizeof(formats[0]))

const struct kda_image_format *kda_image_formats(size_t *count)
{
    *count = FORMAT_COUNT;
    return formats;
}

void kda_image_warn(struct kda_image *image, const char *fmt, ...)
{
    struct kda_image_info *info = &image->info;
    if (info->warning_count == KDA_IMAGE_MAX_WARNINGS) {
        info->warnings[KDA_IMAGE_MAX_WARNINGS - 1] = "further warnings were left out";
        return;
    }
    char text[480];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    char *copy = kda_arena_strdup(&image->arena, text);
    if (copy)
        info->warnings[info->warning_count++] = copy;
    else
        image->warning_lost = true;
}

void kda_image_add_dtb(struct kda_image *image, uint64_t cr3)
{
    struct kda_image_info *info = &image->info;
    uint64_t dtb = cr3 & ~(uint64_t)KDA_PAGE_MASK;
    if (dtb == 0 || dtb >= KDA_MAX_PA || info->dtb_count == KDA_IMAGE_MAX_CPUS)
        return;
    for (size_t i = 0; i < info->dtb_count; i++)
        if (info->dtb[i] == dtb)
            return;
    info->dtb[info->dtb_count++] = dtb;
}

bool kda_head_has(const struct kda_image *image, size_t off, const void *magic, size_t size)
{
    return off <= image->head_size && size <= image->head_size - off &&
           memcmp(image->head + off, magic, size) == 0;
}

bool kda_name_ends(const char *name, const char *ending)
{
    size_t length = strlen(name), tail = strlen(ending);
    if (length < tail)
        return false;
    for (size_t i = 0; i < tail; i++) {
        char c = name[length - tail + i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c != ending[i])
            return false;
    }
    return true;
}

static void note_stats(struct kda_image *image)
{
    image->stats.reads = kda_file_read_calls(image->file);
    image->stats.bytes = kda_file_read_bytes(image->file);
    if (image->pages != image->file) {
        image->stats.reads += kda_file_read_calls(image->pages);
        image->stats.bytes += kda_file_read_bytes(image->pages);
    }
}

static enum kda_status find_format(struct kda_image *image, size_t *row, struct kda_error *err)
{
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        enum kda_status status = format_ops[i]->probe(image, err);
        if (status == KDA_NOT_MINE)
            continue;
        *row = i;
        return status;
    }
    return kda_fail(err, KDA_UNSUPPORTED, "image", "no format reads this file");
}

static enum kda_status open_format(struct kda_image *image, struct kda_error *err)
{
    uint64_t size = kda_file_size(image->file);
    if (size == 0)
        return kda_fail(err, KDA_BAD_DATA, "image", "the file is empty");
    image->info.file_size = size;
    image->head_size = size < KDA_IMAGE_HEAD ? (size_t)size : KDA_IMAGE_HEAD;
    enum kda_status status = kda_file_read_at(image->file, 0, image->head, image->head_size, err);
    if (status != KDA_OK)
        return status;
    size_t row = 0;
    status = find_format(image, &row, err);
    if (status != KDA_OK)
        return status;
    if (!formats[row].readable)
        return kda_fail(err, KDA_UNSUPPORTED, "image",
                        "recognised as %s, which is not read here: %s", formats[row].title,
                        formats[row].advice);
    image->ops = format_ops[row];
    image->info.format = formats[row].name;
    image->info.title = formats[row].title;
    status = image->ops->open(image, err);
    image->info.data_size = kda_file_size(image->pages);
    if (status == KDA_OK && image->warning_lost)
        status = kda_fail(err, KDA_NO_MEMORY, "image", "out of memory for a warning");
    return status;
}

/* Takes `file`, also on failure. */
static enum kda_status open_file(struct kda_file *file, bool companions, struct kda_image **ret,
                                 struct kda_error *err)
{
    struct kda_image *image = kda_calloc(1, sizeof(*image));
    if (!image) {
        kda_file_close(file);
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory");
    }
    kda_arena_init(&image->arena, 0);
    image->file = image->pages = file;
    image->companions = companions;
    struct kda_error local = {0};
    enum kda_status status = open_format(image, &local);
    if (status != KDA_OK) {
        /* The file layer has named the file already. */
        if (local.layer && strcmp(local.layer, "image") == 0)
            kda_error_prepend(&local, "\"%s\"", kda_file_name(file));
        if (err)
            *err = local;
        kda_image_close(image);
        return status;
    }
    note_stats(image);
    *ret = image;
    return KDA_OK;
}

enum kda_status kda_image_open(const char *path, struct kda_image **ret, struct kda_error *err)
{
    struct kda_file *file;
    enum kda_status status = kda_file_open(path, &file, err);
    return status == KDA_OK ? open_file(file, true, ret, err) : status;
}

enum kda_status kda_image_open_memory(const void *bytes, size_t size, const char *name,
                                      struct kda_image **ret, struct kda_error *err)
{
    struct kda_file *file;
    enum kda_status status = kda_file_open_memory(bytes, size, name, &file, err);
    return status == KDA_OK ? open_file(file, false, ret, err) : status;
}

void kda_image_close(struct kda_image *image)
{
    if (!image)
        return;
    if (image->ops && image->ops->close)
        image->ops->close(image);
    if (image->pages != image->file)
        kda_file_close(image->pages);
    kda_file_close(image->file);
    kda_arena_deinit(&image->arena);
    kda_free(image);
}

const struct kda_image_info *kda_image_info(const struct kda_image *image)
{
    return &image->info;
}

const struct kda_image_stats *kda_image_stats(const struct kda_image *image)
{
    return &image->stats;
}

static enum kda_status no_pages(struct kda_error *err)
{
    return kda_fail(err, KDA_UNSUPPORTED, "image",
                    "a triage dump holds no physical pages, only named pieces of memory");
}

static enum kda_status absent(struct kda_error *err, uint64_t pa)
{
    return kda_fail_at(err, KDA_ABSENT, "image", pa, "the page at 0x%llx is not in the image",
                       (unsigned long long)pa);
}

enum kda_status kda_image_read_page(struct kda_image *image, uint64_t pfn, void *page,
                                    struct kda_error *err)
{
    if (image->info.kind == KDA_IMAGE_TRIAGE)
        return no_pages(err);
    uint64_t pa = pfn * KDA_PAGE_SIZE;
    if (pa >= image->info.max_pa || pfn >= KDA_MAX_PA / KDA_PAGE_SIZE)
        return absent(err, pa);
    enum kda_status status = image->ops->read(image, pa, page, KDA_PAGE_SIZE, err);
    if (status == KDA_OK)
        image->stats.pages_read++;
    note_stats(image);
    return status;
}

/* Bytes present from `pa` on, in one stretch; 0 = none. */
static uint64_t present(struct kda_image *image, uint64_t pa)
{
    uint64_t start, size;
    if (!image->ops->next_run(image, pa & ~(uint64_t)KDA_PAGE_MASK, &start, &size) || start > pa)
        return 0;
    return size - (pa - start);
}

enum kda_status kda_image_read(struct kda_image *image, uint64_t pa, void *buf, size_t size,
                               struct kda_error *err)
{
    if (image->info.kind == KDA_IMAGE_TRIAGE)
        return no_pages(err);
    /* All or nothing: look before reading, unless one stretch has everything. */
    uint64_t first = size ? present(image, pa) : 0;
    for (uint64_t at = first; at < size;) {
        uint64_t more = present(image, pa + at);
        if (more == 0)
            return absent(err, pa + at);
        at += more;
    }
    uint8_t *out = buf;
    enum kda_status status = KDA_OK;
    while (size > 0 && status == KDA_OK) {
        uint64_t run = present(image, pa);
        size_t part = run < size ? (size_t)run : size;
        status = image->ops->read(image, pa, out, part, err);
        out += part;
        pa += part;
        size -= part;
    }
    note_stats(image);
    return status;
}

bool kda_image_next_run(struct kda_image *image, uint64_t pa, uint64_t *start, uint64_t *size)
{
    if (image->info.kind == KDA_IMAGE_TRIAGE || pa >= image->info.max_pa)
        return false;
    return image->ops->next_run(image, pa, start, size);
}

uint64_t kda_image_next_data(struct kda_image *image, uint64_t pa)
{
    uint64_t off, left;
    if (!image->ops->place || !image->ops->place(image, pa, &off, &left))
        return pa;
    uint64_t skip = kda_file_next_data(image->pages, off) - off;
    return (pa + (skip < left ? skip : left)) & ~(uint64_t)KDA_PAGE_MASK;
}

enum kda_status kda_image_read_virtual(struct kda_image *image, uint64_t va, void *buf, size_t size,
                                       struct kda_error *err)
{
    if (image->info.kind != KDA_IMAGE_TRIAGE)
        return kda_fail(err, KDA_USAGE, "image",
                        "virtual memory of a physical image is read through the kernel");
    if (size == 0)
        return KDA_OK;
    enum kda_status status = image->ops->read(image, va, buf, size, err);
    note_stats(image);
    return status;
}
