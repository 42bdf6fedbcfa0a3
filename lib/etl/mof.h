/*
 * mof.h - the kernel's own events: classes, rows of (class, type, version), and where their fields
 * go in a record. Internal to lib/etl.
 *
 * To add an event: a row in mof_rows.c (mof_rows_clr.c for .NET). Its layout is a list of fields
 * "type:Name", each with
 * "?" before it where the payload may end there, with ">target" behind it where the field has a
 * place of its own in the record (a field of the kind in event/kda_schema.h, or one of the heads
 * below), and "!" behind it where it is not shown.
 * "type(12)" and "type(Field)" give a length, "type[]" is an array to the end; "struct(Field):Name"
 * begins an array of structures with as many items as the field says, ";" ends its members.
 */
#ifndef KDA_ETL_MOF_H
#define KDA_ETL_MOF_H

#include "kda/etl.h"
#include "kda_event.h"
#include "templates.h"

#define KDA_MOF_NO_GROUP 0xFFu
#define KDA_MOF_TYPES 256u /* types and ids of the table are below */

/* C(NAME, group, guid, provider, class name). Groups are those of hook ids. Classes without a group
 * are named by GUID alone: classic providers, or providers of manifest events. */
#define KDA_MOF_CLASSES(C)                                                                         \
    C(EVENT_TRACE, 0x00, "68fdd900-4a3e-11d1-84f4-0000f80464e3", KERNEL, "EventTrace")             \
    C(DISK_IO, 0x01, "3d6fa8d4-fe05-11d0-9dda-00c04fd7ba7c", KERNEL, "DiskIO")                     \
    C(PAGE_FAULT, 0x02, "3d6fa8d3-fe05-11d0-9dda-00c04fd7ba7c", KERNEL, "Memory")                  \
    C(PROCESS, 0x03, "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c", KERNEL, "Process")                    \
    C(FILE_IO, 0x04, "90cbdc39-4a3e-11d1-84f4-0000f80464e3", KERNEL, "FileIO")                     \
    C(THREAD, 0x05, "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c", KERNEL, "Thread")                      \
    C(TCP_IP, 0x06, "9a280ac0-c8e0-11d1-84e2-00c04fb998a2", KERNEL, "TcpIp")                       \
    C(JOB, 0x07, "3282fc76-feed-498e-8aa7-e70f459d430e", KERNEL, "Job")                            \
    C(UDP_IP, 0x08, "bf3a50c5-a9c9-4988-a005-2df0b7c80f80", KERNEL, "UdpIp")                       \
    C(REGISTRY, 0x09, "ae53722e-c863-11d2-8659-00c04fa321a1", KERNEL, "Registry")                  \
    C(DBG_PRINT, 0x0A, "13976d09-a327-438c-950b-7f03192815c7", KERNEL, "DbgPrint")                 \
    C(SYSTEM_CONFIG, 0x0B, "01853a65-418f-4f36-aefc-dc0f1d2fd235", KERNEL, "SystemConfig")         \
    C(POOL, 0x0E, "0268a8b6-74fd-4302-9dd0-6e8f1795c0cf", KERNEL, "Pool")                          \
    C(PERF_INFO, 0x0F, "ce1dbfb4-137e-4da6-87b0-3f59aa102cbc", KERNEL, "PerfInfo")                 \
    C(HEAP, 0x10, "222962ab-6180-4b88-a825-346b75f2a24a", KERNEL, "Heap")                          \
    C(OBJECT, 0x11, "89497f50-effe-4440-8cf2-ce6b1cdcaca7", KERNEL, "Object")                      \
    C(POWER, 0x12, "e43445e0-0903-48c3-b878-ff0fccebdd04", KERNEL, "Power")                        \
    C(IMAGE, 0x14, "2cb15d1d-5fc1-11d2-abe1-00a0c911f518", KERNEL, "Image")                        \
    C(STACK_WALK, 0x18, "def2fe46-7bd6-4b80-bd94-f57fe20d0ce3", KERNEL, "StackWalk")               \
    C(ALPC, 0x1A, "45d8cccd-539f-4b72-a8b7-5c683142609a", KERNEL, "ALPC")                          \
    C(METADATA, KDA_MOF_NO_GROUP, "bbccf6c1-6cd1-48c4-80ff-839482e37671", TRACE_CONTROL,           \
      "MetaData")                                                                                  \
    C(IMAGE_ID, KDA_MOF_NO_GROUP, "b3e675d7-2554-4f18-830b-2762732560de", TRACE_CONTROL,           \
      "ImageID")                                                                                   \
    C(SYSTEM_CONFIG_EX, KDA_MOF_NO_GROUP, "9b79ee91-b5fd-41c0-a243-4248e266e9d0", KERNEL,          \
      "SysConfig")                                                                                 \
    C(M_PROCESS, KDA_MOF_NO_GROUP, "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716", KERNEL_PROCESS, NULL)   \
    C(M_NETWORK, KDA_MOF_NO_GROUP, "7dd42a49-5329-4832-8dfd-43d979153a88", KERNEL_NETWORK, NULL)   \
    C(M_REGISTRY, KDA_MOF_NO_GROUP, "70eb4f03-c1de-4f73-a051-33d13d5413bd", KERNEL_REGISTRY, NULL) \
    C(M_CLR, KDA_MOF_NO_GROUP, "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4", CLR, NULL)                  \
    C(M_CLR_PRIVATE, KDA_MOF_NO_GROUP, "763fd754-7086-4dfe-95eb-c01a46faf4ca", CLR_PRIVATE, NULL)

enum kda_mof_class {
#define C(name, group, guid, provider, text) KDA_MOF_##name,
    KDA_MOF_CLASSES(C)
#undef C
        KDA_MOF_CLASS_COUNT
};

/* Targets: 1 + slot of the kind, or one of these. */
enum kda_mof_target {
    KDA_TARGET_NONE = 0,
    KDA_TARGET_SLOT = 1,
    KDA_TARGET_PID = 64,
    KDA_TARGET_TID,
    KDA_TARGET_KCB,    /* registry: address of the key control block */
    KDA_TARGET_OBJECT, /* registry: address of the key object */
    KDA_TARGET_BASE,   /* registry: address of the object that a name is relative to */
    KDA_TARGET_BASE_NAME,
    KDA_TARGET_NAME, /* registry: name of a key, or of a value, as the type of event has it */
};

struct kda_mof_row {
    uint8_t class_;
    uint16_t type; /* of classic events; id of manifest events */
    uint8_t first_version, last_version;
    uint8_t kind; /* enum kda_kind */
    const char *name;
    const char *layout;
};
extern const struct kda_mof_row kda_mof_rows[], kda_clr_rows[];
extern const size_t kda_mof_row_count, kda_clr_row_count;

struct kda_mof_event {
    const struct kda_mof_row *row;
    struct kda_etl_template t;
    uint8_t place_of[16]; /* targets from KDA_TARGET_PID on: index of their field + 1 */
    uint16_t next;        /* next row of the same class and type: index + 1 */
};

struct kda_mof {
    struct kda_arena arena;
    struct kda_mof_event *events;
    size_t count;
    bool no_memory; /* a row could not be made for want of it */
    uint8_t guids[KDA_MOF_CLASS_COUNT][16];
    uint8_t class_of_group[256];                        /* class + 1 */
    uint16_t first[KDA_MOF_CLASS_COUNT][KDA_MOF_TYPES]; /* index of the first row + 1 */
};

/* Makes templates of all rows. Errors: KDA_NO_MEMORY; KDA_BAD_DATA for a row that is wrong, which a
 * test excludes. */
KDA_MUST_CHECK enum kda_status kda_mof_init(struct kda_mof *mof, struct kda_error *err);
void kda_mof_deinit(struct kda_mof *mof);

/* Class of a record, KDA_MOF_CLASS_COUNT if it is none of the kernel's. */
unsigned kda_mof_class_of(const struct kda_mof *mof, const struct kda_etl_record *record);
const char *kda_mof_provider_name(unsigned class_);
const char *kda_mof_class_name(unsigned class_); /* nullable */
bool kda_mof_is_manifest(unsigned class_);
/* Its rows stand in for descriptions that a trace does not have, they do not replace them. */
bool kda_mof_is_stand_in(unsigned class_);
/* Type of a record within its class: image loads come as one of Process. */
unsigned kda_mof_type_of(const struct kda_etl_record *record, unsigned class_);
/* Event with this version, or with the highest one below it; NULL if there is none. */
const struct kda_mof_event *kda_mof_find(const struct kda_mof *mof, unsigned class_, unsigned type,
                                         unsigned version);

#endif
