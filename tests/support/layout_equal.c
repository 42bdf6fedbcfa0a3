#include "layout_equal.h"

#include <stdio.h>

size_t layout_differences(const struct kda_layout *want, const struct kda_layout *got,
                          const char *what)
{
    size_t count = 0;
    for (unsigned i = 0; i < KDA_SYM_COUNT; i++) {
        if (want->rva[i] == got->rva[i])
            continue;
        (void)fprintf(stderr, "%s: %s: want 0x%x, got 0x%x\n", what,
                      kda_symbol_name((enum kda_symbol_id)i), want->rva[i], got->rva[i]);
        count++;
    }
    for (unsigned i = 0; i < KDA_STRUCT_COUNT; i++) {
        if (want->size[i] == got->size[i])
            continue;
        (void)fprintf(stderr, "%s: size of %s: want 0x%x, got 0x%x\n", what,
                      kda_struct_name((enum kda_struct_id)i), want->size[i], got->size[i]);
        count++;
    }
    for (unsigned i = 0; i < KDA_FIELD_COUNT; i++) {
        const struct kda_field *w = &want->field[i], *g = &got->field[i];
        if (w->offset == g->offset && w->size == g->size && w->bit == g->bit && w->bits == g->bits)
            continue;
        (void)fprintf(stderr, "%s: %s: want 0x%x/%u %u:%u, got 0x%x/%u %u:%u\n", what,
                      kda_field_name((enum kda_field_id)i), w->offset, w->size, w->bit, w->bits,
                      g->offset, g->size, g->bit, g->bits);
        count++;
    }
    return count;
}
