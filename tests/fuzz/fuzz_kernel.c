/*
 * A small forged image, changed by the input and read whole: kernel, processes, the ETW map. Every
 * row is touched. The input is an edit script, so that the fuzzer starts from an image that makes
 * sense and breaks it piece by piece:
 *   byte 0: which image; then edits of 8 bytes: u16 page (of those in use), u16 place, u8 how,
 *   u8 size, u16 argument.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kda/etw.h"

#include "bytes.h"
#include "forge.h"

#define EDIT 8u
#define MAX_EDITS 2000u
#define PAGE KDA_PAGE_SIZE

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char common[] =
    "size 4M\nseed 3\ncpus 1\nkernel pages=sparse\ncompact on\nusers off\n"
    "drivers none\ndriver tcpip.sys size=0x20000\n"
    "process 4 handles=2\n"
    "process 412 ppid=4 name=svchost.exe path=\\x\\svchost.exe handles=2\n"
    "process 900 ppid=412 name=edr.exe path=\\x\\edr.exe handles=2\n"
    "session 1 name=One mode=0x180 sd=O:SYG:SYD:(A;;0x120fff;;;SY)\n"
    "session 2 name=Two mode=0x100 file=\\x\\edr.etl\n"
    "consumer session=1 pid=412\nconsumer session=2 pid=900 nohandle\n"
    "provider {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} "
    "enable=1,level=5,any=0x10 enable=2,level=4 filter=pids:412\n"
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} kernel driver=nt\n"
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} user pid=412 traits=Name\n";

static const char *const builds[] = {"10.0.22000.795", "6.1.7601.24540", "10.0.14393.4583",
                                     "10.0.17763.379"};
#define IMAGES (sizeof(builds) / sizeof(builds[0]))

static struct base {
    uint8_t *bytes, *pristine;
    size_t size;
    uint32_t *used; /* pages that hold something */
    size_t used_count;
} images[IMAGES];

static void make(struct base *image, const char *build)
{
    static char scenario[sizeof(common) + 64];
    struct kda_error err;
    (void)snprintf(scenario, sizeof(scenario), "build %s\n%s", build, common);
    if (forge_build_memory(scenario, FORGE_RAW, &image->bytes, &image->size, &err) != KDA_OK) {
        (void)fprintf(stderr, "%s: %s\n", build, err.text);
        abort();
    }
    image->pristine = malloc(image->size);
    image->used = calloc(image->size / PAGE, sizeof(*image->used));
    if (!image->pristine || !image->used)
        abort();
    memcpy(image->pristine, image->bytes, image->size);
    for (uint32_t i = 0; i < image->size / PAGE; i++)
        for (size_t j = 0; j < PAGE; j++)
            if (image->bytes[(size_t)i * PAGE + j]) {
                image->used[image->used_count++] = i;
                break;
            }
}

static size_t place(const struct base *image, unsigned page, unsigned at)
{
    return (size_t)image->used[page % image->used_count] * PAGE + (at & (PAGE - 8));
}

static void edit(const struct base *image, const uint8_t *e)
{
    size_t at = place(image, kda_le16(e), kda_le16(e + 2));
    uint16_t argument = kda_le16(e + 6);
    uint64_t old = kda_le64(image->bytes + at), value;
    unsigned bytes = e[5] % 8 + 1;
    switch (e[4] % 6) {
    case 0: /* a small number */
        value = argument;
        break;
    case 1: /* what stands elsewhere: pointers that lead somewhere */
        value = kda_le64(image->bytes + place(image, argument, (unsigned)argument * 8));
        bytes = 8;
        break;
    case 2: /* near what it was */
        value = old + (uint64_t)(int64_t)(int16_t)argument;
        bytes = 8;
        break;
    case 3:
        value = old ^ (uint64_t)1 << argument % 64;
        bytes = 8;
        break;
    case 4:
        value = argument & 1 ? UINT64_MAX : 0;
        break;
    default:
        value = argument * 0x0001000100010001u;
        break;
    }
    for (unsigned i = 0; i < bytes; i++)
        image->bytes[at + i] = (uint8_t)(value >> (8 * i));
}

static volatile uint64_t sink;

static void touch(const char *text)
{
    if (text)
        sink = sink + strlen(text);
}

static void touch_map(const struct kda_etw *etw)
{
    size_t count;
    const struct kda_etw_silo *silos = kda_etw_silos(etw, &count);
    for (size_t i = 0; i < count; i++)
        touch(silos[i].label);
    const struct kda_etw_session *const *sessions = kda_etw_sessions(etw, &count);
    for (size_t i = 0; i < count; i++) {
        touch(sessions[i]->name);
        touch(sessions[i]->log_file);
        touch(sessions[i]->security);
        for (size_t j = 0; j < sessions[i]->consumer_count; j++)
            touch(sessions[i]->consumers[j]->process);
    }
    const struct kda_etw_consumer *const *consumers = kda_etw_consumers(etw, &count);
    for (size_t i = 0; i < count; i++) {
        touch(consumers[i]->process);
        touch(consumers[i]->image);
        touch(consumers[i]->silo->label);
    }
    const struct kda_etw_provider *const *providers = kda_etw_providers(etw, &count);
    for (size_t i = 0; i < count; i++) {
        touch(providers[i]->name);
        touch(providers[i]->security);
        touch(providers[i]->silo->label);
        for (size_t j = 0; j < providers[i]->filter_count; j++)
            touch(providers[i]->filters[j].executables);
        for (size_t j = 0; j < providers[i]->registration_count; j++) {
            touch(providers[i]->registrations[j]->process);
            touch(providers[i]->registrations[j]->module);
            touch(providers[i]->registrations[j]->traits_name);
        }
    }
    sink = sink + kda_etw_footprint(etw);
}

static void read_image(const struct base *image)
{
    struct kda_image *file;
    struct kda_kernel *kernel;
    struct kda_kernel_options options;
    struct kda_etw *etw;
    struct kda_error err;
    memset(&options, 0, sizeof(options));
    options.symbols.path = "profile";
    if (kda_image_open_memory(image->bytes, image->size, "fuzz.raw", &file, &err) != KDA_OK)
        return;
    if (kda_kernel_open(file, &options, &kernel, &err) == KDA_OK) {
        if (kda_kernel_load_symbols(kernel, &err) == KDA_OK &&
            kda_etw_map(kernel, &etw, &err) == KDA_OK) {
            touch_map(etw);
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
        const uint8_t *e = data + 1 + i * EDIT;
        size_t at = place(image, kda_le16(e), kda_le16(e + 2));
        memcpy(image->bytes + at, image->pristine + at, 8);
    }
    return 0;
}
