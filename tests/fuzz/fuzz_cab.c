/* Compressed files from a symbol server. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "symbols/cab.h"

#define MAX_OUTPUT ((uint64_t)1 << 20)

static struct kda_outfile *out;
static char path[64];

static void remove_output(void)
{
    kda_outfile_close(out, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kda_file *file;
    if (!out) {
        (void)snprintf(path, sizeof(path), "fuzz_cab.%ld.tmp", (long)getpid());
        if (kda_outfile_open(path, &out, NULL) != KDA_OK)
            abort();
        (void)atexit(remove_output);
    }
    if (kda_file_open_memory(data, size, "input", &file, NULL) != KDA_OK)
        return 0;
    if (kda_outfile_reset(out, NULL) != KDA_OK)
        abort();
    struct kda_error err;
    (void)kda_cab_unpack(file, out, MAX_OUTPUT, &err);
    if (kda_outfile_size(out) > MAX_OUTPUT)
        abort();
    kda_file_close(file);
    return 0;
}
