/*
 * carve_proof.c - is what stands in a pool block an object of ETW that lives?
 *
 * Only if nothing in it is contradicted and something outside of it agrees: rings that lead back,
 * links that still name the list it was taken off, the entry, session or process it belongs to.
 * What ended, by its own state, is none.
 */
#include <string.h>

#include "carve.h"

#define BUCKET_SIZE 56u
#define LIST_SPAN 48u /* three list heads */
#define MAX_BUFFER_SIZE 0x1000000u
#define MAX_REFERENCES 0x1000000u
#define YEAR_2000 125911584000000000u
#define DAY 864000000000u

/* What could not be read refutes nothing. */
static void require(struct kda_carve_proof *proof, bool holds)
{
    if (!holds && proof->open == KDA_OK)
        proof->refuted = true;
}

static bool answered(struct kda_carve_proof *proof, enum kda_status status, enum kda_status *why)
{
    if (status == KDA_UNMAPPED)
        proof->refuted = true;
    else if (status != KDA_OK)
        *why = status;
    return status == KDA_OK;
}

/* Bytes and fields of the object, whose block was seen; bytes of what it points at. */
static bool own(struct kda_carve_proof *proof, uint64_t va, void *ret, size_t size)
{
    return answered(proof, kda_read(proof->etw->kernel, va, ret, size, NULL), &proof->open);
}

static bool field(struct kda_carve_proof *proof, uint64_t object, enum kda_field_id id,
                  uint64_t *ret)
{
    return kda_has_field(proof->etw->kernel, id) &&
           answered(proof, kda_read_field(proof->etw->kernel, object, id, ret, NULL), &proof->open);
}

static bool other(struct kda_carve_proof *proof, uint64_t va, void *ret, size_t size)
{
    return answered(proof, kda_read(proof->etw->kernel, va, ret, size, NULL), &proof->missing);
}

/* A list head whose neighbours on both sides name it. */
static void ring(struct kda_carve_proof *proof, uint64_t head)
{
    uint8_t links[16], back[8];
    if (head == 0 || !own(proof, head, links, sizeof(links)))
        return;
    uint64_t next = kda_le64(links), last = kda_le64(links + 8);
    require(proof, kda_is_kernel_va(proof->etw->kernel, next) &&
                       kda_is_kernel_va(proof->etw->kernel, last));
    if (proof->refuted)
        return;
    bool forward = other(proof, next + 8, back, sizeof(back));
    require(proof, !forward || kda_le64(back) == head);
    bool backward = other(proof, last, back, sizeof(back));
    require(proof, !backward || kda_le64(back) == head);
    proof->ties += forward && backward;
}

/* Is `place`, read from the object's links, the head or a node of its list? */
typedef bool (*place_fn)(struct kda_carve_proof *proof, uint64_t object, uint64_t place);

/* The links of something that was taken off a list: kernel addresses, and one of them at least
 * leads to the list or to the thing itself. */
static void links(struct kda_carve_proof *proof, uint64_t object, enum kda_field_id member,
                  place_fn names)
{
    uint8_t bytes[16];
    uint64_t link = kda_etw_member(proof->etw, object, member);
    if (!own(proof, link, bytes, sizeof(bytes)))
        return;
    bool any = false;
    for (size_t i = 0; i < sizeof(bytes); i += 8) {
        uint64_t place = kda_le64(bytes + i);
        require(proof, kda_is_kernel_va(proof->etw->kernel, place));
        any = any || place == link || names(proof, object, place);
    }
    require(proof, any);
    proof->ties += any;
}

/* The silo that the object says it belongs to; the host where objects do not say. */
static void silo(struct kda_carve_proof *proof, uint64_t object, enum kda_field_id id)
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

static void name(struct kda_carve_proof *proof, uint64_t string)
{
    uint8_t head[16];
    if (!own(proof, string, head, sizeof(head)))
        return;
    uint16_t length = kda_le16(head);
    require(proof, length != 0 && length % 2 == 0 && length <= kda_le16(head + 2) &&
                       kda_is_kernel_va(proof->etw->kernel, kda_le64(head + 8)));
}

static void prove_logger(struct kda_carve_proof *proof, uint64_t va)
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

static void add_logger(struct kda_carve_proof *proof, uint64_t va)
{
    uint64_t slot;
    if (kda_read_field(proof->etw->kernel, va, KDA_F_WMI_LOGGER_CONTEXT_LoggerId, &slot, NULL) ==
        KDA_OK)
        kda_etw_pool_session(proof->etw, proof->silo, (uint32_t)slot, va);
}

/* ---- GUID entries ---- */

/* A head or an entry of the bucket that the GUID belongs to. */
static bool in_bucket(struct kda_carve_proof *proof, uint64_t entry, uint64_t place)
{
    struct kda_etw *etw = proof->etw;
    uint32_t size = kda_kernel_layout(etw->kernel)->size[KDA_STRUCT_ETW_HASH_BUCKET];
    uint8_t guid[16];
    if (!own(proof, kda_etw_member(etw, entry, KDA_F_ETW_GUID_ENTRY_Guid), guid, sizeof(guid)))
        return false;
    uint32_t bucket = kda_etw_bucket_of(guid);
    uint64_t heads =
        proof->silo->table + (uint64_t)bucket * (size == KDA_NONE ? BUCKET_SIZE : size);
    if (proof->silo->table != 0 && place >= heads && place - heads < LIST_SPAN)
        return (place - heads) % 16 == 0;
    const struct kda_etw_provider *node =
        kda_etw_lookup(&etw->providers, &etw->provider_by_va,
                       place - kda_field_offset(etw->kernel, KDA_F_ETW_GUID_ENTRY_GuidList));
    return node && node->has_guid && node->silo == proof->silo &&
           kda_etw_bucket_of(node->guid) == bucket;
}

static void enables(struct kda_carve_proof *proof, uint64_t slots)
{
    uint32_t size = kda_kernel_layout(proof->etw->kernel)->size[KDA_STRUCT_TRACE_ENABLE_INFO];
    for (uint32_t i = 0; slots != 0 && size != KDA_NONE && i < KDA_ETW_ENABLE_SLOTS; i++) {
        uint64_t enabled, logger, va = slots + (uint64_t)i * size;
        if (field(proof, va, KDA_F_TRACE_ENABLE_INFO_IsEnabled, &enabled) &&
            field(proof, va, KDA_F_TRACE_ENABLE_INFO_LoggerId, &logger))
            require(proof, enabled == 0 || (enabled == 1 && logger < proof->silo->slots));
    }
}

static void prove_entry(struct kda_carve_proof *proof, uint64_t va)
{
    static const uint8_t zero[16];
    struct kda_etw *etw = proof->etw;
    uint8_t guid[16];
    uint64_t references;
    silo(proof, va, KDA_F_ETW_GUID_ENTRY_SiloState);
    require(proof, field(proof, va, KDA_F_ETW_GUID_ENTRY_RefCount, &references) && references > 0 &&
                       references < MAX_REFERENCES);
    require(proof,
            own(proof, kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_Guid), guid, sizeof(guid)) &&
                memcmp(guid, zero, sizeof(guid)) != 0);
    if (proof->refuted)
        return;
    ring(proof, kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_RegListHead));
    if (proof->ties == 0 && proof->missing != KDA_OK)
        proof->open = proof->missing; /* nothing else tells it from a copy */
    enables(proof, kda_etw_member(etw, va, KDA_F_ETW_GUID_ENTRY_EnableInfo));
    links(proof, va, KDA_F_ETW_GUID_ENTRY_GuidList, in_bucket);
}

static void add_entry(struct kda_carve_proof *proof, uint64_t va)
{
    (void)kda_etw_provider(proof->etw, va, KDA_PROVIDER_POOL);
}

/* ---- registrations ---- */

/* The head of the entry's list, or another registration of the entry. */
static bool of_entry(struct kda_carve_proof *proof, uint64_t reg, uint64_t place)
{
    struct kda_etw *etw = proof->etw;
    uint64_t entry;
    if (!field(proof, reg, KDA_F_ETW_REG_ENTRY_GuidEntry, &entry))
        return false;
    if (place == kda_etw_member(etw, entry, KDA_F_ETW_GUID_ENTRY_RegListHead))
        return true;
    const struct kda_etw_registration *node =
        kda_etw_lookup(&etw->registrations, &etw->registration_by_va,
                       place - kda_field_offset(etw->kernel, KDA_F_ETW_REG_ENTRY_RegList));
    return node && node->readable && node->guid_entry == entry;
}

static bool lives(struct kda_etw *etw, uint64_t process_va)
{
    const struct kda_process *process = kda_process_at(etw->kernel, process_va);
    return process && process->exit_time_100ns == 0;
}

static void prove_registration(struct kda_carve_proof *proof, uint64_t va)
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
        links(proof, va, KDA_F_ETW_REG_ENTRY_RegList, of_entry);
}

static void add_registration(struct kda_carve_proof *proof, uint64_t va)
{
    (void)kda_etw_registration(proof->etw, va, KDA_REG_POOL);
}

/* ---- consumers ---- */

/* The head of the session's list, or another consumer. */
static bool of_session(struct kda_carve_proof *proof, uint64_t consumer, uint64_t place)
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

static void prove_consumer(struct kda_carve_proof *proof, uint64_t va)
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
        links(proof, va, KDA_F_ETW_REALTIME_CONSUMER_Links, of_session);
}

static void add_consumer(struct kda_carve_proof *proof, uint64_t va)
{
    (void)kda_etw_consumer(proof->etw, va, KDA_CONSUMER_POOL, NULL);
}

/* ---- copies ---- */

static bool same_links(struct kda_kernel *kernel, uint64_t a, uint64_t b)
{
    uint8_t x[16], y[16];
    return kda_read(kernel, a, x, sizeof(x), NULL) == KDA_OK &&
           kda_read(kernel, b, y, sizeof(y), NULL) == KDA_OK && memcmp(x, y, sizeof(x)) == 0;
}

static bool alike(const struct kda_etw *etw, uint64_t a, uint64_t b, enum kda_field_id id)
{
    uint64_t x, y;
    return !kda_has_field(etw->kernel, id) ||
           (kda_read_field(etw->kernel, a, id, &x, NULL) == KDA_OK &&
            kda_read_field(etw->kernel, b, id, &y, NULL) == KDA_OK && x == y);
}

static bool same_registration(const struct kda_etw *etw, uint64_t a, uint64_t b)
{
    uint64_t at = kda_field_offset(etw->kernel, KDA_F_ETW_REG_ENTRY_RegList);
    return a != b && alike(etw, a, b, KDA_F_ETW_REG_ENTRY_GuidEntry) &&
           alike(etw, a, b, KDA_F_ETW_REG_ENTRY_Process) &&
           alike(etw, a, b, KDA_F_ETW_REG_ENTRY_Callback) &&
           same_links(etw->kernel, a + at, b + at);
}

static bool copied_registration(const struct kda_etw *etw, uint64_t va)
{
    uint64_t entry;
    if (kda_read_field(etw->kernel, va, KDA_F_ETW_REG_ENTRY_GuidEntry, &entry, NULL) != KDA_OK)
        return false;
    for (size_t i = 0; i < etw->registrations.count; i++) {
        const struct kda_etw_registration *row = etw->registrations.items[i];
        if (row->guid_entry == entry && same_registration(etw, row->va, va))
            return true;
    }
    return false;
}

static bool same_consumer(const struct kda_etw *etw, uint64_t a, uint64_t b)
{
    uint64_t at = kda_field_offset(etw->kernel, KDA_F_ETW_REALTIME_CONSUMER_Links);
    return a != b && alike(etw, a, b, KDA_F_ETW_REALTIME_CONSUMER_ProcessObject) &&
           alike(etw, a, b, KDA_F_ETW_REALTIME_CONSUMER_LoggerId) &&
           same_links(etw->kernel, a + at, b + at);
}

static bool copied_consumer(const struct kda_etw *etw, uint64_t va)
{
    for (size_t i = 0; i < etw->consumers.count; i++) {
        const struct kda_etw_consumer *row = etw->consumers.items[i];
        if (same_consumer(etw, row->va, va))
            return true;
    }
    return false;
}

const struct kda_carver kda_carvers[KDA_CARVERS] = {
    {KDA_POOL_LOGGER,
     "a logger context",
     NULL,
     true,
     KDA_STRUCT_WMI_LOGGER_CONTEXT,
     prove_logger,
     add_logger,
     NULL,
     NULL,
     {KDA_F_WMI_LOGGER_CONTEXT_LoggerId, KDA_F_WMI_LOGGER_CONTEXT_CollectionOn,
      KDA_F_WMI_LOGGER_CONTEXT_BufferSize, KDA_F_WMI_LOGGER_CONTEXT_LoggerName,
      KDA_F_WMI_LOGGER_CONTEXT_Consumers, KDA_CARVER_END}},
    {KDA_POOL_GUID_ENTRY,
     "a GUID entry",
     NULL,
     true,
     KDA_STRUCT_ETW_GUID_ENTRY,
     prove_entry,
     add_entry,
     NULL,
     NULL,
     {KDA_F_ETW_GUID_ENTRY_GuidList, KDA_F_ETW_GUID_ENTRY_RefCount, KDA_F_ETW_GUID_ENTRY_Guid,
      KDA_F_ETW_GUID_ENTRY_RegListHead, KDA_CARVER_END}},
    {KDA_POOL_REGISTRATION,
     "a registration",
     "EtwRegistration",
     true,
     KDA_STRUCT_ETW_REG_ENTRY,
     prove_registration,
     add_registration,
     copied_registration,
     same_registration,
     {KDA_F_ETW_REG_ENTRY_RegList, KDA_F_ETW_REG_ENTRY_GuidEntry, KDA_F_ETW_REG_ENTRY_Process,
      KDA_F_ETW_REG_ENTRY_Callback, KDA_F_OBJECT_HEADER_InfoMask, KDA_F_OBJECT_HEADER_PointerCount,
      KDA_F_OBJECT_HEADER_HandleCount, KDA_CARVER_END}},
    {KDA_POOL_CONSUMER,
     "a consumer",
     "EtwConsumer",
     false,
     KDA_STRUCT_ETW_REALTIME_CONSUMER,
     prove_consumer,
     add_consumer,
     copied_consumer,
     same_consumer,
     {KDA_F_ETW_REALTIME_CONSUMER_Links, KDA_F_ETW_REALTIME_CONSUMER_ProcessObject,
      KDA_F_ETW_REALTIME_CONSUMER_LoggerId, KDA_F_ETW_REALTIME_CONSUMER_Disconnected,
      KDA_F_OBJECT_HEADER_InfoMask, KDA_F_OBJECT_HEADER_PointerCount,
      KDA_F_OBJECT_HEADER_HandleCount, KDA_CARVER_END}},
};
