/* Profiles of one's own: the file format, hostile files, the folder, what is kept and what not. */
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc.h"
#include "bytes.h"
#include "layout_equal.h"
#include "process.h"
#include "symbols/own.h"

#define ROOT KDA_BUILD_DIR "/own-test"
#define FOLDER ROOT "/cache/kda/profiles"
#define ISF KDA_SOURCE_DIR "/../shared/data/isf/"
#define CHECKED_FROM 20u

static int fresh_folder(void **state)
{
    (void)state;
    assert_true(remove_tree(ROOT));
    assert_true(make_folders(ROOT));
    assert_int_equal(setenv("XDG_CACHE_HOME", ROOT "/cache", 1), 0);
    return 0;
}

/* The n-th build of the table that can be used alone. */
static bool full_build(size_t n, struct kda_own *ret)
{
    struct kda_profile_info info;
    if (n >= kda_profile_count())
        return false;
    kda_profile_get(n, &info);
    memset(ret, 0, sizeof(*ret));
    ret->id = info.id;
    memcpy(ret->source, "pdb", 4);
    kda_profile_layout(n, &ret->layout);
    return info.has_rvas && info.id.has_pdb;
}

static struct kda_own some_build(void)
{
    struct kda_own own;
    size_t n = 0;
    while (!full_build(n, &own) || !own.id.has_pe)
        n++;
    return own;
}

static size_t encode(const struct kda_own *own, uint8_t out[KDA_OWN_MAX_BYTES])
{
    size_t size = 0;
    assert_int_equal(kda_own_encode(own, out, KDA_OWN_MAX_BYTES, &size, NULL), KDA_OK);
    return size;
}

static void equal(const struct kda_own *a, const struct kda_own *b)
{
    assert_int_equal(layout_differences(&a->layout, &b->layout, "profile"), 0);
    assert_memory_equal(a->id.pdb_guid, b->id.pdb_guid, 16);
    assert_int_equal(a->id.pdb_age, b->id.pdb_age);
    assert_string_equal(a->id.pdb_name, b->id.pdb_name);
    assert_int_equal(a->id.has_pe, b->id.has_pe);
    assert_int_equal(a->id.pe_timestamp, b->id.pe_timestamp);
    assert_int_equal(a->id.pe_size, b->id.pe_size);
    assert_string_equal(a->source, b->source);
}

static void every_build_reads_back(void **state)
{
    (void)state;
    size_t done = 0, largest = 0;
    struct kda_own own, back;
    for (size_t n = 0; n < kda_profile_count(); n++) {
        uint8_t bytes[KDA_OWN_MAX_BYTES];
        if (!full_build(n, &own))
            continue;
        size_t size = encode(&own, bytes);
        largest = size > largest ? size : largest;
        assert_int_equal(kda_own_decode(bytes, size, "p", &back, NULL), KDA_OK);
        equal(&own, &back);
        done++;
    }
    assert_int_equal(done, 213);
    assert_true(largest < 1000);
}

static uint32_t crc32_of(const uint8_t *p, size_t size)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static enum kda_status decode(const uint8_t *bytes, size_t size, struct kda_error *err)
{
    struct kda_own back;
    memset(&back, 0x5a, sizeof(back));
    struct kda_own before = back;
    enum kda_status status = kda_own_decode(bytes, size, "p.kdaprof", &back, err);
    if (status != KDA_OK) {
        assert_memory_equal(&back, &before, sizeof(back));
        assert_non_null(strstr(err->text, "p.kdaprof"));
    }
    return status;
}

/* Every cut and every changed byte is noticed; with a checksum made to fit, every changed byte
 * either is noticed or gives a layout that could be written again. */
static void damage_is_noticed(void **state)
{
    (void)state;
    uint8_t bytes[KDA_OWN_MAX_BYTES], again[KDA_OWN_MAX_BYTES];
    struct kda_own own = some_build(), back;
    struct kda_error err;
    size_t size = encode(&own, bytes), noticed = 0;
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(decode(bytes, cut, &err), KDA_BAD_DATA);
    for (size_t i = 0; i < size; i++) {
        for (unsigned change = 1; change < 256; change *= 2) {
            bytes[i] ^= (uint8_t)change;
            assert_int_not_equal(decode(bytes, size, &err), KDA_OK);
            uint32_t crc = kda_le32(bytes + 16);
            kda_put_le32(bytes + 16, crc32_of(bytes + CHECKED_FROM, size - CHECKED_FROM));
            if (kda_own_decode(bytes, size, "p", &back, NULL) != KDA_OK)
                noticed++;
            else
                assert_int_equal(kda_own_encode(&back, again, sizeof(again), &(size_t){0}, NULL),
                                 KDA_OK);
            kda_put_le32(bytes + 16, crc);
            bytes[i] ^= (uint8_t)change;
        }
    }
    assert_true(noticed > size); /* most of eight changes a byte */
    assert_int_equal(kda_own_decode(bytes, size, "p", &back, NULL), KDA_OK);
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    uint8_t bytes[KDA_OWN_MAX_BYTES];
    struct kda_own own = some_build();
    struct kda_error err;
    size_t size = encode(&own, bytes);
    bytes[8]++; /* version */
    assert_int_equal(decode(bytes, size, &err), KDA_UNSUPPORTED);
    assert_non_null(strstr(err.text, "version 2"));
    bytes[8]--;
    assert_int_equal(decode(bytes, size - 1, &err), KDA_BAD_DATA);
    assert_non_null(strstr(err.text, "is cut"));
    bytes[size - 1] ^= 1;
    assert_int_equal(decode(bytes, size, &err), KDA_BAD_DATA);
    assert_non_null(strstr(err.text, "checksum"));
    bytes[size - 1] ^= 1;
    bytes[CHECKED_FROM] ^= 1; /* the list of names */
    kda_put_le32(bytes + 16, crc32_of(bytes + CHECKED_FROM, size - CHECKED_FROM));
    assert_int_equal(decode(bytes, size, &err), KDA_UNSUPPORTED);
    assert_non_null(strstr(err.text, "list of fields"));
    memcpy(bytes, "MZ", 2);
    assert_int_equal(decode(bytes, size, &err), KDA_BAD_DATA);
    assert_non_null(strstr(err.text, "not a profile"));
}

static void refuse(const struct kda_own *own)
{
    uint8_t bytes[KDA_OWN_MAX_BYTES];
    size_t size = 5;
    assert_int_equal(kda_own_encode(own, bytes, sizeof(bytes), &size, NULL), KDA_BAD_DATA);
    assert_int_equal(size, 5);
}

static void layouts_that_contradict_themselves(void **state)
{
    (void)state;
    const struct kda_own good = some_build();
    struct kda_own own = good;
    own.layout.rva[KDA_SYM_PspCidTable] = own.id.pe_size;
    refuse(&own);
    own = good;
    own.layout.size[KDA_STRUCT_EPROCESS] = 0x10;
    refuse(&own);
    own = good;
    own.layout.field[KDA_F_EPROCESS_Protection].offset = own.layout.size[KDA_STRUCT_EPROCESS];
    refuse(&own);
    own = good;
    own.layout.field[KDA_F_ETW_REG_ENTRY_DbgClosed].bit = 64;
    refuse(&own);
    static const char *const names[] = {"", "../x.pdb", "a/b.pdb", ".pdb", "c:x"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        own = good;
        (void)snprintf(own.id.pdb_name, sizeof(own.id.pdb_name), "%s", names[i]);
        refuse(&own);
    }
}

/* ---- the folder ---- */

static enum kda_status find(const struct kda_kernel_id *id, bool keep, struct kda_symbols **ret,
                            struct kda_error *err)
{
    struct kda_symbols_options options = {.path = "cache", .keep = keep};
    return kda_symbols_find(id, &options, ret, err);
}

static void spoil(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

static void found_by_pdb_and_by_pe(void **state)
{
    (void)state;
    struct kda_own own = some_build();
    struct kda_symbols *symbols = NULL;
    struct kda_error err;
    char *path = NULL;
    assert_int_equal(find(&own.id, false, &symbols, &err), KDA_NO_SYMBOL);
    assert_non_null(strstr(err.text, FOLDER));
    assert_int_equal(kda_own_write(&own, &path, NULL), KDA_OK);
    assert_int_equal(strncmp(path, FOLDER "/ntkrnlmp.pdb-", strlen(FOLDER) + 14), 0);
    struct kda_kernel_id ids[3] = {own.id, own.id, own.id};
    ids[1].has_pe = false;
    memset(&ids[2], 0, sizeof(ids[2]));
    ids[2].has_pe = true;
    ids[2].pe_timestamp = own.id.pe_timestamp;
    ids[2].pe_size = own.id.pe_size;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(find(&ids[i], false, &symbols, &err), KDA_OK);
        assert_string_equal(kda_symbols_info(symbols)->source, "cache");
        assert_string_equal(kda_symbols_info(symbols)->origin, path);
        assert_null(kda_symbols_info(symbols)->note);
        assert_int_equal(layout_differences(&own.layout, kda_symbols_layout(symbols), "found"), 0);
        kda_symbols_free(symbols);
    }
    ids[2].pe_size++;
    assert_int_equal(find(&ids[2], false, &symbols, &err), KDA_NO_SYMBOL);
    ids[0].pdb_guid[3] ^= 1;
    assert_int_equal(find(&ids[0], false, &symbols, &err), KDA_NO_SYMBOL);
    ids[1].pdb_age++;
    assert_int_equal(find(&ids[1], false, &symbols, &err), KDA_NO_SYMBOL);
    kda_free(path);
}

/* A PE half that only an image knows is added when the first image comes. */
static void pe_half_is_learnt(void **state)
{
    (void)state;
    struct kda_own own = some_build(), back;
    struct kda_kernel_id whole = own.id;
    struct kda_symbols *symbols = NULL;
    char *path = NULL;
    own.id.has_pe = false;
    assert_int_equal(kda_own_write(&own, &path, NULL), KDA_OK);
    assert_int_equal(find(&whole, false, &symbols, NULL), KDA_OK);
    kda_symbols_free(symbols);
    assert_int_equal(kda_own_read(path, &back, NULL, NULL), KDA_OK);
    assert_false(back.id.has_pe);
    assert_int_equal(find(&whole, true, &symbols, NULL), KDA_OK);
    kda_symbols_free(symbols);
    assert_int_equal(kda_own_read(path, &back, NULL, NULL), KDA_OK);
    assert_true(back.id.has_pe);
    assert_int_equal(back.id.pe_timestamp, whole.pe_timestamp);
    kda_free(path);
}

struct seen {
    size_t good, bad;
};

static bool count(void *context, const struct kda_own_profile *profile)
{
    struct seen *seen = context;
    assert_true((profile->problem == NULL) == (profile->layout != NULL));
    assert_true(profile->problem || profile->time_100ns > 132000000000000000u);
    seen->good += profile->layout != NULL;
    seen->bad += profile->problem != NULL;
    return true;
}

static void damaged_files_are_skipped_and_listed(void **state)
{
    (void)state;
    struct kda_own own = some_build();
    struct kda_symbols *symbols = NULL;
    struct kda_error err;
    struct seen seen = {0, 0};
    char *path = NULL;
    assert_int_equal(kda_own_profiles(count, &seen, NULL), KDA_OK);
    assert_int_equal(kda_own_write(&own, &path, NULL), KDA_OK);
    spoil(path, 100);
    /* The built-in table answers before; here it is left out, and nothing else is there. */
    assert_int_equal(find(&own.id, false, &symbols, &err), KDA_NO_SYMBOL);
    struct kda_symbols_options options = {.path = FOLDER};
    assert_int_equal(kda_symbols_find(&own.id, &options, &symbols, &err), KDA_OK);
    assert_string_equal(kda_symbols_info(symbols)->source, "profile");
    assert_non_null(strstr(kda_symbols_info(symbols)->note, "profile skipped: "));
    assert_non_null(strstr(kda_symbols_info(symbols)->note, "checksum"));
    kda_symbols_free(symbols);
    options.path = path;
    assert_int_equal(kda_symbols_find(&own.id, &options, &symbols, &err), KDA_BAD_DATA);
    assert_int_equal(kda_own_profiles(count, &seen, NULL), KDA_OK);
    assert_int_equal(seen.bad, 1);
    assert_int_equal(seen.good, 0);
    assert_int_equal(kda_own_write(&own, NULL, NULL), KDA_OK); /* over the damaged one */
    assert_int_equal(find(&own.id, false, &symbols, &err), KDA_OK);
    kda_symbols_free(symbols);
    kda_free(path);
}

/* A file under another kernel's name is not believed. */
static void a_name_is_no_proof(void **state)
{
    (void)state;
    struct kda_own own = some_build(), other;
    struct kda_symbols *symbols = NULL;
    struct kda_error err;
    char *path = NULL, *wrong = NULL;
    size_t n = kda_profile_count() - 1;
    while (!full_build(n, &other))
        n--;
    assert_int_equal(kda_own_write(&own, &path, NULL), KDA_OK);
    assert_int_equal(kda_own_write(&other, &wrong, NULL), KDA_OK);
    assert_int_equal(rename(wrong, path), 0);
    assert_int_equal(find(&own.id, false, &symbols, &err), KDA_NO_SYMBOL);
    struct kda_symbols_options options = {.path = path};
    assert_int_equal(kda_symbols_find(&own.id, &options, &symbols, &err), KDA_BAD_DATA);
    assert_int_equal(kda_symbols_find(&other.id, &options, &symbols, &err), KDA_OK);
    kda_symbols_free(symbols);
    kda_free(path);
    kda_free(wrong);
}

static void no_place_to_write(void **state)
{
    (void)state;
    struct kda_own own = some_build();
    struct kda_error err;
    FILE *file = fopen(ROOT "/file", "wb");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("XDG_CACHE_HOME", ROOT "/file", 1), 0);
    assert_int_equal(kda_own_write(&own, NULL, &err), KDA_IO);
    struct seen seen = {0, 0};
    assert_int_equal(kda_own_profiles(count, &seen, NULL), KDA_OK);
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
    assert_int_equal(unsetenv("HOME"), 0);
    assert_int_equal(kda_own_write(&own, NULL, &err), KDA_USAGE);
    assert_int_equal(kda_own_profiles(count, &seen, NULL), KDA_OK);
    assert_int_equal(seen.good + seen.bad, 0);
    if (home)
        assert_int_equal(setenv("HOME", home, 1), 0);
    free(home);
}

/* ---- adding real tables ---- */

static const char isf_name[] = "733830ECAFA1A3073FFA9CC3A38FE93C-1.json.xz";

static void adding_a_symbol_table(void **state)
{
    (void)state;
    char path[512], *kept = NULL;
    struct kda_error err;
    struct kda_own own;
    uint64_t time = 0;
    (void)snprintf(path, sizeof(path), ISF "%s", isf_name);
    enum kda_status status = kda_symbols_add(path, NULL, &kept, &err);
    if (status == KDA_IO || status == KDA_UNSUPPORTED)
        skip();
    assert_int_equal(status, KDA_OK);
    assert_int_equal(kda_own_read(kept, &own, &time, NULL), KDA_OK);
    assert_string_equal(own.source, "isf");
    assert_true(time > 0);
    /* The same kernel as the built-in row says, to the last field. */
    struct kda_profile_info info;
    assert_true(kda_profile_identify(&own.id, &info));
    assert_string_equal(info.version, "10.0.19041.1466");
    struct kda_kernel_id other = own.id;
    other.pdb_guid[0] ^= 1;
    char *none = NULL;
    assert_int_equal(kda_symbols_add(path, &other, &none, &err), KDA_BAD_DATA);
    assert_null(none);
    struct kda_kernel_id whole = own.id;
    whole.has_pe = true;
    whole.pe_timestamp = 7;
    whole.pe_size = 0x1046000;
    assert_int_equal(kda_symbols_add(path, &whole, NULL, &err), KDA_OK);
    assert_int_equal(kda_own_read(kept, &own, NULL, NULL), KDA_OK);
    assert_true(own.id.has_pe && own.id.pe_timestamp == 7);
    kda_free(kept);
}

static void adding_what_is_no_kernel(void **state)
{
    (void)state;
    struct kda_error err;
    assert_int_equal(kda_symbols_add("x.txt", NULL, NULL, &err), KDA_USAGE);
    assert_int_equal(kda_symbols_add(ROOT "/none.pdb", NULL, NULL, &err), KDA_IO);
    FILE *file = fopen(ROOT "/text.pdb", "wb");
    assert_non_null(file);
    assert_true(fputs("no PDB at all, but long enough to be looked at by the reader", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(kda_symbols_add(ROOT "/text.pdb", NULL, NULL, &err), KDA_BAD_DATA);
    struct seen seen = {0, 0};
    assert_int_equal(kda_own_profiles(count, &seen, NULL), KDA_OK);
    assert_int_equal(seen.good + seen.bad, 0);
}

static void keys_are_parsed(void **state)
{
    (void)state;
    struct kda_kernel_id id;
    assert_true(kda_symbols_parse_key("0403020106050807090A0B0C0D0E0F10C", &id));
    assert_int_equal(id.pdb_guid[0], 1);
    assert_int_equal(id.pdb_guid[15], 16);
    assert_int_equal(id.pdb_age, 12);
    assert_true(kda_symbols_parse_key("0403020106050807090a0b0c0d0e0f10ffffffff", &id));
    assert_int_equal(id.pdb_age, UINT32_MAX);
    static const char *const bad[] = {"", "win.raw", "0403020106050807090A0B0C0D0E0F10",
                                      "0403020106050807090A0B0C0D0E0F10123456789",
                                      "0403020106050807090A0B0C0D0E0F1G1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(kda_symbols_parse_key(bad[i], &id));
}

#ifdef KDA_FAULT_INJECTION
/* Whatever call fails, the folder holds the whole profile or none, and nothing half-written. */
static void failing_calls_leave_no_half_file(void **state)
{
    (void)state;
    struct kda_own own = some_build(), back;
    bool fired = true;
    uint64_t n = 0;
    while (fired) {
        struct kda_error err = {0};
        char *path = NULL;
        (void)fresh_folder(NULL);
        kda_fault_arm(++n);
        enum kda_status status = kda_own_write(&own, &path, &err);
        fired = kda_fault_fired();
        kda_fault_arm(0);
        struct seen seen = {0, 0};
        assert_int_equal(kda_own_profiles(count, &seen, NULL), KDA_OK);
        assert_int_equal(seen.bad, 0);
        assert_int_equal(seen.good, status == KDA_OK);
        if (status == KDA_OK)
            assert_int_equal(kda_own_read(path, &back, NULL, NULL), KDA_OK);
        else
            assert_true(fired && err.text[0] && !path);
        kda_free(path);
    }
    assert_true(n > 5);
}

static void failing_calls_while_finding(void **state)
{
    (void)state;
    struct kda_own own = some_build();
    assert_int_equal(kda_own_write(&own, NULL, NULL), KDA_OK);
    bool fired = true;
    uint64_t n = 0;
    while (fired) {
        struct kda_symbols *symbols = NULL;
        struct kda_error err = {0};
        kda_fault_arm(++n);
        enum kda_status status = find(&own.id, true, &symbols, &err);
        fired = kda_fault_fired();
        kda_fault_arm(0);
        assert_true((status == KDA_OK) == (symbols != NULL));
        assert_true(status == KDA_OK || (fired && err.text[0]));
        kda_symbols_free(symbols);
        struct seen seen = {0, 0};
        kda_fault_arm(n);
        status = kda_own_profiles(count, &seen, &err);
        bool listed = !kda_fault_fired();
        kda_fault_arm(0);
        assert_true(!listed || (status == KDA_OK && seen.good == 1));
        fired = fired || !listed;
    }
    assert_true(n > 5);
}
#endif

#define FRESH(test) cmocka_unit_test_setup(test, fresh_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_build_reads_back),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(layouts_that_contradict_themselves),
        FRESH(found_by_pdb_and_by_pe),
        FRESH(pe_half_is_learnt),
        FRESH(damaged_files_are_skipped_and_listed),
        FRESH(a_name_is_no_proof),
        FRESH(no_place_to_write),
        FRESH(adding_a_symbol_table),
        FRESH(adding_what_is_no_kernel),
        cmocka_unit_test(keys_are_parsed),
#ifdef KDA_FAULT_INJECTION
        FRESH(failing_calls_leave_no_half_file),
        FRESH(failing_calls_while_finding),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
