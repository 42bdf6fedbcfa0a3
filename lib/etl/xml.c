/*
 * xml.c - XML to elements. The only file that knows the XML parser (Expat).
 */
#include "describe.h"

#ifdef KDA_HAVE_EXPAT

#include <expat.h>

#define CHUNK ((size_t)1 << 20)
#define MAX_DEPTH 64u

struct xml {
    XML_Parser parser;
    const struct kda_xml_reader *reader;
    unsigned depth;
    const char *problem;
};

static void *take_memory(size_t size)
{
    return kda_calloc(size ? size : 1, 1);
}

static void *change_memory(void *old, size_t size)
{
    return kda_realloc_array(old, size ? size : 1, 1);
}

static void stop(struct xml *xml, const char *problem)
{
    xml->problem = problem;
    (void)XML_StopParser(xml->parser, XML_FALSE);
}

static const char *local_name(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon ? colon + 1 : name;
}

static void XMLCALL on_start(void *context, const XML_Char *name, const XML_Char **attributes)
{
    struct xml *xml = context;
    if (++xml->depth > MAX_DEPTH) {
        stop(xml, "nests its elements too deeply");
        return;
    }
    if (!xml->reader->begin(xml->reader->context, local_name(name),
                            (const char *const *)attributes))
        stop(xml, NULL);
}

static void XMLCALL on_end(void *context, const XML_Char *name)
{
    struct xml *xml = context;
    xml->depth--;
    if (!xml->reader->end(xml->reader->context, local_name(name)))
        stop(xml, NULL);
}

/* Manifests have no document type; with it go entities, and all that can be done with them. */
static void XMLCALL on_doctype(void *context, const XML_Char *name, const XML_Char *system,
                               const XML_Char *public_id, int internal)
{
    (void)name;
    (void)system;
    (void)public_id;
    (void)internal;
    stop(context, "has a document type, which manifests do not have");
}

static enum kda_status parse(struct xml *xml, const char *text, size_t size, struct kda_error *err)
{
    for (size_t at = 0; at < size || size == 0; at += CHUNK) {
        size_t part = size - at < CHUNK ? size - at : CHUNK;
        bool last = at + part == size;
        if (XML_Parse(xml->parser, text + at, (int)part, last) != XML_STATUS_OK) {
            enum XML_Error code = XML_GetErrorCode(xml->parser);
            if (code == XML_ERROR_NO_MEMORY)
                return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for the manifest");
            if (code == XML_ERROR_ABORTED && !xml->problem)
                return KDA_OK; /* the reader knows why */
            return kda_fail(err, KDA_BAD_DATA, "etl", "line %lu: %s",
                            (unsigned long)XML_GetCurrentLineNumber(xml->parser),
                            xml->problem ? xml->problem : XML_ErrorString(code));
        }
        if (last)
            break;
    }
    return KDA_OK;
}

enum kda_status kda_xml_read(const struct kda_xml_reader *reader, const char *text, size_t size,
                             struct kda_error *err)
{
    static const XML_Memory_Handling_Suite memory = {take_memory, change_memory, kda_free};
    struct xml xml = {.reader = reader};
    if (size == 0)
        return kda_fail(err, KDA_BAD_DATA, "etl", "is empty");
    xml.parser = XML_ParserCreate_MM(NULL, &memory, NULL);
    if (!xml.parser)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for the manifest");
    XML_SetUserData(xml.parser, &xml);
    XML_SetElementHandler(xml.parser, on_start, on_end);
    XML_SetStartDoctypeDeclHandler(xml.parser, on_doctype);
    enum kda_status status = parse(&xml, text, size, err);
    XML_ParserFree(xml.parser);
    return status;
}

#else

enum kda_status kda_xml_read(const struct kda_xml_reader *reader, const char *text, size_t size,
                             struct kda_error *err)
{
    (void)reader;
    (void)text;
    (void)size;
    return kda_fail(err, KDA_UNSUPPORTED, "etl", "this build has no XML parser (Expat)");
}

#endif
