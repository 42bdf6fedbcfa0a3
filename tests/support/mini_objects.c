/* Kernel objects of the tiny machine. */
#include "mini.h"

#define HEADER 0x30u
#define BUCKETS 64u
#define BUCKET_SIZE 56u

static bool has(struct mini *m, enum kda_field_id field)
{
    return m->layout.field[field].offset != KDA_NONE;
}

static void set_if(struct mini *m, uint64_t object, enum kda_field_id field, uint64_t value)
{
    if (has(m, field))
        mini_set(m, object, field, value);
}

uint64_t mini_handle_table(struct mini *m)
{
    uint64_t table = mini_alloc(m, 0x100);
    mini_set(m, table, KDA_F_HANDLE_TABLE_TableCode, mini_alloc_page(m, KDA_PAGE_SIZE));
    mini_set(m, table, KDA_F_HANDLE_TABLE_NextHandleNeedingPool, 0x400);
    return table;
}

void mini_handle(struct mini *m, uint64_t page, unsigned index, uint64_t object,
                 unsigned attributes)
{
    uint64_t low = object | (attributes & 7);
    const struct kda_field *packed = &m->layout.field[KDA_F_HANDLE_TABLE_ENTRY_ObjectPointerBits];
    if (packed->offset != KDA_NONE)
        low = object >> 4 << packed->bit | (uint64_t)(attributes & 7) << 17 | 1;
    mini_put64(m, page + index * 16u, low);
    mini_put64(m, page + index * 16u + 8, 0x1fffff);
}

void mini_type(struct mini *m, uint64_t body, uint8_t index)
{
    uint64_t header = body - HEADER;
    if (m->layout.rva[KDA_SYM_ObHeaderCookie] != KDA_NONE)
        index = (uint8_t)(index ^ (uint8_t)(header >> 8) ^ MINI_COOKIE);
    mini_set(m, header, KDA_F_OBJECT_HEADER_TypeIndex, index);
    mini_set(m, header, KDA_F_OBJECT_HEADER_PointerCount, 0x7fff);
    mini_set(m, header, KDA_F_OBJECT_HEADER_HandleCount, 1);
}

static uint64_t object(struct mini *m, size_t size, uint8_t type)
{
    uint64_t body = mini_alloc(m, size + HEADER) + HEADER;
    mini_type(m, body, type);
    return body;
}

uint64_t mini_process(struct mini *m, uint64_t pid, const char *name)
{
    uint64_t va = object(m, m->layout.size[KDA_STRUCT_EPROCESS], MINI_TYPE_PROCESS);
    mini_put(m, va, 3, 1); /* DISPATCHER_HEADER.Type: a process */
    mini_set(m, va, KDA_F_EPROCESS_UniqueProcessId, pid);
    mini_write(m, mini_at(m, va, KDA_F_EPROCESS_ImageFileName), name, strlen(name) + 1);
    uint64_t link = mini_at(m, va, KDA_F_EPROCESS_ActiveProcessLinks);
    mini_list_add(m, mini_symbol(m, KDA_SYM_PsActiveProcessHead), link);
    return va;
}

static void make_types(struct mini *m)
{
    static const struct {
        const char *name;
        uint8_t index;
        enum kda_symbol_id symbol;
    } types[] = {{"Process", MINI_TYPE_PROCESS, KDA_SYM_PsProcessType},
                 {"EtwConsumer", MINI_TYPE_CONSUMER, KDA_SYM_EtwpRealTimeConnectionObjectType},
                 {"EtwRegistration", MINI_TYPE_REGISTRATION, KDA_SYM_EtwpRegistrationObjectType}};
    uint64_t table = mini_symbol(m, KDA_SYM_ObTypeIndexTable);
    uint64_t other = object(m, 0x100, 2);
    mini_string(m, mini_at(m, other, KDA_F_OBJECT_TYPE_Name), "Type");
    mini_put64(m, table, 0);
    for (unsigned i = 1; i <= MINI_TYPE_REGISTRATION; i++)
        mini_put64(m, table + i * 8u, other);
    mini_put64(m, table + (MINI_TYPE_REGISTRATION + 1) * 8u, 0);
    for (size_t i = 0; i < 3; i++) {
        uint64_t type = object(m, 0x100, 2);
        mini_string(m, mini_at(m, type, KDA_F_OBJECT_TYPE_Name), types[i].name);
        mini_set(m, type, KDA_F_OBJECT_TYPE_Index, types[i].index);
        mini_put64(m, table + types[i].index * 8u, type);
        if (m->layout.rva[types[i].symbol] != KDA_NONE)
            mini_put64(m, mini_symbol(m, types[i].symbol), type);
    }
    if (m->layout.rva[KDA_SYM_ObHeaderCookie] != KDA_NONE)
        mini_put(m, mini_symbol(m, KDA_SYM_ObHeaderCookie), MINI_COOKIE, 4);
}

static void make_table(struct mini *m, uint64_t table)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        for (unsigned list = 0; list < 3; list++)
            mini_list(m, table + i * BUCKET_SIZE + list * 16u);
}

uint64_t mini_silo(struct mini *m, unsigned slots, uint64_t *globals)
{
    uint64_t state = mini_alloc(m, m->layout.size[KDA_STRUCT_ETW_SILODRIVERSTATE]), array;
    make_table(m, mini_at(m, state, KDA_F_ETW_SILODRIVERSTATE_EtwpGuidHashTable));
    set_if(m, state, KDA_F_ETW_SILODRIVERSTATE_MaxLoggers, slots);
    if (has(m, KDA_F_ETW_SILODRIVERSTATE_EtwpLoggerContext)) {
        array = mini_alloc(m, slots * 8u);
        mini_set(m, state, KDA_F_ETW_SILODRIVERSTATE_EtwpLoggerContext, array);
    } else {
        array = mini_at(m, state, KDA_F_ETW_SILODRIVERSTATE_WmipLoggerContext);
    }
    for (unsigned i = 0; i < slots; i++)
        mini_put64(m, array + i * 8u, 1);
    if (*globals == 0)
        *globals = mini_alloc(m, m->layout.size[KDA_STRUCT_ESERVERSILO_GLOBALS]);
    mini_put64(m, mini_at(m, *globals, KDA_F_ESERVERSILO_GLOBALS_EtwSiloState), state);
    set_if(m, state, KDA_F_ETW_SILODRIVERSTATE_SiloGlobals, *globals);
    return state;
}

static uint64_t pointer_at(struct mini *m, uint64_t va)
{
    uint8_t bytes[8];
    mini_read(m, va, bytes, 8);
    return kda_le64(bytes);
}

static uint64_t host_state(struct mini *m)
{
    if (m->layout.rva[KDA_SYM_PspHostSiloGlobals] == KDA_NONE)
        return 0;
    return pointer_at(m, mini_at(m, mini_symbol(m, KDA_SYM_PspHostSiloGlobals),
                                 KDA_F_ESERVERSILO_GLOBALS_EtwSiloState));
}

uint64_t mini_system(struct mini *m, unsigned slots)
{
    mini_list(m, mini_symbol(m, KDA_SYM_PsActiveProcessHead));
    mini_list(m, mini_symbol(m, KDA_SYM_PsLoadedModuleList));
    mini_list(m, mini_symbol(m, KDA_SYM_HandleTableListHead));
    mini_list(m, mini_symbol(m, KDA_SYM_PspJobList));
    make_types(m);
    mini_put64(m, mini_symbol(m, KDA_SYM_PspCidTable), mini_handle_table(m));
    if (m->layout.rva[KDA_SYM_EtwThreatIntProvRegHandle] != KDA_NONE)
        mini_put64(m, mini_symbol(m, KDA_SYM_EtwThreatIntProvRegHandle), 0);
    if (m->layout.rva[KDA_SYM_EtwpPsProvRegHandle] != KDA_NONE)
        mini_put64(m, mini_symbol(m, KDA_SYM_EtwpPsProvRegHandle), 0);
    if (m->layout.rva[KDA_SYM_PspHostSiloGlobals] == KDA_NONE) {
        for (unsigned i = 0; i < 64; i++)
            mini_put64(m, mini_symbol(m, KDA_SYM_WmipLoggerContext) + i * 8u, 1);
        make_table(m, mini_symbol(m, KDA_SYM_EtwpGuidHashTable));
        return 0;
    }
    uint64_t globals = mini_symbol(m, KDA_SYM_PspHostSiloGlobals);
    uint64_t state = mini_silo(m, slots, &globals);
    mini_put64(m, mini_symbol(m, KDA_SYM_EtwpHostSiloState), state);
    return state;
}

uint64_t mini_cid_page(struct mini *m)
{
    uint64_t table = pointer_at(m, mini_symbol(m, KDA_SYM_PspCidTable));
    return pointer_at(m, mini_at(m, table, KDA_F_HANDLE_TABLE_TableCode));
}

uint64_t mini_array(struct mini *m)
{
    if (m->layout.rva[KDA_SYM_PspHostSiloGlobals] == KDA_NONE)
        return mini_symbol(m, KDA_SYM_WmipLoggerContext);
    if (has(m, KDA_F_ETW_SILODRIVERSTATE_EtwpLoggerContext))
        return pointer_at(m,
                          mini_at(m, host_state(m), KDA_F_ETW_SILODRIVERSTATE_EtwpLoggerContext));
    return mini_at(m, host_state(m), KDA_F_ETW_SILODRIVERSTATE_WmipLoggerContext);
}

uint64_t mini_table(struct mini *m)
{
    if (m->layout.rva[KDA_SYM_PspHostSiloGlobals] == KDA_NONE)
        return mini_symbol(m, KDA_SYM_EtwpGuidHashTable);
    return mini_at(m, host_state(m), KDA_F_ETW_SILODRIVERSTATE_EtwpGuidHashTable);
}

uint64_t mini_session(struct mini *m, unsigned slot, const char *name)
{
    uint64_t va = mini_alloc(m, m->layout.size[KDA_STRUCT_WMI_LOGGER_CONTEXT]);
    mini_set(m, va, KDA_F_WMI_LOGGER_CONTEXT_LoggerId, slot);
    mini_set(m, va, KDA_F_WMI_LOGGER_CONTEXT_LoggerMode, 0x100);
    mini_set(m, va, KDA_F_WMI_LOGGER_CONTEXT_BufferSize, 0x10000);
    set_if(m, va, KDA_F_WMI_LOGGER_CONTEXT_SiloState, host_state(m));
    mini_set(m, va, KDA_F_WMI_LOGGER_CONTEXT_CollectionOn, 1);
    mini_string(m, mini_at(m, va, KDA_F_WMI_LOGGER_CONTEXT_LoggerName), name);
    mini_list(m, mini_at(m, va, KDA_F_WMI_LOGGER_CONTEXT_Consumers));
    mini_put64(m, mini_array(m) + slot * 8u, va);
    return va;
}

uint64_t mini_consumer(struct mini *m, uint64_t session, uint64_t process, unsigned slot)
{
    uint64_t va = object(m, m->layout.size[KDA_STRUCT_ETW_REALTIME_CONSUMER], MINI_TYPE_CONSUMER);
    mini_set(m, va, KDA_F_ETW_REALTIME_CONSUMER_ProcessObject, process);
    mini_set(m, va, KDA_F_ETW_REALTIME_CONSUMER_LoggerId, slot);
    uint64_t link = mini_at(m, va, KDA_F_ETW_REALTIME_CONSUMER_Links);
    if (session)
        mini_list_add(m, mini_at(m, session, KDA_F_WMI_LOGGER_CONTEXT_Consumers), link);
    else
        mini_list(m, link);
    return va;
}

uint64_t mini_guid_entry(struct mini *m, uint64_t list_head, uint8_t tag)
{
    uint64_t va = mini_alloc(m, m->layout.size[KDA_STRUCT_ETW_GUID_ENTRY]);
    uint8_t guid[16];
    memset(guid, tag ? tag : 0x5a, sizeof(guid));
    /* Four equal words are a GUID of bucket 0. */
    uint64_t table = mini_table(m);
    if (list_head >= table && list_head - table < BUCKETS * BUCKET_SIZE)
        guid[0] = (uint8_t)(guid[0] ^ (list_head - table) / BUCKET_SIZE);
    mini_write(m, mini_at(m, va, KDA_F_ETW_GUID_ENTRY_Guid), guid, sizeof(guid));
    mini_list(m, mini_at(m, va, KDA_F_ETW_GUID_ENTRY_RegListHead));
    set_if(m, va, KDA_F_ETW_GUID_ENTRY_SiloState, host_state(m));
    uint64_t link = mini_at(m, va, KDA_F_ETW_GUID_ENTRY_GuidList);
    if (list_head)
        mini_list_add(m, list_head, link);
    else
        mini_list(m, link);
    return va;
}

uint64_t mini_registration(struct mini *m, uint64_t entry, uint64_t process, bool linked)
{
    uint64_t va = object(m, m->layout.size[KDA_STRUCT_ETW_REG_ENTRY], MINI_TYPE_REGISTRATION);
    mini_set(m, va, KDA_F_ETW_REG_ENTRY_GuidEntry, entry);
    mini_set(m, va, KDA_F_ETW_REG_ENTRY_Process, process);
    set_if(m, va, KDA_F_ETW_REG_ENTRY_DbgUserRegistration, 1);
    uint64_t link = mini_at(m, va, KDA_F_ETW_REG_ENTRY_RegList);
    if (linked)
        mini_list_add(m, mini_at(m, entry, KDA_F_ETW_GUID_ENTRY_RegListHead), link);
    else
        mini_list(m, link);
    return va;
}
