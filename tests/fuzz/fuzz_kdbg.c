/* The decoder of the debugger data block: eight bytes of kernel base, eight of list head, the
 * rest is the block. What it accepts must read as a block of that kernel. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "kernel/kdbg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 16 || size > 16 + 2 * KDA_KDBG_MAX)
        return 0;
    uint64_t base = kda_le64(data), head = kda_le64(data + 8);
    uint32_t stated = 0;
    size -= 16;
    uint8_t *in = malloc(size ? size : 1), *out = calloc(size ? size : 1, 1);
    if (in && out) {
        memcpy(in, data + 16, size);
        if (size >= KDA_KDBG_HEAD)
            (void)kda_kdbg_size(in, base);
        if (kda_kdbg_decode_keyless(in, size, base, head, out, &stated) &&
            (kda_kdbg_size(out, base) != stated || stated < KDA_KDBG_MIN || stated > KDA_KDBG_MAX))
            abort();
    }
    free(in);
    free(out);
    return 0;
}
