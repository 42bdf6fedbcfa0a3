/*
 * fuzz_compare.c - lines of two witnesses, told apart by the first character of each line.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kda/compare.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kda_log_line line;
    struct kda_compare *compare;
    const char *text = (const char *)data;
    if (kda_compare_create(NULL, &compare, NULL) != KDA_OK)
        return 0;
    while (size > 1) {
        const char *end = memchr(text, '\n', size);
        size_t length = end ? (size_t)(end - text) : size;
        if (length > 1) {
            kda_log_parse(text + 1, length - 1, &line);
            if (kda_compare_add(compare, (unsigned char)text[0] & 1u, &line, NULL) != KDA_OK)
                break;
        }
        length += end ? 1 : 0;
        text += length;
        size -= length;
    }
    if (kda_compare_run(compare, NULL) == KDA_OK) {
        size_t count;
        uint64_t only = 0;
        const struct kda_compare_group *groups = kda_compare_groups(compare, &count);
        for (size_t i = 0; i < count; i++)
            only += groups[i].count;
        const struct kda_compare_witness *a = kda_compare_witness(compare, 0);
        const struct kda_compare_witness *b = kda_compare_witness(compare, 1);
        /* Every event is matched, left out or reported: the account of the comparison itself. */
        if (a->only + b->only != only || a->matched != b->matched)
            abort();
        for (unsigned i = 0; i < 2; i++) {
            const struct kda_compare_witness *seen = kda_compare_witness(compare, i);
            uint64_t sum = seen->matched + seen->only;
            for (unsigned r = 0; r < KDA_COMPARE_REASONS; r++)
                sum += seen->left_out[r];
            if (sum != seen->events)
                abort();
        }
    }
    kda_compare_destroy(compare);
    return 0;
}
