/* own_row.c - a layout as a line of the table that the built-in profiles are made from. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "handle.h"
#include "profiles.h"
#include "text.h"

#define MAX_ROW ((size_t)65536)
#define CELL_TEXT 80

struct row {
    char *text;
    size_t size, capacity;
    bool failed;
};

KDA_PRINTF(2, 3) static void add(struct row *row, const char *fmt, ...)
{
    char cell[CELL_TEXT];
    va_list args;
    va_start(args, fmt);
    int size = vsnprintf(cell, sizeof(cell), fmt, args);
    va_end(args);
    void *text = row->text;
    if (row->failed || size < 0 || (size_t)size >= sizeof(cell) ||
        !kda_grow(&text, &row->capacity, row->size + (size_t)size + 1, 1, MAX_ROW)) {
        row->failed = true;
        return;
    }
    row->text = text;
    memcpy(row->text + row->size, cell, (size_t)size + 1);
    row->size += (size_t)size;
}

static void add_keys(struct row *row, const struct kda_kernel_id *id, const char *version,
                     const char *source)
{
    char guid[33] = "";
    if (id->has_pdb)
        kda_guid_key(id->pdb_guid, guid);
    add(row, "%s\t\t%s\t%s\t", version ? version : "unknown", source, guid);
    if (id->has_pdb)
        add(row, "%u", (unsigned)id->pdb_age);
    if (id->has_pe)
        add(row, "\t0x%x\t0x%x\tx", (unsigned)id->pe_timestamp, (unsigned)id->pe_size);
    else
        add(row, "\t\t\tx");
}

static void add_number(struct row *row, uint32_t value)
{
    if (value != KDA_NONE)
        add(row, "0x%x", (unsigned)value);
}

static void add_field(struct row *row, const struct kda_field *field)
{
    if (field->offset == KDA_NONE)
        return;
    add(row, "0x%x", (unsigned)field->offset);
    if (field->bits)
        add(row, ".%u:%u", field->bit, field->bits);
    else if (field->size)
        add(row, "/%u", field->size);
}

static void add_cell(struct row *row, const struct kda_layout *layout, unsigned column)
{
    if (column < KDA_SYM_COUNT)
        add_number(row, layout->rva[column]);
    else if (column < (unsigned)KDA_SYM_COUNT + KDA_STRUCT_COUNT)
        add_number(row, layout->size[column - KDA_SYM_COUNT]);
    else
        add_field(row, &layout->field[column - KDA_SYM_COUNT - KDA_STRUCT_COUNT]);
}

static void add_name(struct row *row, unsigned column)
{
    if (column < KDA_SYM_COUNT)
        add(row, "rva:%s", kda_symbol_name((enum kda_symbol_id)column));
    else if (column < (unsigned)KDA_SYM_COUNT + KDA_STRUCT_COUNT)
        add(row, "%s:size", kda_struct_name((enum kda_struct_id)(column - KDA_SYM_COUNT)));
    else
        add(row, "%s",
            kda_field_name((enum kda_field_id)(column - KDA_SYM_COUNT - KDA_STRUCT_COUNT)));
}

enum kda_status kda_symbols_row(const struct kda_kernel_id *id, const char *version,
                                const char *source, const struct kda_layout *layout, char **ret,
                                struct kda_error *err)
{
    struct row row = {NULL, 0, 0, false};
    if (layout)
        add_keys(&row, id, version, source);
    else
        add(&row, "version\tos\tsource\tpdb_guid\tage\tpe_timestamp\tpe_size_of_image\tlayout");
    for (size_t i = 0; i < KDA_PROFILE_COLUMNS; i++) {
        add(&row, "\t");
        if (layout)
            add_cell(&row, layout, kda_profile_columns[i]);
        else
            add_name(&row, kda_profile_columns[i]);
    }
    add(&row, "\n");
    if (row.failed) {
        kda_free(row.text);
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory writing a row");
    }
    *ret = row.text;
    return KDA_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool kda_symbols_parse_key(const char *text, struct kda_kernel_id *ret)
{
    char guid[33];
    struct kda_kernel_id id = {.has_pdb = true};
    size_t size = strlen(text);
    if (size < 33 || size > 40)
        return false;
    for (size_t i = 0; i < size; i++)
        if (hex_digit(text[i]) < 0)
            return false;
    memcpy(guid, text, 32);
    guid[32] = '\0';
    for (size_t i = 32; i < size; i++)
        id.pdb_age = id.pdb_age << 4 | (uint32_t)hex_digit(text[i]);
    if (!kda_guid_parse(guid, id.pdb_guid))
        return false;
    *ret = id;
    return true;
}
