/*
 * describe.h - the sources of templates. Each reads hostile bytes and hands finished templates to a
 * store. Internal to lib/etl.
 */
#ifndef KDA_ETL_DESCRIBE_H
#define KDA_ETL_DESCRIBE_H

#include "bytes.h"
#include "maps.h"
#include "templates.h"

/* Templates are put together here: too large for a stack, and there is one per decoder. */
struct kda_draft {
    struct kda_etl_field fields[KDA_TEMPLATE_MAX_FIELDS];
    char text[65536]; /* names */
    size_t text_used;
};

/* Copies a name into the draft; NULL: the draft is full. */
const char *kda_draft_text(struct kda_draft *draft, const char *text, size_t size);
/* Same from UTF-16 up to its NUL or the end of the bytes. */
const char *kda_draft_utf16(struct kda_draft *draft, const uint8_t *bytes, size_t size);

/* "Task/Opcode", or what there is of it; NULL where there is nothing. Opcode Info says nothing. */
const char *kda_draft_event_name(struct kda_draft *draft, const char *task, const char *opcode);

/* ---- TraceLogging (tracelogging.c) ---- */

/* Metadata of an event as extended item 11 holds it. The template points into `draft` and into
 * `blob`. NULL: well formed; else what is wrong, as a string constant. */
const char *kda_tracelogging_parse(struct kda_draft *draft, const uint8_t *blob, uint32_t size,
                                   struct kda_etl_template *ret);
/* Provider name of PROV_TRAITS (item 12), NULL if there is none; *group (nullable) gets the GUID
 * of the provider group or NULL. */
const char *kda_traits_parse(const uint8_t *blob, uint32_t size, const uint8_t **group);

/* ---- descriptions inside merged files (event_info.c) ---- */

/* TRACE_EVENT_INFO. Errors: KDA_BAD_DATA, KDA_LIMIT, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_event_info_learn(struct kda_templates *store,
                                                    struct kda_draft *draft,
                                                    struct kda_map_list *maps, const uint8_t *bytes,
                                                    uint32_t size, struct kda_error *err);
/* Provider GUID and EVENT_MAP_INFO. */
KDA_MUST_CHECK enum kda_status kda_map_info_learn(struct kda_templates *store,
                                                  struct kda_draft *draft,
                                                  struct kda_map_list *maps, const uint8_t *bytes,
                                                  uint32_t size, struct kda_error *err);

/* ---- manifests (manifest.c) ---- */

#define KDA_MANIFEST_MAX_BYTES ((size_t)64 << 20)

/* Reads an instrumentation manifest, or one of an EventSource. `what` names it in messages. Errors:
 * KDA_BAD_DATA (no well-formed XML, no provider), KDA_UNSUPPORTED (built without an XML parser),
 * KDA_LIMIT, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_manifest_learn(struct kda_templates *store,
                                                  struct kda_draft *draft,
                                                  struct kda_map_list *maps, enum kda_origin origin,
                                                  const char *xml, size_t size, const char *what,
                                                  struct kda_error *err);

/* ---- XML (xml.c) ---- */

/* What a reader of elements does: names without prefix, attributes as name, value, ..., NULL. False
 * ends the reading, and the reader itself knows why. */
struct kda_xml_reader {
    void *context;
    bool (*begin)(void *context, const char *element, const char *const *attributes);
    bool (*end)(void *context, const char *element);
};

/* Errors: KDA_BAD_DATA (no well-formed XML), KDA_UNSUPPORTED (built without an XML parser),
 * KDA_NO_MEMORY. KDA_OK where the reader ended it. */
KDA_MUST_CHECK enum kda_status kda_xml_read(const struct kda_xml_reader *reader, const char *text,
                                            size_t size, struct kda_error *err);

#endif
