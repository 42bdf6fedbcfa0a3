/*
 * The trace buffers of a small forged image, changed by the input: lists, headers, records,
 * compressed bytes, what consumers hold in their own memory. Each buffer's bytes are framed, and
 * what is framed must lie inside them.
 *   byte 0: which image; then edits of 8 bytes: u8 object, u8 how and how many bytes, u16 place in
 *   it, u32 argument.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kda/buffers.h"
#include "kda/etl.h"

#include "bytes.h"
#include "forge.h"

#define EDIT 8u
#define MAX_EDITS 200u
#define MAX_OBJECTS 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char common[] =
    "size 4M\nseed 3\ncpus 2\nkernel pages=sparse\ndrivers none\n"
    "process 4 handles=2\n"
    "process 412 ppid=4 name=svchost.exe path=\\x\\svchost.exe handles=2\n"
    "session 1 name=One mode=0x100 buffer=4K\nconsumer session=1 pid=412\n"
    "buffer session=1 cpu=0 state=logging slot current events=9 leftover undelivered=412\n"
    "buffer session=1 cpu=1 state=free events=5\nbuffer session=1 state=free events=2 reset\n"
    "buffer session=1 cpu=1 state=flush events=20 overfull\n"
    "buffer session=1 user=412 events=6 state=flush\n"
    "buffer session=1 user=412 events=6 state=flush space\n"
    "session 2 name=Two mode=0x04000000 buffer=8K clock=3\n"
    "buffer session=2 state=compressed events=60\n"
    "buffer session=2 state=placeholder events=0\n"
    "buffer session=2 state=pending compression events=9 unwritten\n";

static const char *const builds[] = {"10.0.22000.795", "6.1.7601.24540", "6.3.9600.19913",
                                     "10.0.17763.379"};
#define IMAGES (sizeof(builds) / sizeof(builds[0]))

struct object {
    uint64_t va, size, root; /* root 0 = kernel */
};

static struct base {
    uint8_t *bytes, *pristine;
    size_t size;
    struct object objects[MAX_OBJECTS];
    size_t object_count;
    struct kda_image *file; /* the pristine image, for translations */
    struct kda_kernel *kernel;
} images[IMAGES];

static void add(struct base *image, uint64_t va, uint64_t size, uint64_t root)
{
    if (va != 0 && image->object_count < MAX_OBJECTS)
        image->objects[image->object_count++] = (struct object){va, size, root};
}

static void make(struct base *image, const char *build)
{
    static char scenario[sizeof(common) + 64];
    struct kda_kernel_options options;
    struct kda_error err;
    struct forge *forge;
    memset(&options, 0, sizeof(options));
    options.symbols.path = "profile";
    (void)snprintf(scenario, sizeof(scenario), "build %s\n%s", build, common);
    if (forge_build(scenario, &forge, &err) != KDA_OK ||
        forge_write_memory(forge, FORGE_RAW, &image->bytes, &image->size, &err) != KDA_OK)
        abort();
    image->pristine = malloc(image->size);
    if (!image->pristine)
        abort();
    memcpy(image->pristine, image->bytes, image->size);
    if (kda_image_open_memory(image->pristine, image->size, "base", &image->file, &err) != KDA_OK ||
        kda_kernel_open(image->file, &options, &image->kernel, &err) != KDA_OK)
        abort();
    const struct forge_truth *t = forge_truth(forge);
    for (size_t i = 0; i < t->session_count; i++)
        add(image, t->sessions[i].va, 0x540, 0);
    for (size_t i = 0; i < t->consumer_count; i++)
        add(image, t->consumers[i].va, 0xa0, 0);
    for (size_t i = 0; i < t->buffer_count; i++) {
        uint64_t root = 0;
        for (size_t k = 0; k < t->process_count; k++)
            if (t->buffers[i].user && t->processes[k].pid == t->buffers[i].user)
                root = t->processes[k].dtb;
        add(image, t->buffers[i].va, 72, root); /* twice as likely as the rest of it */
        add(image, t->buffers[i].va, t->buffers[i].used, root);
    }
    forge_free(forge);
}

/* Where an edit goes; NULL = nowhere. */
static uint8_t *place(const struct base *image, const uint8_t *e)
{
    const struct object *o = &image->objects[e[0] % image->object_count];
    uint64_t at = kda_le16(e + 2) % o->size & ~(uint64_t)3, pa;
    uint64_t root = o->root ? o->root : kda_kernel_info(image->kernel)->dtb;
    if (kda_translate(image->kernel, root, o->va + at, &pa, NULL) != KDA_OK || pa + 8 > image->size)
        return NULL;
    return image->bytes + pa;
}

static void edit(const struct base *image, const uint8_t *e)
{
    uint8_t *to = place(image, e);
    uint32_t argument = kda_le32(e + 4);
    if (!to)
        return;
    uint64_t value = argument;
    size_t bytes = 1u << (e[1] >> 4 & 3);
    switch (e[1] % 5) {
    case 0:
        break;
    case 1: /* an address: of an object, or near it */
        value = image->objects[argument % image->object_count].va + (argument >> 8 & 0x78);
        bytes = 8;
        break;
    case 2:
        value = kda_le64(to) + (uint64_t)(int64_t)(int32_t)argument;
        break;
    case 3:
        value = kda_le64(to) ^ (uint64_t)1 << argument % 64;
        bytes = 8;
        break;
    default:
        value = argument & 1 ? UINT64_MAX : 0;
        break;
    }
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static void frame(const struct kda_trace_buffer *row, const struct kda_buffer_content *content)
{
    struct kda_etl_framer framer;
    struct kda_etl_record record;
    struct kda_etl_hole hole;
    uint64_t end = KDA_BUFFER_HEADER;
    if (content->size < KDA_BUFFER_HEADER || content->size > KDA_BUFFER_MAX_SIZE)
        abort();
    kda_etl_framer_init(&framer, content->bytes, content->size, 0, 0, row->cpu);
    framer.exact = row->used_known;
    for (;;) {
        enum kda_etl_frame got = kda_etl_frame_next(&framer, &record, &hole);
        if (got == KDA_ETL_FRAME_END)
            return;
        uint64_t off = got == KDA_ETL_FRAME_RECORD ? record.off : hole.off;
        uint64_t size = got == KDA_ETL_FRAME_RECORD ? record.size : hole.bytes;
        if (off < end || off + size > content->size)
            abort();
        end = off + size;
    }
}

static void read_session(struct kda_kernel *kernel, const struct kda_etw_session *session)
{
    struct kda_etw_buffers *buffers;
    struct kda_buffer_content content;
    struct kda_etw_clock clock;
    struct kda_error err;
    size_t count;
    kda_etw_session_clock(kernel, session, &clock);
    if (kda_etw_buffers_read(kernel, session, &buffers, &err) != KDA_OK)
        return;
    const struct kda_trace_buffer *rows = kda_etw_buffers_list(buffers, &count);
    for (size_t i = 0; i < count; i++)
        if (rows[i].readable && kda_etw_buffer_bytes(buffers, &rows[i], &content, &err) == KDA_OK)
            frame(&rows[i], &content);
    kda_etw_buffers_free(buffers);
}

static void read_image(const struct base *image)
{
    struct kda_image *file;
    struct kda_kernel *kernel;
    struct kda_kernel_options options;
    struct kda_etw *etw;
    struct kda_error err;
    size_t count;
    memset(&options, 0, sizeof(options));
    options.symbols.path = "profile";
    options.dtb = kda_kernel_info(image->kernel)->dtb;
    if (kda_image_open_memory(image->bytes, image->size, "fuzz.raw", &file, &err) != KDA_OK)
        return;
    if (kda_kernel_open(file, &options, &kernel, &err) == KDA_OK) {
        if (kda_kernel_load_symbols(kernel, &err) == KDA_OK &&
            kda_etw_map(kernel, &etw, &err) == KDA_OK) {
            const struct kda_etw_session *const *sessions = kda_etw_sessions(etw, &count);
            for (size_t i = 0; i < count; i++)
                read_session(kernel, sessions[i]);
            kda_etw_free(etw);
        }
        kda_kernel_close(kernel);
    }
    kda_image_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct base *image = &images[data[0] % IMAGES];
    if (!image->bytes)
        make(image, builds[data[0] % IMAGES]);
    size_t edits = (size - 1) / EDIT;
    if (edits > MAX_EDITS)
        edits = MAX_EDITS;
    for (size_t i = 0; i < edits; i++)
        edit(image, data + 1 + i * EDIT);
    read_image(image);
    for (size_t i = 0; i < edits; i++) {
        const uint8_t *to = place(image, data + 1 + i * EDIT);
        if (to)
            memcpy(image->bytes + (to - image->bytes), image->pristine + (to - image->bytes), 8);
    }
    return 0;
}
