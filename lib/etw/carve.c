/*
 * carve.c - objects of ETW that stand in pool blocks and on no list.
 *
 * A block is an object only if nothing in it is contradicted and something outside of it agrees:
 * rings that lead back, links that still name the list it was taken off, the entry, session or
 * process it belongs to. What ended, by its own state, is left out.
 */
#include <string.h>

#include "internal.h"

#define BUCKETS 64u
#define BUCKET_SIZE 56u
#define LIST_SPAN 48u /* three list heads */
#define MAX_BUFFER_SIZE 0x1000000u
#define MAX_REFERENCES 0x1000000u
#define YEAR_2000 125911584000000000u
#define DAY 864000000000u
#define FIELDS 8u
#define NO_FIELD KDA_FIELD_COUNT

struct proof {
    struct kda_etw *etw;
    unsigned ties; /* places outside that agree */
    bool refuted;
    enum kda_status missing; /* why something could not be asked; KDA_OK = nothing */
    struct kda_etw_silo *silo;
};

static void require(struct proof *proof, bool holds)
{
    if (!holds)
        proof->refuted = true;
}

static bool bytes_at(struct proof *proof, uint64_t va, void *ret, size_t size)
{
    enum kda_status status = kda_read(proof->etw->kernel, va, ret, size, NULL);
    if (status == KDA_UNMAPPED)
        proof->refuted = true;
    else if (status != KDA_OK)
        proof->missing = status;
    return status == KDA_OK;
}

static bool field(struct proof *proof, uint64_t object, enum kda_field_id id, uint64_t *ret)
{
    if (!kda_has_field(proof->etw->kernel, id))
        return false;
    enum kda_status status = kda_read_field(proof->etw->kernel, object, id, ret, NULL);
    if (status == KDA_UNMAPPED)
        proof->refuted = true;
    else if (status != KDA_OK)
        proof->missing = status;
    return status == KDA_OK;
}

/* A list head whose neighbours on both sides name it. */
static void ring(struct proof *proof, uint64_t head)
{
    uint8_t links[16], back[8];
    if (head == 0 || !bytes_at(proof, head, links, sizeof(links)))
        return;
    uint64_t next = kda_le64(links), last = kda_le64(links + 8);
    require(proof, kda_is_kernel_va(proof->etw->kernel, next) &&
                       kda_is_kernel_va(proof->etw->kernel, last));
    if (proof->refuted)
        return;
    bool forward = bytes_at(proof, next + 8, back, sizeof(back));
    require(proof, !forward || kda_le64(back) == head);
    bool backward = bytes_at(proof, last, back, sizeof(back));
    require(proof, !backward || kda_le64(back) == head);
    proof->ties += forward && backward;
}

/* What can be asked about a list that an object was taken off. */
struct list {
    /* Is `place`, read from the object's links, the head or a node of that list? */
    bool (*names)(struct proof *proof, uint64_t object, uint64_t place);
    /* Are these the same thing, so that one is a copy of the other's page? */
    bool (*same)(struct proof *proof, uint64_t object, uint64_t other);
};

/* Does a neighbour name, in the object's place, what is the same and has the same link? */
static bool is_copy(struct proof *proof, uint64_t object, uint64_t link, const struct list *list,
                    const uint64_t links[2])
{
    for (unsigned i = 0; i < 2; i++) {
        uint8_t bytes[8];
        uint64_t toward = links[i] + 8u * (1 - i); /* next's Blink, last's Flink */
        if (kda_read(proof->etw->kernel, toward, bytes, sizeof(bytes), NULL) != KDA_OK)
            continue;
        uint64_t node = kda_le64(bytes);
        if (node != link && kda_is_kernel_va(proof->etw->kernel, node) &&
            kda_read(proof->etw->kernel, node + 8u * i, bytes, sizeof(bytes), NULL) == KDA_OK &&
            kda_le64(bytes) == links[i] && list->same(proof, object, node - (link - object)))
            return true;
    }
    return false;
}

/* The links of something that was taken off a list: kernel addresses, and one of them at least
 * leads to the list or to the thing itself. */
static void links(struct proof *proof, uint64_t object, enum kda_field_id member,
                  const struct list *list)
{
    uint8_t bytes[16];
    uint64_t link = kda_etw_member(proof->etw, object, member);
    if (!bytes_at(proof, link, bytes, sizeof(bytes)))
        return;
    const uint64_t places[2] = {kda_le64(bytes), kda_le64(bytes + 8)};
    bool any = false;
    for (size_t i = 0; i < 2; i++) {
        require(proof, kda_is_kernel_va(proof->etw->kernel, places[i]));
        any = any || places[i] == link || list->names(proof, object, places[i]);
    }
    require(proof, any && !is_copy(proof, object, link, list, places));
    proof->ties += any;
}

/* Two objects that hold the same in a member that both have. */
static bool alike(struct proof *proof, uint64_t a, uint64_t b, enum kda_field_id id)
{
    uint64_t x, y;
    return !kda_has_field(proof->etw->kernel, id) ||
           (kda_read_field(proof->etw->kernel, a, id, &x, NULL) == KDA_OK &&
            kda_read_field(proof->etw->kernel, b, id, &y, NULL) == KDA_OK && x == y);
}

/* The silo that the object says it belongs to; the host where objects do not say. */
static void silo(struct proof *proof, uint64_t object, enum kda_field_id id)
{
    struct kda_etw *etw = proof->etw;
    uint64_t state;
    proof->silo = NULL;
    if (!kda_has_field(etw->kernel, id)) {
        proof->silo = &etw->silos[0];
    } else if (field(proof, object, id, &state)) {
        for (size_t i = 0; i < etw->silo_count; i++)
            if (etw->silos[i].state == state)
                proof->silo = &etw->silos[i];
    }
    require(proof, proof->silo != NULL);
}

/* ---- loggers ---- */

static void name(struct proof *proof, uint64_t string)
{
    uint8_t head[16];
    if (!bytes_at(proof, string, head, sizeof(head)))
        return;
    uint16_t length = kda_le16(head);
    require(proof, length != 0 && length % 2 == 0 && length <= kda_le16(head + 2) &&
                       kda_is_kernel_va(proof->etw->kernel, kda_le64(head + 8)));
}

static void prove_logger(struct proof *proof, uint64_t va)
{
    struct kda_etw *etw = proof->etw;
    uint64_t value, size = 0, now = kda_kernel_info(etw->kernel)->system_time_100ns;
    silo(proof, va, KDA_F_WMI_LOGGER_CONTEXT_SiloState);
    if (proof->refuted)
        return;
    require(proof, field(proof, va, KDA_F_WMI_LOGGER_CONTEXT_LoggerId, &value) &&
                       value < proof->silo->slots);
    /* A session that ended stands in memory until its last reference is gone. */
    require(proof, field(proof, va, KDA_F_WMI_LOGGER_CONTEXT_CollectionOn, &value) && value != 0);
    require(proof, field(proof, va, KDA_F_WMI_LOGGER_CONTEXT_BufferSize, &size) && size != 0 &&
                       size % 0x400 == 0 && size <= MAX_BUFFER_SIZE);
    if (field(proof, va, KDA_F_WMI_LOGGER_CONTEXT_MaximumEventSize, &value))
        require(proof, value <= size);
    if (field(proof, va, KDA_F_WMI_LOGGER_CONTEXT_StartTime, &value))
        require(proof, value > YEAR_2000 && (now == 0 || value < now + DAY));
    name(proof, kda_etw_member(etw, va, KDA_F_WMI_LOGGER_CONTEXT_LoggerName));
    ring(proof, kda_etw_member(etw, va, KDA_F_WMI_LOGGER_CONTEXT_Consumers));
    ring(proof, kda_etw_member(etw, va, KDA_F_WMI_LOGGER_CONTEXT_GlobalList));
}

static void add_logger(struct proof *proof, uint64_t va)
{
    uint64_t slot;
    if (kda_read_field(proof->etw->kernel, va, KDA_F_WMI_LOGGER_CONTEXT_LoggerId, &slot, NULL) ==
        KDA_OK)
        kda_etw_pool_session(proof->etw, proof->silo, (uint32_t)slot, va);
}

/* ---- GUID entries ---- */

static uint32_t bucket_of(const uint8_t *guid)
{
    return (kda_le32(guid) ^ kda_le32(guid + 4) ^ kda_le32(guid + 8) ^ kda_le32(guid + 12)) &
           (BUCKETS - 1);
}

/* A head or an entry of the bucket that the GUID belongs to. */
static bool in_bucket(struct proof *proof, uint64_t entry, uint64_t place)
{
    struct kda_etw *etw = proof->etw;
    uint32_t size = kda_kernel_layout(etw->kernel)->size[KDA_STRUCT_ETW_HASH_BUCKET];
    uint8_t guid[16];
    if (!bytes_at(proof, kda_etw_member(etw, entry, KDA_F_ETW_GUID_ENTRY_Guid), guid, sizeof(guid)))
        return false;
    uint32_t bucket = bucket_of(guid);
    uint64_t heads =
        proof->silo->table + (uint64_t)bucket * (size == KDA_NONE ? BUCKET_SIZE : size);
    if (proof->silo->table != 0 && place >= heads && place - heads < LIST_SPAN)
        return (place - heads) % 16 == 0;
    const struct kda_etw_provider *other =
        kda_etw_lookup(&etw->providers, &etw->provider_by_va,
                       place - kda_field_offset(etw->kernel, KDA_F_ETW_GUID_ENTRY_GuidList));
    return other && other->has_guid && other->silo == proof->silo &&
           bucket_of(other->guid) == bucket;
}

static bool same_entry(struct proof *proof, uint64_t a, uint64_t b)
{
    uint8_t x[16], y[16];
    uint64_t at = kda_field_offset(proof->etw->kernel, KDA_F_ETW_GUID_ENTRY_Guid);
    return kda_read(proof->etw->kernel, a + at, x, sizeof(x), NULL) == KDA_OK &&
           kda_read(proof->etw->kernel, b + at, y, sizeof(y), NULL) == KDA_OK &&
           memcmp(x, y, sizeof(x)) == 0;
}

static void enables(struct proof *proof, uint64_t slots)
{
    uint32_t size = kda_kernel_layout(proof->etw->kernel)->size[KDA_STRUCT_TRACE_ENABLE_INFO];
    for (uint32_t i = 0; slots != 0 && size != KDA_NONE && i < KDA_ETW_ENABLE_SLOTS; i++) {
        uint64_t enabled, logger, va = slots + (uint64_t)i * size;
        if (field(proof, va, KDA_F_TRACE_ENABLE_INFO_IsEnabled, &enabled) &&
            field(proof, va, KDA_F_TRACE_ENABLE_INFO_LoggerId, &logger))
            require(proof, enabled == 0 || (enabled == 1 && logger < proof->silo->slots));
    }
}

static void prove_entry(struct proof *proof, uint64_t va)
{
    static const uint8_t zero[16];
    struct kda_etw *etw = proof->etw;
    uint8_t guid[16];
    uint64_t references;
    silo(proof, va, KDA_F_ETW_GUID_ENTRY_SiloState);
    require(proof, field(proof, va, KDA_F_ETW_GUID_ENTRY_RefCount, &references) && references > 0 &&
                       references < MAX_REFERENCES);
    require(proof, bytes_at(proof, kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_Guid), guid,
                            sizeof(guid)) &&
                       memcmp(guid, zero, sizeof(guid)) != 0);
    if (proof->refuted)
        return;
    ring(proof, kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_RegListHead));
    enables(proof, kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_EnableInfo));
    links(proof, va, KDA_F_ETW_GUID_ENTRY_GuidList, &(const struct list){in_bucket, same_entry});
    require(proof, proof->ties >= 2 || proof->missing != KDA_OK);
}

static void add_entry(struct proof *proof, uint64_t va)
{
    (void)kda_etw_provider(proof->etw, va, KDA_PROVIDER_POOL);
}

/* ---- registrations ---- */

/* The head of the entry's list, or another registration of the entry. */
static bool of_entry(struct proof *proof, uint64_t reg, uint64_t place)
{
    struct kda_etw *etw = proof->etw;
    uint64_t entry;
    if (!field(proof, reg, KDA_F_ETW_REG_ENTRY_GuidEntry, &entry))
        return false;
    if (place == kda_etw_member(etw, entry, KDA_F_ETW_GUID_ENTRY_RegListHead))
        return true;
    const struct kda_etw_registration *other =
        kda_etw_lookup(&etw->registrations, &etw->registration_by_va,
                       place - kda_field_offset(etw->kernel, KDA_F_ETW_REG_ENTRY_RegList));
    return other && other->readable && other->guid_entry == entry;
}

static bool same_registration(struct proof *proof, uint64_t a, uint64_t b)
{
    return alike(proof, a, b, KDA_F_ETW_REG_ENTRY_GuidEntry) &&
           alike(proof, a, b, KDA_F_ETW_REG_ENTRY_Process) &&
           alike(proof, a, b, KDA_F_ETW_REG_ENTRY_Callback);
}

static bool lives(struct kda_etw *etw, uint64_t process_va)
{
    const struct kda_process *process = kda_process_at(etw->kernel, process_va);
    return process && process->exit_time_100ns == 0;
}

static void prove_registration(struct proof *proof, uint64_t va)
{
    struct kda_etw *etw = proof->etw;
    uint64_t entry, value, user = 2, kernel = 2, process = 0, callback = 0;
    if (!field(proof, va, KDA_F_ETW_REG_ENTRY_GuidEntry, &entry))
        return;
    require(proof, kda_map_get(&etw->provider_by_va, entry, NULL));
    if (field(proof, va, KDA_F_ETW_REG_ENTRY_DbgClosed, &value))
        require(proof, value == 0);
    if (field(proof, va, KDA_F_ETW_REG_ENTRY_DbgInserted, &value))
        require(proof, value == 1);
    (void)field(proof, va, KDA_F_ETW_REG_ENTRY_DbgUserRegistration, &user);
    (void)field(proof, va, KDA_F_ETW_REG_ENTRY_DbgKernelRegistration, &kernel);
    (void)field(proof, va, KDA_F_ETW_REG_ENTRY_Process, &process);
    (void)field(proof, va, KDA_F_ETW_REG_ENTRY_Callback, &callback);
    bool of_driver = kda_module_at(etw->kernel, callback) != NULL;
    if (user == 2 || kernel == 2) /* 7601 names no bits: the pointer decides */
        require(proof, lives(etw, process) || of_driver);
    else
        require(proof, user != kernel && (user ? lives(etw, process) : of_driver || !callback));
    if (!proof->refuted)
        links(proof, va, KDA_F_ETW_REG_ENTRY_RegList,
              &(const struct list){of_entry, same_registration});
}

static void add_registration(struct proof *proof, uint64_t va)
{
    (void)kda_etw_registration(proof->etw, va, KDA_REG_POOL);
}

/* ---- consumers ---- */

/* The head of the session's list, or another consumer. */
static bool of_session(struct proof *proof, uint64_t consumer, uint64_t place)
{
    struct kda_etw *etw = proof->etw;
    uint64_t id;
    if (!field(proof, consumer, KDA_F_ETW_REALTIME_CONSUMER_LoggerId, &id))
        return false;
    const struct kda_etw_session *session = kda_etw_session_at(etw, proof->silo, (uint16_t)id);
    if (session && place == kda_etw_member(etw, session->va, KDA_F_WMI_LOGGER_CONTEXT_Consumers))
        return true;
    return kda_map_get(&etw->consumer_by_va,
                       place - kda_field_offset(etw->kernel, KDA_F_ETW_REALTIME_CONSUMER_Links),
                       NULL);
}

static bool same_consumer(struct proof *proof, uint64_t a, uint64_t b)
{
    return alike(proof, a, b, KDA_F_ETW_REALTIME_CONSUMER_ProcessObject) &&
           alike(proof, a, b, KDA_F_ETW_REALTIME_CONSUMER_LoggerId);
}

static void prove_consumer(struct proof *proof, uint64_t va)
{
    uint64_t value;
    silo(proof, va, KDA_F_ETW_REALTIME_CONSUMER_SiloState);
    require(proof, field(proof, va, KDA_F_ETW_REALTIME_CONSUMER_ProcessObject, &value) &&
                       lives(proof->etw, value));
    require(proof, field(proof, va, KDA_F_ETW_REALTIME_CONSUMER_LoggerId, &value) &&
                       kda_etw_session_at(proof->etw, proof->silo, (uint16_t)value) != NULL);
    require(proof,
            field(proof, va, KDA_F_ETW_REALTIME_CONSUMER_Disconnected, &value) && value == 0);
    if (!proof->refuted)
        links(proof, va, KDA_F_ETW_REALTIME_CONSUMER_Links,
              &(const struct list){of_session, same_consumer});
}

static void add_consumer(struct proof *proof, uint64_t va)
{
    (void)kda_etw_consumer(proof->etw, va, KDA_CONSUMER_POOL, NULL);
}

/* ---- all of them ---- */

/* In this order: what a registration or a consumer belongs to may itself be on no list. */
static const struct carver {
    enum kda_pool_kind kind;
    const char *what;
    const char *type; /* of the object; NULL = no object */
    bool bare;        /* also without object header: kernel registrations */
    enum kda_struct_id structure;
    void (*prove)(struct proof *proof, uint64_t va);
    void (*add)(struct proof *proof, uint64_t va);
    enum kda_field_id needs[FIELDS]; /* ends with NO_FIELD */
} carvers[] = {
    {KDA_POOL_LOGGER,
     "a logger context",
     NULL,
     true,
     KDA_STRUCT_WMI_LOGGER_CONTEXT,
     prove_logger,
     add_logger,
     {KDA_F_WMI_LOGGER_CONTEXT_LoggerId, KDA_F_WMI_LOGGER_CONTEXT_CollectionOn,
      KDA_F_WMI_LOGGER_CONTEXT_BufferSize, KDA_F_WMI_LOGGER_CONTEXT_LoggerName,
      KDA_F_WMI_LOGGER_CONTEXT_Consumers, NO_FIELD}},
    {KDA_POOL_GUID_ENTRY,
     "a GUID entry",
     NULL,
     true,
     KDA_STRUCT_ETW_GUID_ENTRY,
     prove_entry,
     add_entry,
     {KDA_F_ETW_GUID_ENTRY_GuidList, KDA_F_ETW_GUID_ENTRY_RefCount, KDA_F_ETW_GUID_ENTRY_Guid,
      KDA_F_ETW_GUID_ENTRY_RegListHead, NO_FIELD}},
    {KDA_POOL_REGISTRATION,
     "a registration",
     "EtwRegistration",
     true,
     KDA_STRUCT_ETW_REG_ENTRY,
     prove_registration,
     add_registration,
     {KDA_F_ETW_REG_ENTRY_RegList, KDA_F_ETW_REG_ENTRY_GuidEntry, KDA_F_ETW_REG_ENTRY_Process,
      KDA_F_ETW_REG_ENTRY_Callback, KDA_F_OBJECT_HEADER_InfoMask, KDA_F_OBJECT_HEADER_PointerCount,
      KDA_F_OBJECT_HEADER_HandleCount, NO_FIELD}},
    {KDA_POOL_CONSUMER,
     "a consumer",
     "EtwConsumer",
     false,
     KDA_STRUCT_ETW_REALTIME_CONSUMER,
     prove_consumer,
     add_consumer,
     {KDA_F_ETW_REALTIME_CONSUMER_Links, KDA_F_ETW_REALTIME_CONSUMER_ProcessObject,
      KDA_F_ETW_REALTIME_CONSUMER_LoggerId, KDA_F_ETW_REALTIME_CONSUMER_Disconnected,
      KDA_F_OBJECT_HEADER_InfoMask, KDA_F_OBJECT_HEADER_PointerCount,
      KDA_F_OBJECT_HEADER_HandleCount, NO_FIELD}},
};

struct carving {
    struct kda_etw *etw;
    const struct carver *carver;
    const struct kda_map *known; /* objects of this kind that the lists name */
    uint8_t type;
    size_t size;
};

static bool is_known(const void *context, uint64_t va)
{
    const struct carving *carving = context;
    return kda_map_get(carving->known, va, NULL);
}

/* Returns whether the layout and the image have what the kind needs. */
static bool ready(struct carving *carving)
{
    const struct carver *carver = carving->carver;
    struct kda_kernel *kernel = carving->etw->kernel;
    const char *lacks = NULL;
    uint32_t size = kda_kernel_layout(kernel)->size[carver->structure];
    for (size_t i = 0; carver->needs[i] != NO_FIELD && !lacks; i++)
        if (!kda_has_field(kernel, carver->needs[i]))
            lacks = kda_field_name(carver->needs[i]);
    if (!lacks && carver->type &&
        kda_object_type_index(kernel, carver->type, &carving->type, NULL) != KDA_OK)
        lacks = carver->type;
    kda_pool_set_lacks(kernel, carver->kind, lacks);
    carving->size = size == KDA_NONE ? 16 : size;
    return !lacks;
}

static bool judge(struct carving *carving, struct proof *proof, uint64_t va)
{
    memset(proof, 0, sizeof(*proof));
    proof->etw = carving->etw;
    if (va & 7)
        return false;
    carving->carver->prove(proof, va);
    return !proof->refuted && (proof->ties > 0 || proof->missing != KDA_OK);
}

static void carve_block(struct carving *carving, const struct kda_pool_block *block)
{
    struct proof proof;
    size_t room;
    uint64_t va = 0, content = kda_pool_content(block, block->va, &room);
    bool object = carving->carver->type &&
                  kda_pool_object(carving->etw->kernel, block, carving->type, carving->size, &va);
    bool is = object && judge(carving, &proof, va);
    if (!is && carving->carver->bare && room >= carving->size) {
        va = content;
        is = judge(carving, &proof, va);
    }
    if (!is)
        return;
    if (block->alias != 0)
        kda_pool_ambiguous(carving->etw->kernel, block);
    else if (proof.ties == 0)
        kda_etw_gap(carving->etw, "pool", va, proof.missing,
                    "%s may stand here that no list names: what would prove it cannot be read",
                    carving->carver->what);
    else
        carving->carver->add(&proof, va);
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
    if (kda_pool_blocks(etw->kernel, &blocks, &count, NULL) != KDA_OK)
        return; /* the processes, read before, have told */
    kda_map_init(&sessions);
    learn_regions(etw);
    if (kind == KDA_POOL_LOGGER && !known_sessions(etw, &sessions))
        etw->out_of_memory = true;
    for (size_t i = 0; i < sizeof(carvers) / sizeof(carvers[0]); i++) {
        struct carving carving = {.etw = etw, .carver = &carvers[i]};
        if (carvers[i].kind != kind || !ready(&carving))
            continue;
        carving.known = maps[kind] ? maps[kind] : &sessions;
        for (size_t k = 0; k < count && !kda_etw_stop(etw); k++)
            if (blocks[k].kind == kind && kda_pool_in_region(etw->kernel, &blocks[k]) &&
                !kda_pool_known(&blocks[k], is_known, &carving))
                carve_block(&carving, &blocks[k]);
    }
    kda_map_deinit(&sessions);
}
