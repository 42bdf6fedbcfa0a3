/*
 * fit_code.c - what the start of one known function leads to.
 */
#include "fit_int.h"

#include "base/insn.h"

size_t kda_fit_code_targets(const uint8_t *code, size_t size, uint64_t va, uint64_t *ret,
                            size_t max)
{
    size_t at = 0, count = 0;
    while (at < size && count < max) {
        struct kda_insn insn = kda_insn_decode(code + at, size - at);
        if (insn.size == 0)
            break;
        at += insn.size;
        if (insn.load64)
            ret[count++] = va + at + (uint64_t)(int64_t)insn.displacement;
    }
    return count;
}
