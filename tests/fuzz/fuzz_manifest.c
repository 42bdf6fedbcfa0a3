/*
 * fuzz_manifest.c - the input is an instrumentation manifest. Whatever it says, the templates that
 * come out are usable: each is walked over bytes of its own.
 */
#include <stdint.h>
#include <stdlib.h>

#include "etl/describe.h"
#include "etl/payload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kda_draft draft;
    static uint64_t values[KDA_TEMPLATE_MAX_FIELDS];
    static const uint8_t payload[64] = {2, 0, 1, 0, 'a', 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 5};
    struct kda_templates store;
    struct kda_map_list maps;
    if (size > 65536)
        return 0;
    kda_templates_init(&store);
    kda_maps_init(&maps, &store);
    draft.text_used = 0;
    if (kda_manifest_learn(&store, &draft, &maps, KDA_ORIGIN_USER, (const char *)data, size, "fuzz",
                           NULL) == KDA_OK)
        for (size_t i = 0; i < store.count; i++) {
            struct kda_payload p = {.bytes = payload,
                                    .size = sizeof(payload),
                                    .pointer_size = 8,
                                    .t = store.entries[i].t,
                                    .values = values};
            if (!kda_template_valid(p.t))
                abort();
            (void)kda_payload_walk(&p);
        }
    kda_maps_deinit(&maps);
    kda_templates_deinit(&store);
    return 0;
}
