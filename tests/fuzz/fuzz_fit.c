/*
 * A forged machine whose memory the input changes, byte ranges at a time, then fitted without
 * symbols and read.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kda/etw.h"
#include "kda/fit.h"

#include "bytes.h"
#include "forge.h"

#define MAX_CHANGE 64u

static const char scenario[] =
    "build 10.0.22631.2428\nsize 8M\nseed 11\ncpus 1\nkernel pages=sparse\ncompact on\nusers off\n"
    "drivers none\nrvas invented\n"
    "process 4 ppid=0 name=System handles=4\n"
    "process 412 ppid=4 name=smss.exe handles=3\n"
    "process 772 ppid=412 name=services.exe handles=3\n"
    "process 900 ppid=772 name=svchost.exe handles=3\n"
    "session 2 name=Kernel mode=0x02800480 system\n"
    "session 3 name=System mode=0x180 sd=O:SYG:SYD:(A;;0x120fff;;;SY)\n"
    "session 4 name=Edr mode=0x100 file=a.etl\n"
    "consumer session=3 pid=900\nconsumer session=4 pid=772\n"
    "provider {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} enable=3,level=5,any=0x10\n"
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} kernel driver=nt\n"
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} user pid=412\n";

static uint8_t *original, *copy;
static size_t size;
static uint64_t dtb;

static void prepare(void)
{
    struct forge *forge = NULL;
    if (forge_build(scenario, &forge, NULL) != KDA_OK ||
        forge_write_memory(forge, FORGE_RAW, &original, &size, NULL) != KDA_OK)
        abort();
    dtb = (uint64_t)forge_truth(forge)->dtb;
    forge_free(forge);
    copy = malloc(size);
    if (!copy)
        abort();
    memcpy(copy, original, size);
}

/* Input: any number of (u24 place / 8, u8 length, bytes). */
static void change(const uint8_t *data, size_t left, bool undo)
{
    while (left > 4) {
        size_t at = ((size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) * 8 % size;
        size_t take = data[3] % MAX_CHANGE;
        data += 4;
        left -= 4;
        take = take < left ? take : left;
        take = take < size - at ? take : size - at;
        memcpy(copy + at, undo ? original + at : data, take);
        data += take;
        left -= take;
    }
}

static void run(void)
{
    struct kda_image *image = NULL;
    struct kda_kernel *kernel = NULL;
    struct kda_fit *fit = NULL;
    struct kda_etw *etw = NULL;
    struct kda_kernel_options options = {.dtb = dtb};
    struct kda_fit_options fit_options = {.no_profile = true};
    if (kda_image_open_memory(copy, size, "fuzz", &image, NULL) == KDA_OK &&
        kda_kernel_open(image, &options, &kernel, NULL) == KDA_OK &&
        kda_etw_fit(kernel, &fit_options, &fit, NULL) == KDA_OK &&
        kda_fit_install(fit, kernel, NULL) == KDA_OK && kda_etw_map(kernel, &etw, NULL) == KDA_OK)
        kda_etw_free(etw);
    kda_fit_free(fit);
    kda_kernel_close(kernel);
    kda_image_close(image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (!original)
        prepare();
    change(data, length, false);
    run();
    change(data, length, true);
    return 0;
}
