/* Every cell of the input tables reads back equal through the public functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kda/symbols.h"
#include "text.h"
#include "tsv.h"

#define DATA KDA_SOURCE_DIR "/../shared/data/"
#define KEY_COLUMNS 8
#define COLUMNS (KEY_COLUMNS + (size_t)KDA_SYM_COUNT + KDA_STRUCT_COUNT + KDA_FIELD_COUNT)

static uint32_t hex_or(const char *text, uint32_t absent)
{
    return *text ? (uint32_t)strtoul(text, NULL, 16) : absent;
}

static void check_key(const struct tsv *t, size_t row, const struct kda_profile_info *info)
{
    assert_string_equal(info->version, tsv_cell(t, row, 0));
    assert_int_equal(info->id.has_pdb, *tsv_cell(t, row, 3) != '\0');
    if (info->id.has_pdb) {
        uint8_t guid[16];
        assert_true(kda_guid_parse(tsv_cell(t, row, 3), guid));
        assert_memory_equal(guid, info->id.pdb_guid, 16);
        assert_int_equal(info->id.pdb_age, strtoul(tsv_cell(t, row, 4), NULL, 10));
        char path[160], want[160];
        kda_symbols_store_path(&info->id, path, sizeof(path));
        (void)snprintf(want, sizeof(want), "ntkrnlmp.pdb/%s%s/ntkrnlmp.pdb", tsv_cell(t, row, 3),
                       tsv_cell(t, row, 4));
        assert_string_equal(path, want);
    }
    assert_int_equal(info->id.has_pe, *tsv_cell(t, row, 5) != '\0');
    if (info->id.has_pe) {
        assert_int_equal(info->id.pe_timestamp, hex_or(tsv_cell(t, row, 5), 0));
        assert_int_equal(info->id.pe_size, hex_or(tsv_cell(t, row, 6), 0));
    }
}

/* Writes a field as the table writes it. The table has no size for bit fields. */
static void show_field(const struct kda_field *f, char *out, size_t cap)
{
    if (f->offset == KDA_NONE)
        out[0] = '\0';
    else if (f->bits)
        (void)snprintf(out, cap, "0x%x.%u:%u", f->offset, f->bit, f->bits);
    else if (f->size)
        (void)snprintf(out, cap, "0x%x/%u", f->offset, f->size);
    else
        (void)snprintf(out, cap, "0x%x", f->offset);
}

static size_t family_length(const char *version)
{
    const char *dot = strchr(version, '.');
    return (size_t)(strchr(dot + 1, '.') - version) + 1;
}

/* What a row without sizes was given is what every build of its Windows family ("10.0.") says, or
 * every build where the family says nothing; bits, what those with the same offset say. */
static void check_agreed(const struct tsv *t, size_t row, size_t column, const struct kda_field *f)
{
    const char *version = tsv_cell(t, row, 0);
    size_t said = 0;
    for (size_t length = family_length(version);; length = 0) {
        for (size_t r = 1; r < t->rows; r++) {
            const char *cell = tsv_cell(t, r, column);
            bool other = strncmp(tsv_cell(t, r, 0), version, length) != 0;
            if (other || !strpbrk(cell, "/:") || strchr(cell, '?') ||
                (f->bits && hex_or(cell, 0) != f->offset))
                continue;
            char want[24];
            if (f->bits)
                (void)snprintf(want, sizeof(want), ".%u:%u", f->bit, f->bits);
            else
                (void)snprintf(want, sizeof(want), "/%u", f->size);
            assert_string_equal(strpbrk(cell, "./"), want);
            said++;
        }
        if (said != 0 || length == 0)
            break;
    }
    assert_true(said > 0);
}

/* Number of cells compared. */
static size_t check_row(const struct tsv *t, size_t row, const struct kda_layout *layout)
{
    size_t done = 0;
    for (size_t c = KEY_COLUMNS; c < COLUMNS; c++) {
        const char *name = tsv_cell(t, 0, c);
        const char *cell = tsv_cell(t, row, c);
        char text[96];
        for (unsigned i = 0; i < KDA_SYM_COUNT && strncmp(name, "rva:", 4) == 0; i++) {
            if (strcmp(name + 4, kda_symbol_name((enum kda_symbol_id)i)) == 0) {
                assert_int_equal(layout->rva[i], hex_or(cell, KDA_NONE));
                done++;
            }
        }
        for (unsigned i = 0; i < KDA_STRUCT_COUNT; i++) {
            (void)snprintf(text, sizeof(text), "%s:size", kda_struct_name((enum kda_struct_id)i));
            if (strcmp(name, text) == 0) {
                assert_int_equal(layout->size[i], hex_or(cell, KDA_NONE));
                done++;
            }
        }
        for (unsigned i = 0; i < KDA_FIELD_COUNT; i++) {
            if (strcmp(name, kda_field_name((enum kda_field_id)i)) != 0)
                continue;
            const struct kda_field *f = &layout->field[i];
            struct kda_field shown = *f;
            bool no_bit = strstr(cell, ".?:") != NULL;
            if (*cell && (no_bit || !strpbrk(cell, "/:"))) {
                if (f->size != 0)
                    check_agreed(t, row, c, f);
                shown.size = shown.bits = 0;
            }
            if (no_bit) {
                assert_true(f->offset == KDA_NONE ||
                            f->bits == strtoul(strchr(cell, ':') + 1, NULL, 10));
                done++;
                continue;
            }
            show_field(&shown, text, sizeof(text));
            assert_string_equal(text, cell);
            if (f->bits) {
                assert_true(f->size == 1 || f->size == 2 || f->size == 4 || f->size == 8);
                assert_true(f->bit + f->bits <= f->size * 8);
                assert_true(f->size == 1 || f->bit + f->bits > f->size * 4);
            }
            done++;
        }
    }
    return done;
}

static void every_cell_reads_back(void **state)
{
    (void)state;
    struct tsv t;
    if (!tsv_load(DATA "layouts.tsv", COLUMNS, &t))
        skip();
    assert_int_equal(t.rows - 1, kda_profile_count());
    for (size_t i = 0; i < kda_profile_count(); i++) {
        struct kda_profile_info info;
        kda_profile_get(i, &info);
        struct kda_layout layout;
        kda_profile_layout(i, &layout);
        check_key(&t, i + 1, &info);
        assert_int_equal(check_row(&t, i + 1, &layout), COLUMNS - KEY_COLUMNS);
    }
    tsv_free(&t);
}

/* Which builds can be used is a fact of the table itself, checked without the input. */
static void counts_of_the_table(void **state)
{
    (void)state;
    size_t with_rvas = 0, with_pdb = 0, sparse = 0;
    for (size_t i = 0; i < kda_profile_count(); i++) {
        struct kda_profile_info info;
        kda_profile_get(i, &info);
        with_rvas += info.has_rvas;
        with_pdb += info.id.has_pdb;
        struct kda_layout layout;
        kda_profile_layout(i, &layout);
        sparse += info.has_rvas && layout.size[KDA_STRUCT_WMI_LOGGER_CONTEXT] == KDA_NONE;
    }
    assert_int_equal(kda_profile_count(), 234);
    assert_int_equal(with_pdb, 213);
    assert_int_equal(with_rvas, 215);
    assert_int_equal(sparse, 2); /* the two from crash dumps */
}

/* Published headers give no sizes; what the sized builds agree on takes their place, and nothing
 * reaches over the end of its structure. */
static void unsized_rows_have_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *version;
        unsigned unknown; /* fields whose size nobody agrees on */
    } rows[] = {{"10.0.22621.382", 3}, {"10.0.22631.2428", 3}, {"10.0.26100.x", 4}};
    for (size_t i = 0; i < kda_profile_count(); i++) {
        struct kda_profile_info info;
        struct kda_layout layout;
        unsigned unknown = 0;
        kda_profile_get(i, &info);
        kda_profile_layout(i, &layout);
        for (unsigned f = 0; f < KDA_FIELD_COUNT; f++) {
            const struct kda_field *field = &layout.field[f];
            uint32_t size = layout.size[kda_field_struct((enum kda_field_id)f)];
            if (field->offset == KDA_NONE)
                continue;
            if (size != KDA_NONE)
                assert_true(field->offset <= size && field->size <= size - field->offset);
            unknown += field->size == 0;
        }
        for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
            if (strcmp(info.version, rows[r].version) != 0)
                continue;
            assert_int_equal(unknown, rows[r].unknown);
            assert_int_equal(layout.field[KDA_F_ETW_REALTIME_CONSUMER_LoggerId].size, 2);
            assert_int_equal(layout.field[KDA_F_WMI_LOGGER_CONTEXT_LoggerMode].size, 4);
            assert_int_equal(layout.field[KDA_F_HANDLE_TABLE_UniqueProcessId].size, 4);
            assert_int_equal(layout.field[KDA_F_ETW_REG_ENTRY_Flags].size, 2);
            assert_int_equal(layout.field[KDA_F_HANDLE_TABLE_ENTRY_ObjectPointerBits].bits, 44);
            assert_int_equal(layout.field[KDA_F_ESERVERSILO_GLOBALS_UserSharedData].size, 0);
        }
        /* 0x62 was followed by EnableMask at 0x63: two bytes, as all later builds have, are wrong;
         * and the logger settings of 16299 were smaller than in any build with sizes. */
        if (strcmp(info.version, "10.0.10240.16384") == 0)
            assert_int_equal(layout.field[KDA_F_ETW_REG_ENTRY_Flags].size, 0);
        if (strcmp(info.version, "10.0.16299.15") == 0)
            assert_int_equal(layout.field[KDA_F_ETW_SYSTEM_LOGGER_SETTINGS_EtwpGroupMasks].size, 0);
    }
}

static void provider_names_read_back(void **state)
{
    (void)state;
    struct tsv t;
    if (!tsv_load(DATA "providers.tsv", 3, &t))
        skip();
    size_t found = 0;
    for (size_t i = 0; i < t.rows; i++) {
        uint8_t guid[16], group[16], want[16];
        if (tsv_cell(&t, i, 0)[0] == '#')
            continue;
        assert_true(kda_guid_parse(tsv_cell(&t, i, 0), guid));
        const char *name = kda_provider_name(guid);
        assert_non_null(name);
        assert_string_equal(name, tsv_cell(&t, i, 1));
        bool grouped = *tsv_cell(&t, i, 2) != '\0';
        assert_int_equal(kda_provider_group(guid, group), grouped);
        if (grouped) {
            assert_true(kda_guid_parse(tsv_cell(&t, i, 2), want));
            assert_memory_equal(group, want, 16);
        }
        found++;
    }
    assert_int_equal(found, 2897);
    tsv_free(&t);
}

static void unknown_provider_has_no_name(void **state)
{
    (void)state;
    uint8_t guid[16];
    for (int fill = 0; fill < 256; fill += 255) {
        memset(guid, fill, sizeof(guid));
        assert_null(kda_provider_name(guid));
        assert_false(kda_provider_group(guid, guid));
    }
    assert_true(kda_guid_parse("{f4e1897c-bb5d-5668-f1d8-040f4d8dd344}", guid));
    assert_string_equal(kda_provider_name(guid), "Microsoft-Windows-Threat-Intelligence");
}

static void names_of_ids(void **state)
{
    (void)state;
    assert_string_equal(kda_symbol_name(KDA_SYM_EtwpGroupMasks), "EtwpGroupMasks");
    assert_string_equal(kda_struct_name(KDA_STRUCT_EPROCESS), "_EPROCESS");
    assert_string_equal(kda_field_name(KDA_F_EPROCESS_ActiveProcessLinks),
                        "_EPROCESS.ActiveProcessLinks");
    assert_int_equal(kda_field_struct(KDA_F_KUSER_SHARED_DATA_SystemTime),
                     KDA_STRUCT_KUSER_SHARED_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_reads_back),        cmocka_unit_test(counts_of_the_table),
        cmocka_unit_test(unsized_rows_have_sizes),      cmocka_unit_test(provider_names_read_back),
        cmocka_unit_test(unknown_provider_has_no_name), cmocka_unit_test(names_of_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
