/*
 * manifest_types.c - names of types in manifests.
 *
 * Source: InputType and OutputType complex types of the EventManifest schema (learn.microsoft.com).
 */
#include "manifest_types.h"

#include <string.h>

struct row {
    const char *name;
    unsigned type;
};

static const struct row in_types[] = {
    {"UnicodeString", KDA_IN_UNICODE},
    {"AnsiString", KDA_IN_ANSI},
    {"Int8", KDA_IN_INT8},
    {"UInt8", KDA_IN_UINT8},
    {"Int16", KDA_IN_INT16},
    {"UInt16", KDA_IN_UINT16},
    {"Int32", KDA_IN_INT32},
    {"UInt32", KDA_IN_UINT32},
    {"Int64", KDA_IN_INT64},
    {"UInt64", KDA_IN_UINT64},
    {"Float", KDA_IN_FLOAT},
    {"Double", KDA_IN_DOUBLE},
    {"Boolean", KDA_IN_BOOLEAN},
    {"Binary", KDA_IN_BINARY},
    {"GUID", KDA_IN_GUID},
    {"Pointer", KDA_IN_POINTER},
    {"FILETIME", KDA_IN_FILETIME},
    {"SYSTEMTIME", KDA_IN_SYSTEMTIME},
    {"SID", KDA_IN_SID},
    {"HexInt32", KDA_IN_HEX32},
    {"HexInt64", KDA_IN_HEX64},
    {"CountedUnicodeString", KDA_IN_COUNTED_UNICODE},
    {"CountedAnsiString", KDA_IN_COUNTED_ANSI},
    {"CountedBinary", KDA_IN_COUNTED_BINARY},
};

static const struct row out_types[] = {
    {"string", KDA_OUT_STRING},
    {"boolean", KDA_OUT_BOOL},
    {"Boolean", KDA_OUT_BOOL},
    {"HexInt8", KDA_OUT_HEX},
    {"HexInt16", KDA_OUT_HEX},
    {"HexInt32", KDA_OUT_HEX},
    {"HexInt64", KDA_OUT_HEX},
    {"CodePointer", KDA_OUT_HEX},
    {"Port", KDA_OUT_PORT},
    {"IPv4", KDA_OUT_IPV4},
    {"IPv6", KDA_OUT_IPV6},
    {"SocketAddress", KDA_OUT_SOCKADDR},
    {"NTSTATUS", KDA_OUT_STATUS},
    {"HResult", KDA_OUT_STATUS},
    {"dateTime", KDA_OUT_TIME},
    {"DateTimeCultureInsensitive", KDA_OUT_TIME},
    {"DateTimeUtc", KDA_OUT_TIME},
    {"ETWTIME", KDA_OUT_TIME},
    {"byte", KDA_OUT_SIGNED},
    {"short", KDA_OUT_SIGNED},
    {"int", KDA_OUT_SIGNED},
    {"long", KDA_OUT_SIGNED},
    {"unsignedByte", KDA_OUT_UNSIGNED},
    {"unsignedShort", KDA_OUT_UNSIGNED},
    {"unsignedInt", KDA_OUT_UNSIGNED},
    {"unsignedLong", KDA_OUT_UNSIGNED},
    {"PID", KDA_OUT_UNSIGNED},
    {"TID", KDA_OUT_UNSIGNED},
    {"Xml", KDA_OUT_UTF8},
    {"Json", KDA_OUT_UTF8},
    {"Utf8", KDA_OUT_UTF8},
};

static const char *without_prefix(const char *name)
{
    const char *colon = name ? strchr(name, ':') : NULL;
    return colon ? colon + 1 : name;
}

static unsigned find(const struct row *rows, size_t count, const char *name)
{
    name = without_prefix(name);
    for (size_t i = 0; name && i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].type;
    return 0;
}

enum kda_in_type kda_manifest_in_type(const char *name)
{
    return (enum kda_in_type)find(in_types, sizeof(in_types) / sizeof(in_types[0]), name);
}

enum kda_out_type kda_manifest_out_type(const char *name)
{
    return (enum kda_out_type)find(out_types, sizeof(out_types) / sizeof(out_types[0]), name);
}
