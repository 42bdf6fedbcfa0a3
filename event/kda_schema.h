/*
 * kda_schema.h - the lists of the contract: sources, classes, kinds, field types, fields.
 *
 * Each list is a macro that is expanded where its rows are needed: enumerations (below), the
 * tables of the encoder, docs/events.md, the tests and the mappings to other schemas. A new field
 * is one row here and nothing else. Included through kda_event.h.
 */
#ifndef KDA_SCHEMA_H
#define KDA_SCHEMA_H

#define KDA_SCHEMA_VERSION 1

/* --- sources, classes, reasons --------------------------------------------------------------- */

/* S(NAME, number, text): who made the record. */
#define KDA_SOURCES(S)                                                                             \
    S(DRIVER, 1, "driver")                                                                         \
    S(ETL, 2, "etl")                                                                               \
    S(MEMORY, 3, "memory")                                                                         \
    S(REPLAY, 4, "replay")

/* C(NAME, number, text, percent): how full the ring may be for a kind of this class to enter. A
 * storm of one class can never take the room that is kept for the classes above it. */
#define KDA_CLASSES(C)                                                                             \
    C(REGISTRY, 0, "registry", 75)                                                                 \
    C(TRACE, 1, "trace", 75)                                                                       \
    C(NETWORK, 2, "network", 85)                                                                   \
    C(IMAGE, 3, "image", 95)                                                                       \
    C(PROCESS, 4, "process", 100)                                                                  \
    C(SENSOR, 5, "sensor", 100)

/* R(NAME, number, text, doc): why a field was omitted. */
#define KDA_OMIT_REASONS(R)                                                                        \
    R(IRQL, 1, "irql", "may only be read at a lower interrupt level")                              \
    R(MEMORY, 2, "memory", "no memory to read it into")                                            \
    R(FAULT, 3, "fault", "the memory that holds it could not be read")                             \
    R(FAILED, 4, "failed", "the system refused the request for it")                                \
    R(UNSUPPORTED, 5, "unsupported", "this system or source does not have it")                     \
    R(GONE, 6, "gone", "the object it belongs to had ended")                                       \
    R(LIMIT, 7, "limit", "the record had no room left for it")

/* --- kinds ----------------------------------------------------------------------------------- */

/* K(NAME, number, text, CLASS, SHAPE, doc). Numbers are stable; 0 is no kind. */
#define KDA_KINDS(K)                                                                               \
    K(PROCESS_CREATE, 1, "process.create", PROCESS, PROCESS, "a process was created")              \
    K(PROCESS_EXIT, 2, "process.exit", PROCESS, PROCESS_EXIT, "a process ended")                   \
    K(PROCESS_EXISTING, 3, "process.existing", PROCESS, PROCESS,                                   \
      "a process alive when the sensor started; before the first live event of it (etl: named by " \
      "a "                                                                                         \
      "rundown)")                                                                                  \
    K(THREAD_CREATE, 4, "thread.create", IMAGE, THREAD, "a thread was created")                    \
    K(THREAD_EXIT, 5, "thread.exit", IMAGE, THREAD_EXIT, "a thread ended")                         \
    K(IMAGE_LOAD, 6, "image.load", IMAGE, IMAGE, "an image or driver was mapped")                  \
    K(IMAGE_UNLOAD, 7, "image.unload", IMAGE, IMAGE, "an image was unmapped (etl, memory)")        \
    K(NETWORK_CONNECT, 8, "network.connect", NETWORK, NETWORK, "an outbound flow was established") \
    K(NETWORK_ACCEPT, 9, "network.accept", NETWORK, NETWORK, "an inbound flow was established")    \
    K(NETWORK_ATTEMPT, 10, "network.attempt", NETWORK, NETWORK,                                    \
      "a flow was asked for; authorized or blocked, not known here, because that is decided when " \
      "all filters have been asked; one that is established is told as connect or accept, too; "   \
      "off by default")                                                                            \
    K(NETWORK_LISTEN, 11, "network.listen", NETWORK, NETWORK, "a socket began to listen")          \
    K(NETWORK_EXISTING, 12, "network.existing", NETWORK, NETWORK,                                  \
      "a flow that was open when the sensor started")                                              \
    K(NETWORK_DISCONNECT, 13, "network.disconnect", NETWORK, NETWORK, "a flow ended (etl)")        \
    K(REGISTRY_KEY_CREATE, 14, "registry.key_create", REGISTRY, KEY, "a key was created")          \
    K(REGISTRY_KEY_DELETE, 15, "registry.key_delete", REGISTRY, KEY, "a key was deleted")          \
    K(REGISTRY_KEY_RENAME, 16, "registry.key_rename", REGISTRY, KEY, "a key was renamed")          \
    K(REGISTRY_VALUE_SET, 17, "registry.value_set", REGISTRY, VALUE, "a value was written")        \
    K(REGISTRY_VALUE_DELETE, 18, "registry.value_delete", REGISTRY, VALUE, "a value was deleted")  \
    K(ETW_EVENT, 19, "etw.event", TRACE, ETW, "a trace event that is none of the above")           \
    K(SENSOR_START, 20, "sensor.start", SENSOR, START, "first line of a log, id 0")                \
    K(SENSOR_FILE, 21, "sensor.file", SENSOR, FILE, "first line of each further file of a log")    \
    K(SENSOR_LOSS, 22, "sensor.loss", SENSOR, LOSS, "events that were lost, counted")              \
    K(SENSOR_FILTERED, 23, "sensor.filtered", SENSOR, FILTERED,                                    \
      "events that rules took since the last such line")                                           \
    K(SENSOR_STATUS, 24, "sensor.status", SENSOR, STATUS, "periodic counters")                     \
    K(SENSOR_SHUTDOWN, 25, "sensor.shutdown", SENSOR, STATUS, "the system is shutting down")       \
    K(SENSOR_STOP, 26, "sensor.stop", SENSOR, STATUS, "last line of a log that was stopped")

/* --- field types ----------------------------------------------------------------------------- */

/* T(NAME, VARIABLE, doc): how the slot is to be read. VARIABLE is 1 where the slot is a place.
 * ENUMERATED types print a name; a number without a name prints as the number. */
#define KDA_TYPES(T)                                                                               \
    T(NUMBER, 0, "number")                                                                         \
    T(SIGNED, 0, "number, may be negative")                                                        \
    T(HEX, 0, "`\"0x…\"`")                                                                         \
    T(BOOL, 0, "true or false")                                                                    \
    T(STATUS, 0, "NTSTATUS, `\"0x%08x\"`")                                                         \
    T(TIME, 0, "time")                                                                             \
    T(COUNTER, 0, "time")                                                                          \
    T(INTEGRITY, 0, "name")                                                                        \
    T(PROTECTION, 0, "`none`, `light:antimalware`, …")                                             \
    T(SIGNATURE_LEVEL, 0, "name")                                                                  \
    T(SIGNATURE_TYPE, 0, "name")                                                                   \
    T(SUBSYSTEM, 0, "`win32`, `wsl`")                                                              \
    T(TRANSPORT, 0, "name")                                                                        \
    T(DIRECTION, 0, "`outbound`, `inbound`")                                                       \
    T(DISPOSITION, 0, "`created`, `opened`")                                                       \
    T(VALUE_TYPE, 0, "`REG_SZ`, …")                                                                \
    T(LOSS_REASON, 0,                                                                              \
      "`ring_full`, `disk_full`, `too_big`, `buffer_lost`, `no_memory`, `damaged`")                \
    T(SCOPE, 0, "`reader`")                                                                        \
    T(STRING, 1, "text")                                                                           \
    T(UTF8, 1, "text")                                                                             \
    T(BINARY, 1, "hex digits")                                                                     \
    T(SID, 1, "`S-1-…`")                                                                           \
    T(IP, 1, "address")                                                                            \
    T(GUID, 1, "GUID")                                                                             \
    T(DATA, 1, "registry data")                                                                    \
    T(COUNTS, 1, "object: kind to count")                                                          \
    T(OBJECT, 1, "object")                                                                         \
    T(ARRAY, 1, "array (inside objects only)")                                                     \
    T(NUMBER_TEXT, 1, "a JSON number as text (inside objects only: floating point)")

/* Named values. N(number, text). */
#define KDA_INTEGRITY_NAMES(N)                                                                     \
    N(0x0000, "untrusted")                                                                         \
    N(0x1000, "low")                                                                               \
    N(0x2000, "medium")                                                                            \
    N(0x2100, "medium_plus")                                                                       \
    N(0x3000, "high")                                                                              \
    N(0x4000, "system")                                                                            \
    N(0x5000, "protected")
#define KDA_SIGNATURE_LEVEL_NAMES(N)                                                               \
    N(0, "unchecked")                                                                              \
    N(1, "unsigned")                                                                               \
    N(2, "enterprise")                                                                             \
    N(3, "developer")                                                                              \
    N(4, "authenticode")                                                                           \
    N(5, "custom_2")                                                                               \
    N(6, "store")                                                                                  \
    N(7, "antimalware")                                                                            \
    N(8, "microsoft")                                                                              \
    N(9, "custom_4")                                                                               \
    N(10, "custom_5")                                                                              \
    N(11, "dynamic_codegen")                                                                       \
    N(12, "windows")                                                                               \
    N(13, "custom_7")                                                                              \
    N(14, "windows_tcb")                                                                           \
    N(15, "custom_6")
#define KDA_SIGNATURE_TYPE_NAMES(N)                                                                \
    N(0, "none")                                                                                   \
    N(1, "embedded")                                                                               \
    N(2, "cache")                                                                                  \
    N(3, "catalog_cached")                                                                         \
    N(4, "catalog_not_cached")                                                                     \
    N(5, "catalog_hint")                                                                           \
    N(6, "package_catalog")                                                                        \
    N(7, "ppl_mitigated")
#define KDA_SUBSYSTEM_NAMES(N) N(0, "win32") N(1, "wsl")
/* Numbers are those of IANA. */
#define KDA_TRANSPORT_NAMES(N)                                                                     \
    N(1, "icmp")                                                                                   \
    N(2, "igmp")                                                                                   \
    N(4, "ipip")                                                                                   \
    N(6, "tcp")                                                                                    \
    N(17, "udp")                                                                                   \
    N(33, "dccp")                                                                                  \
    N(41, "ipv6")                                                                                  \
    N(47, "gre")                                                                                   \
    N(50, "esp")                                                                                   \
    N(51, "ah")                                                                                    \
    N(58, "icmpv6")                                                                                \
    N(89, "ospf")                                                                                  \
    N(103, "pim")                                                                                  \
    N(112, "vrrp")                                                                                 \
    N(113, "pgm")                                                                                  \
    N(115, "l2tp")                                                                                 \
    N(132, "sctp")                                                                                 \
    N(136, "udplite")
#define KDA_DIRECTION_NAMES(N) N(0, "outbound") N(1, "inbound")
#define KDA_DISPOSITION_NAMES(N) N(1, "created") N(2, "opened")
#define KDA_VALUE_TYPE_NAMES(N)                                                                    \
    N(0, "REG_NONE")                                                                               \
    N(1, "REG_SZ")                                                                                 \
    N(2, "REG_EXPAND_SZ")                                                                          \
    N(3, "REG_BINARY")                                                                             \
    N(4, "REG_DWORD")                                                                              \
    N(5, "REG_DWORD_BIG_ENDIAN")                                                                   \
    N(6, "REG_LINK")                                                                               \
    N(7, "REG_MULTI_SZ")                                                                           \
    N(8, "REG_RESOURCE_LIST")                                                                      \
    N(9, "REG_FULL_RESOURCE_DESCRIPTOR")                                                           \
    N(10, "REG_RESOURCE_REQUIREMENTS_LIST")                                                        \
    N(11, "REG_QWORD")
#define KDA_LOSS_REASON_NAMES(N)                                                                   \
    N(1, "ring_full")                                                                              \
    N(2, "disk_full")                                                                              \
    N(3, "too_big")                                                                                \
    N(4, "buffer_lost")                                                                            \
    N(5, "no_memory")                                                                              \
    N(6, "damaged")
#define KDA_SCOPE_NAMES(N) N(1, "reader")

enum kda_direction { KDA_OUTBOUND = 0, KDA_INBOUND = 1 };
enum kda_disposition { KDA_KEY_CREATED = 1, KDA_KEY_OPENED = 2 };
enum kda_subsystem { KDA_SUBSYSTEM_WIN32 = 0, KDA_SUBSYSTEM_WSL = 1 };
enum kda_scope { KDA_SCOPE_READER = 1 };
enum kda_loss_reason {
    KDA_LOSS_RING_FULL = 1,
    KDA_LOSS_DISK_FULL = 2,
    KDA_LOSS_TOO_BIG = 3,
    KDA_LOSS_BUFFER_LOST = 4,
    KDA_LOSS_NO_MEMORY = 5,
    KDA_LOSS_DAMAGED = 6,
    KDA_LOSS_REASONS = 7 /* one more than the last: the size of a table indexed by reason */
};

/* --- fields of every line --------------------------------------------------------------------- */

/* F(name, form, doc), in the order in which a line begins; what the encoder adds behind them only
 * where it has to be said. */
#define KDA_HEAD_FIELDS(F)                                                                         \
    F(v, "number", "schema version")                                                               \
    F(id, "number",                                                                                \
      "dense, in the order of the lines; `sensor.start` is 0, further files of a log go on. Left " \
      "out in a reader's own `sensor.loss`")                                                       \
    F(time, "time",                                                                                \
      "one reading of the performance counter at the event, as UTC. Never runs backwards in one "  \
      "log")                                                                                       \
    F(kind, "text", "see below")                                                                   \
    F(source, "text", "who saw it")                                                                \
    F(cpu, "number", "processor")                                                                  \
    F(pid, "number", "in `process.*` the subject; everywhere else who acted")                      \
    F(tid, "number", "in `process.*` of the subject; everywhere else of who acted")
#define KDA_MARK_FIELDS(F)                                                                         \
    F(truncated, "array of texts", "fields that were cut")                                         \
    F(omitted, "object", "fields that could not be read here, and why: see below")                 \
    F(relaxed, "true", "order across processors could not be guaranteed")

/* --- fields of each shape -------------------------------------------------------------------- */

/* F(SHAPE, NAME, name, TYPE, doc), in the order in which a line has them. The first two fields of
 * every shape are the same. */
#define KDA_COMMON_FIELDS(F, SHAPE)                                                                \
    F(SHAPE, PROCESS_KEY, process_key, HEX, "process start key of `pid`")                          \
    F(SHAPE, IMAGE, image, STRING, "image path of `pid`, NT form")

/* What a trace record says beyond the fields of its kind (etl, memory), last in their shapes. */
#define KDA_TRACE_FIELDS(F, SHAPE)                                                                 \
    F(SHAPE, FIELDS, fields, OBJECT, "etl, memory: further fields of the trace record")            \
    F(SHAPE, EXTENDED, extended, OBJECT, "etl, memory: extended items (stack, SID, …)")

#define KDA_PROCESS_FIELDS(F, SHAPE)                                                               \
    F(SHAPE, COMMAND_LINE, command_line, STRING, "command line")                                   \
    F(SHAPE, PARENT_PID, parent_pid, NUMBER, "parent as the system keeps it")                      \
    F(SHAPE, PARENT_KEY, parent_key, HEX, "process start key of the parent")                       \
    F(SHAPE, CREATOR_PID, creator_pid, NUMBER, "process that made the call")                       \
    F(SHAPE, CREATOR_TID, creator_tid, NUMBER, "thread that made the call")                        \
    F(SHAPE, SESSION, session, NUMBER, "terminal session")                                         \
    F(SHAPE, USER_SID, user_sid, SID, "user of the primary token")                                 \
    F(SHAPE, INTEGRITY, integrity, INTEGRITY, "integrity level of the primary token")              \
    F(SHAPE, ELEVATED, elevated, BOOL, "the primary token is elevated")                            \
    F(SHAPE, PROTECTION, protection, PROTECTION, "protected process: kind and signer")             \
    F(SHAPE, SIGNATURE_LEVEL, signature_level, SIGNATURE_LEVEL, "signing level of the image")      \
    F(SHAPE, CREATE_TIME, create_time, TIME, "creation as the system keeps it")                    \
    F(SHAPE, SUBSYSTEM, subsystem, SUBSYSTEM, "what kind of process it is")                        \
    KDA_TRACE_FIELDS(F, SHAPE)

#define KDA_PROCESS_EXIT_FIELDS(F, SHAPE)                                                          \
    F(SHAPE, EXIT_CODE, exit_code, NUMBER, "exit status, 32 bits without sign")                    \
    F(SHAPE, CREATE_TIME, create_time, TIME, "creation as the system keeps it")                    \
    F(SHAPE, EXIT_TIME, exit_time, TIME, "end as the system keeps it")                             \
    KDA_TRACE_FIELDS(F, SHAPE)

#define KDA_THREAD_FIELDS(F, SHAPE)                                                                \
    F(SHAPE, NEW_TID, new_tid, NUMBER, "the new thread")                                           \
    F(SHAPE, TARGET_PID, target_pid, NUMBER, "process of the new thread")                          \
    F(SHAPE, TARGET_KEY, target_key, HEX, "process start key of `target_pid`")                     \
    F(SHAPE, START_ADDRESS, start_address, HEX, "start address")                                   \
    F(SHAPE, START_MODULE, start_module, STRING, "image that holds the start address")             \
    F(SHAPE, REMOTE, remote, BOOL, "made by another process, and not the first of its process")    \
    KDA_TRACE_FIELDS(F, SHAPE)

#define KDA_THREAD_EXIT_FIELDS(F, SHAPE)                                                           \
    F(SHAPE, EXIT_CODE, exit_code, NUMBER, "exit status, 32 bits without sign")                    \
    KDA_TRACE_FIELDS(F, SHAPE)

#define KDA_IMAGE_FIELDS(F, SHAPE)                                                                 \
    F(SHAPE, TARGET_PID, target_pid, NUMBER, "process the image was mapped into")                  \
    F(SHAPE, MODULE, module, STRING, "path of the image, NT form")                                 \
    F(SHAPE, BASE, base, HEX, "address of the mapping")                                            \
    F(SHAPE, SIZE, size, NUMBER, "bytes of the mapping")                                           \
    F(SHAPE, KERNEL, kernel, BOOL, "a driver")                                                     \
    F(SHAPE, SIGNATURE_LEVEL, signature_level, SIGNATURE_LEVEL,                                    \
      "what the kernel knew at that moment, often `unchecked`")                                    \
    F(SHAPE, SIGNATURE_TYPE, signature_type, SIGNATURE_TYPE,                                       \
      "what the kernel knew at that moment, often `none`")                                         \
    F(SHAPE, MAPPED_PARTIALLY, mapped_partially, BOOL, "not the whole image was mapped")           \
    KDA_TRACE_FIELDS(F, SHAPE)

#define KDA_NETWORK_FIELDS(F, SHAPE)                                                               \
    F(SHAPE, PROTOCOL, protocol, NUMBER, "IP protocol")                                            \
    F(SHAPE, TRANSPORT, transport, TRANSPORT, "name of `protocol`, left out when it has none")     \
    F(SHAPE, IP_VERSION, ip_version, NUMBER, "4 or 6")                                             \
    F(SHAPE, LOCAL_IP, local_ip, IP, "local address")                                              \
    F(SHAPE, LOCAL_PORT, local_port, NUMBER, "local port, or ICMP type")                           \
    F(SHAPE, REMOTE_IP, remote_ip, IP, "remote address")                                           \
    F(SHAPE, REMOTE_PORT, remote_port, NUMBER, "remote port, or ICMP code")                        \
    F(SHAPE, DIRECTION, direction, DIRECTION, "who began")                                         \
    KDA_TRACE_FIELDS(F, SHAPE)

#define KDA_KEY_FIELDS(F, SHAPE)                                                                   \
    F(SHAPE, KEY, key, STRING, "path of the key, NT form")                                         \
    F(SHAPE, NEW_NAME, new_name, STRING, "new name (rename)")                                      \
    F(SHAPE, DISPOSITION, disposition, DISPOSITION, "the key is new, or was there (create)")       \
    F(SHAPE, STATUS, status, STATUS,                                                               \
      "result; left out when no post call was seen, which is told 10 s late or at the stop")       \
    F(SHAPE, TRANSACTION, transaction, BOOL,                                                       \
      "true: part of a transaction, which may be rolled back later; left out otherwise")           \
    KDA_TRACE_FIELDS(F, SHAPE)

#define KDA_VALUE_FIELDS(F, SHAPE)                                                                 \
    F(SHAPE, KEY, key, STRING, "path of the key, NT form")                                         \
    F(SHAPE, VALUE, value, STRING, "name of the value; empty for the default value")               \
    F(SHAPE, VALUE_TYPE, value_type, VALUE_TYPE, "type of `data`")                                 \
    F(SHAPE, DATA, data, DATA, "data, read by `value_type`; malformed data is hex digits")         \
    F(SHAPE, DATA_SIZE, data_size, NUMBER, "bytes of the whole data, also where `data` is cut")    \
    F(SHAPE, OLD_TYPE, old_type, VALUE_TYPE, "type of `old_data`")                                 \
    F(SHAPE, OLD_DATA, old_data, DATA, "data before; configured keys only, best effort")           \
    F(SHAPE, OLD_SIZE, old_size, NUMBER, "bytes of the whole old data")                            \
    F(SHAPE, STATUS, status, STATUS,                                                               \
      "result; left out when no post call was seen, which is told 10 s late or at the stop")       \
    F(SHAPE, TRANSACTION, transaction, BOOL,                                                       \
      "true: part of a transaction, which may be rolled back later; left out otherwise")           \
    KDA_TRACE_FIELDS(F, SHAPE)

#define KDA_ETW_FIELDS(F, SHAPE)                                                                   \
    F(SHAPE, PROVIDER, provider, GUID, "provider")                                                 \
    F(SHAPE, PROVIDER_NAME, provider_name, UTF8, "name of the provider")                           \
    F(SHAPE, EVENT_ID, event_id, NUMBER, "event id")                                               \
    F(SHAPE, VERSION, version, NUMBER, "version of the event")                                     \
    F(SHAPE, OPCODE, opcode, NUMBER, "opcode")                                                     \
    F(SHAPE, LEVEL, level, NUMBER, "level")                                                        \
    F(SHAPE, KEYWORD, keyword, HEX, "keywords")                                                    \
    F(SHAPE, TASK, task, NUMBER, "task; left out when 0")                                          \
    F(SHAPE, CHANNEL, channel, NUMBER, "channel; left out when 0")                                 \
    F(SHAPE, EVENT_NAME, event_name, UTF8, "name of the event")                                    \
    F(SHAPE, ACTIVITY, activity, GUID, "activity it belongs to")                                   \
    F(SHAPE, RELATED_ACTIVITY, related_activity, GUID, "activity it leads to or from")             \
    F(SHAPE, FIELDS, fields, OBJECT, "decoded fields, by the names of the event's description")    \
    F(SHAPE, EXTENDED, extended, OBJECT, "extended items (stack, SID, …)")                         \
    F(SHAPE, PAYLOAD, payload, BINARY, "payload where it was not decoded")                         \
    F(SHAPE, WHY, why, UTF8, "why it was not decoded")

#define KDA_START_FIELDS(F, SHAPE)                                                                 \
    F(SHAPE, LOG, log, GUID, "id of this log, same in all its files")                              \
    F(SHAPE, VERSION, version, UTF8, "version of the sensor")                                      \
    F(SHAPE, BUILD, build, UTF8, "build of the sensor")                                            \
    F(SHAPE, HOST, host, STRING, "name of the computer")                                           \
    F(SHAPE, SETTINGS, settings, OBJECT, "settings in force")                                      \
    F(SHAPE, REJECTED, rejected, OBJECT, "settings that were wrong, and why")                      \
    F(SHAPE, PREVIOUS_LOG, previous_log, GUID, "the log before this one, if known")                \
    F(SHAPE, SENSORS, sensors, OBJECT, "how each sensor has started, as in `sensor.status`")

#define KDA_FILE_FIELDS(F, SHAPE)                                                                  \
    F(SHAPE, LOG, log, GUID, "id of the log")                                                      \
    F(SHAPE, NEXT_ID, next_id, NUMBER, "id of the next line")

#define KDA_LOSS_FIELDS(F, SHAPE)                                                                  \
    F(SHAPE, LOST, lost, COUNTS, "lost events of each kind")                                       \
    F(SHAPE, LOST_BYTES, lost_bytes, NUMBER, "bytes of their records")                             \
    F(SHAPE, FIRST_TIME, first_time, COUNTER, "time of the first")                                 \
    F(SHAPE, LAST_TIME, last_time, COUNTER, "time of the last")                                    \
    F(SHAPE, REASON, reason, LOSS_REASON, "why")                                                   \
    F(SHAPE, SCOPE, scope, SCOPE, "`reader`: lost by one live reader, not by the log; has no id")  \
    F(SHAPE, LOST_EVENTS, lost_events, NUMBER, "etl: events whose kind is not known")              \
    F(SHAPE, LOST_BUFFERS, lost_buffers, NUMBER, "etl: trace buffers")                             \
    F(SHAPE, FILE, file, UTF8, "etl: name of the file")                                            \
    F(SHAPE, OFFSET, offset, HEX, "etl, memory: where the bytes that were skipped stand")          \
    F(SHAPE, WHY, why, UTF8, "etl, memory: what is wrong with them")

#define KDA_FILTERED_FIELDS(F, SHAPE)                                                              \
    F(SHAPE, FILTERED, filtered, COUNTS, "events of each kind taken since the last such line")     \
    F(SHAPE, RULES, rules, OBJECT, "rule to count")

#define KDA_STATUS_FIELDS(F, SHAPE)                                                                \
    F(SHAPE, OFFERED, offered, COUNTS, "events offered, of each kind, since the log began")        \
    F(SHAPE, WRITTEN, written, COUNTS, "events written")                                           \
    F(SHAPE, LOST, lost, COUNTS, "events lost")                                                    \
    F(SHAPE, FILTERED, filtered, COUNTS, "events taken by rules")                                  \
    F(SHAPE, SENSORS, sensors, OBJECT,                                                             \
      "of each sensor: `state` (`armed`, `degraded`, `off`), `since`, and the `call` of the "      \
      "system that led to it, with `place` and `status`")                                          \
    F(SHAPE, FAILED_CALLS, failed_calls, OBJECT,                                                   \
      "calls of the system that failed: `total` since the start, and the `last` ones")

/* H(SHAPE): all shapes. KDA_FIELDS_OF(F, SHAPE) expands the whole list of one of them. */
#define KDA_SHAPES(H)                                                                              \
    H(PROCESS)                                                                                     \
    H(PROCESS_EXIT)                                                                                \
    H(THREAD)                                                                                      \
    H(THREAD_EXIT)                                                                                 \
    H(IMAGE)                                                                                       \
    H(NETWORK)                                                                                     \
    H(KEY)                                                                                         \
    H(VALUE)                                                                                       \
    H(ETW)                                                                                         \
    H(START)                                                                                       \
    H(FILE)                                                                                        \
    H(LOSS)                                                                                        \
    H(FILTERED)                                                                                    \
    H(STATUS)
#define KDA_FIELDS_OF(F, SHAPE) KDA_COMMON_FIELDS(F, SHAPE) KDA_##SHAPE##_FIELDS(F, SHAPE)

/* --- enumerations made from the lists -------------------------------------------------------- */

enum kda_source {
#define S(name, number, text) KDA_SOURCE_##name = number,
    KDA_SOURCES(S)
#undef S
};

enum kda_class {
#define C(name, number, text, percent) KDA_CLASS_##name = number,
    KDA_CLASSES(C)
#undef C
        KDA_CLASS_COUNT
};

enum kda_omit_reason {
    KDA_OMIT_NONE = 0,
#define R(name, number, text, doc) KDA_OMIT_##name = number,
    KDA_OMIT_REASONS(R)
#undef R
        KDA_OMIT_COUNT
};

enum kda_kind {
    KDA_KIND_NONE = 0,
#define K(name, number, text, class_, shape, doc) KDA_KIND_##name = number,
    KDA_KINDS(K)
#undef K
        KDA_KIND_COUNT /* one more than the last kind: the size of a table indexed by kind */
};

enum kda_type {
#define T(name, variable, doc) KDA_TYPE_##name,
    KDA_TYPES(T)
#undef T
        KDA_TYPE_COUNT
};

enum kda_shape {
#define H(shape) KDA_SHAPE_##shape,
    KDA_SHAPES(H)
#undef H
        KDA_SHAPE_COUNT
};

#define F(shape, NAME, name, type, doc) KDA_SLOT_##shape##_##NAME,
#define H(shape) enum kda_slot_##shape{KDA_FIELDS_OF(F, shape) KDA_SLOTS_##shape};
KDA_SHAPES(H)
#undef H
#undef F

/* A field is named by shape and slot, so that a field of a wrong kind is noticed:
 * KDA_FIELD_PROCESS_COMMAND_LINE, KDA_FIELD_VALUE_DATA, ... The two common fields also have names
 * that go with every kind. */
#define KDA_FIELD_ANY_SHAPE 0xFFu
#define KDA_FIELD_ID(shape, slot) ((unsigned)(shape) << 8 | (unsigned)(slot))
enum kda_field {
#define F(shape, NAME, name, type, doc)                                                            \
    KDA_FIELD_##shape##_##NAME = (int)KDA_FIELD_ID(KDA_SHAPE_##shape, KDA_SLOT_##shape##_##NAME),
#define H(shape) KDA_FIELDS_OF(F, shape)
    KDA_SHAPES(H)
#undef H
#undef F
        KDA_FIELD_PROCESS_KEY = (int)KDA_FIELD_ID(KDA_FIELD_ANY_SHAPE, 0),
    KDA_FIELD_IMAGE = (int)KDA_FIELD_ID(KDA_FIELD_ANY_SHAPE, 1)
};

#endif
