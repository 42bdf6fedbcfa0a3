/* Any bytes as a Volatility symbol table, plain or xz. */
#include <stddef.h>
#include <stdint.h>

#include "symbols/isf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kda_file *file;
    struct kda_error err;
    struct kda_layout layout;
    if (kda_file_open_memory(data, size, "fuzz.json", &file, &err) != KDA_OK)
        return 0;
    (void)kda_isf_layout(file, NULL, &layout, &err);
    kda_file_close(file);
    return 0;
}
