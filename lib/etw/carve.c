/*
 * carve.c - objects of ETW that stand in pool blocks and on no list.
 */
#include <string.h>

#include "carve.h"

#define CANDIDATES_MAX 4096u /* each is compared with each */

struct candidate {
    uint64_t va;
    struct kda_carve_proof proof;
    uint64_t twin; /* another candidate that is the same; 0 = none */
};

struct carving {
    struct kda_etw *etw;
    const struct kda_carver *carver;
    const struct kda_map *known; /* objects of this kind that the lists name */
    uint8_t type;
    size_t size;
    struct candidate *candidates;
    size_t count, capacity;
};

static bool is_known(const void *context, uint64_t va)
{
    const struct carving *carving = context;
    return kda_map_get(carving->known, va, NULL);
}

/* Returns whether the layout and the image have what the kind needs. */
static bool ready(struct carving *carving)
{
    const struct kda_carver *carver = carving->carver;
    struct kda_kernel *kernel = carving->etw->kernel;
    const char *lacks = NULL;
    uint32_t size = kda_kernel_layout(kernel)->size[carver->structure];
    for (size_t i = 0; carver->needs[i] != KDA_CARVER_END && !lacks; i++)
        if (!kda_has_field(kernel, carver->needs[i]))
            lacks = kda_field_name(carver->needs[i]);
    if (!lacks && carver->type &&
        kda_object_type_index(kernel, carver->type, &carving->type, NULL) != KDA_OK)
        lacks = carver->type;
    kda_pool_set_lacks(kernel, carver->kind, lacks);
    carving->size = size == KDA_NONE ? 16 : size;
    return !lacks;
}

static bool judge(struct carving *carving, struct kda_carve_proof *proof, uint64_t va)
{
    memset(proof, 0, sizeof(*proof));
    proof->etw = carving->etw;
    if (va & 7)
        return false;
    carving->carver->prove(proof, va);
    if (proof->open != KDA_OK)
        proof->missing = proof->open;
    return !proof->refuted && (proof->ties > 0 || proof->missing != KDA_OK);
}

/* What was proven waits until all blocks were looked at: of one and its copy neither is taken. */
static void offer(struct carving *carving, const struct kda_carve_proof *proof, uint64_t va)
{
    struct kda_etw *etw = carving->etw;
    void *items = carving->candidates;
    if (proof->ties == 0 || proof->open != KDA_OK) {
        kda_etw_gap(etw, "pool", va, proof->missing,
                    "%s may stand here that no list names: what would prove it cannot be read",
                    carving->carver->what);
        return;
    }
    if (carving->carver->copied && carving->carver->copied(etw, va))
        return;
    if (carving->count >= CANDIDATES_MAX) {
        kda_etw_gap(etw, "pool", va, KDA_LIMIT, "more than %u blocks look like %s on no list",
                    CANDIDATES_MAX, carving->carver->what);
    } else if (kda_grow(&items, &carving->capacity, carving->count + 1,
                        sizeof(*carving->candidates), CANDIDATES_MAX)) {
        carving->candidates = items;
        carving->candidates[carving->count++] = (struct candidate){va, *proof, 0};
    } else {
        etw->out_of_memory = true;
    }
}

static void take_candidates(struct carving *carving)
{
    const struct kda_carver *carver = carving->carver;
    for (size_t i = 0; carver->same && i < carving->count; i++)
        for (size_t k = 0; k < i && !kda_etw_stop(carving->etw); k++)
            if (carver->same(carving->etw, carving->candidates[i].va, carving->candidates[k].va)) {
                carving->candidates[i].twin = carving->candidates[k].va;
                carving->candidates[k].twin = carving->candidates[i].va;
            }
    for (size_t i = 0; i < carving->count && !kda_etw_stop(carving->etw); i++) {
        struct candidate *c = &carving->candidates[i];
        if (c->twin == 0)
            carver->add(&c->proof, c->va);
        else if (c->va < c->twin)
            kda_etw_gap(carving->etw, "pool", c->va, KDA_BAD_DATA,
                        "%s on no list stands here and at 0x%016llx: one of them is a copy",
                        carver->what, (unsigned long long)c->twin);
    }
    kda_free(carving->candidates);
}

static void carve_block(struct carving *carving, const struct kda_pool_block *block)
{
    struct kda_carve_proof proof;
    size_t room;
    uint64_t va = 0, content = kda_pool_content(block, block->va, &room);
    bool object = carving->carver->type &&
                  kda_pool_object(carving->etw->kernel, block, carving->type, carving->size, &va);
    bool is = object && judge(carving, &proof, va);
    if (!is && carving->carver->bare && room >= carving->size) {
        va = content;
        is = judge(carving, &proof, va);
    }
    if (is && block->alias != 0)
        kda_pool_ambiguous(carving->etw->kernel, block);
    else if (is)
        offer(carving, &proof, va);
}

/* Where objects stand that a list names; the processes have told of their own. */
static void learn_regions(struct kda_etw *etw)
{
    for (size_t i = 0; i < etw->providers.count; i++) {
        const struct kda_etw_provider *provider = etw->providers.items[i];
        kda_pool_add_region(etw->kernel, provider->va);
    }
    for (size_t i = 0; i < etw->registrations.count; i++) {
        const struct kda_etw_registration *reg = etw->registrations.items[i];
        kda_pool_add_region(etw->kernel, reg->va);
    }
}

static bool known_sessions(struct kda_etw *etw, struct kda_map *map)
{
    for (size_t i = 0; i < etw->sessions.count; i++) {
        const struct kda_etw_session *session = etw->sessions.items[i];
        if (!kda_map_put(map, session->va, i))
            return false;
    }
    return true;
}

void kda_etw_carve(struct kda_etw *etw, enum kda_pool_kind kind)
{
    const struct kda_map *maps[KDA_POOL_KINDS] = {[KDA_POOL_CONSUMER] = &etw->consumer_by_va,
                                                  [KDA_POOL_GUID_ENTRY] = &etw->provider_by_va,
                                                  [KDA_POOL_REGISTRATION] =
                                                      &etw->registration_by_va};
    const struct kda_pool_block *blocks;
    struct kda_map sessions;
    size_t count;
    struct kda_error why;
    enum kda_status status = kda_pool_blocks(etw->kernel, &blocks, &count, &why);
    if (status != KDA_OK) {
        kda_etw_gap(etw, "pool", 0, status, "%s", why.text);
        return;
    }
    kda_map_init(&sessions);
    learn_regions(etw);
    if (kind == KDA_POOL_LOGGER && !known_sessions(etw, &sessions))
        etw->out_of_memory = true;
    for (size_t i = 0; i < KDA_CARVERS; i++) {
        struct carving carving = {.etw = etw, .carver = &kda_carvers[i]};
        if (kda_carvers[i].kind != kind || !ready(&carving))
            continue;
        carving.known = maps[kind] ? maps[kind] : &sessions;
        for (size_t k = 0; k < count && !kda_etw_stop(etw); k++)
            if (blocks[k].kind == kind && kda_pool_in_region(etw->kernel, &blocks[k]) &&
                !kda_pool_known(&blocks[k], is_known, &carving))
                carve_block(&carving, &blocks[k]);
        take_candidates(&carving);
    }
    kda_map_deinit(&sessions);
}
