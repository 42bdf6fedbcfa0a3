/*
 * A small forged image, changed by the input and read whole: kernel, processes, the ETW map. Every
 * row is touched. Byte 0: which image; the rest is an edit script (edited.h).
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kda/etw.h"

#include "edited.h"

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

static struct edited images[IMAGES];

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

static void read_image(const struct edited *image)
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
    struct edited *image = &images[data[0] % IMAGES];
    if (!image->bytes)
        edited_make(image, builds[data[0] % IMAGES], common);
    edited_apply(image, data + 1, size - 1);
    read_image(image);
    edited_restore(image, data + 1, size - 1);
    return 0;
}
