/* Where symbols are looked for, in which order, and what is said when there are none. */
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
#include "kda/symbols.h"
#include "pdbgen.h"
#include "process.h"
#include "symbols/store.h"

#define ROOT KDA_BUILD_DIR "/symbols-test"
#define KEY "0403020106050807090A0B0C0D0E0F10C"
#define KEY_LOWER "0403020106050807090a0b0c0d0e0f10c"

static struct kda_kernel_id some_id(const char *name)
{
    struct kda_kernel_id id = {.has_pdb = true, .pdb_age = 12};
    (void)snprintf(id.pdb_name, sizeof(id.pdb_name), "%s", name);
    for (size_t i = 0; i < 16; i++)
        id.pdb_guid[i] = (uint8_t)(i + 1);
    return id;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    char folder[1024];
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_true(make_folders(folder));
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* A PDB for `id` with one structure. */
static void write_pdb(const char *path, const struct kda_kernel_id *id)
{
    struct tpi tpi = {0};
    struct bytes s[4] = {{0}}, file;
    pdbgen_info(&s[1], id->pdb_guid, id->pdb_age);
    (void)tpi_struct(&tpi, 0x1505, 0, 0x123, "_EPROCESS", 0);
    tpi_finish(&tpi, &s[2]);
    pdbgen_container(s, 4, 512, 0, &file);
    write_file(path, file.data, file.size);
    for (size_t i = 0; i < 4; i++)
        bytes_free(&s[i]);
    bytes_free(&file);
}

static void write_isf(const char *path)
{
    static const char text[] =
        "{\"base_types\": {}, \"metadata\": {\"windows\": {\"pdb\": {\"age\": 12,"
        "\"GUID\": \"0403020106050807090A0B0C0D0E0F10\"}}}, \"user_types\": {}}";
    write_file(path, text, sizeof(text) - 1);
}

static void clean(void)
{
    assert_true(remove_tree(ROOT));
    assert_true(make_folders(ROOT));
}

static int fresh_folder(void **state)
{
    (void)state;
    clean();
    assert_int_equal(setenv("XDG_CACHE_HOME", ROOT "/cache", 1), 0);
    return 0;
}

static enum kda_status find(const struct kda_kernel_id *id, const char *path, const char *folders,
                            const char *nt_path, struct kda_symbols **ret, struct kda_error *err)
{
    struct kda_symbols_options options = {
        .path = path, .nt_symbol_path = nt_path, .kda_symbols = folders};
    return kda_symbols_find(id, &options, ret, err);
}

static void expect_origin(const struct kda_kernel_id *id, const char *path, const char *folders,
                          const char *nt_path, const char *origin)
{
    struct kda_symbols *symbols;
    struct kda_error err;
    if (find(id, path, folders, nt_path, &symbols, &err) != KDA_OK)
        fail_msg("%s", err.text);
    assert_string_equal(kda_symbols_info(symbols)->origin, origin);
    kda_symbols_free(symbols);
}

static void profile_by_pdb_and_by_pe(void **state)
{
    (void)state;
    size_t by_pe = 0;
    for (size_t i = 0; i < kda_profile_count(); i++) {
        struct kda_profile_info info;
        kda_profile_get(i, &info);
        if (!info.id.has_pdb)
            continue;
        struct kda_kernel_id id = info.id;
        struct kda_symbols *symbols;
        for (int way = 0; way < 2; way++) {
            id.has_pdb = way == 0;
            id.has_pe = way == 1;
            if (id.has_pe && !info.id.has_pe)
                continue;
            by_pe += way == 1;
            assert_int_equal(find(&id, NULL, NULL, NULL, &symbols, NULL), KDA_OK);
            const struct kda_symbols_info *found = kda_symbols_info(symbols);
            assert_string_equal(found->source, "profile");
            assert_string_equal(found->version, info.version);
            assert_int_equal(found->symbols_total, KDA_SYM_COUNT);
            assert_true(found->symbols_found > 20 && found->fields_found > 150);
            struct kda_layout want;
            kda_profile_layout(i, &want);
            assert_memory_equal(&want, kda_symbols_layout(symbols), sizeof(want));
            kda_symbols_free(symbols);
        }
    }
    assert_true(by_pe > 100);
}

/* Facts that contradict each other name no build. */
static void pe_does_not_overrule_the_pdb(void **state)
{
    (void)state;
    struct kda_profile_info info = {0};
    for (size_t i = 0; !info.id.has_pe || !info.id.has_pdb; i++)
        kda_profile_get(i, &info);
    info.id.pdb_guid[0] ^= 1;
    struct kda_symbols *symbols;
    assert_int_equal(find(&info.id, "profile", NULL, NULL, &symbols, NULL), KDA_NO_SYMBOL);
}

static void known_build_without_addresses_says_so(void **state)
{
    (void)state;
    static const char *const versions[] = {"10.0.22621.382", "10.0.26100.8036"};
    size_t seen = 0;
    for (size_t i = 0; i < kda_profile_count(); i++) {
        struct kda_profile_info info;
        kda_profile_get(i, &info);
        for (size_t j = 0; j < 2; j++) {
            if (strcmp(info.version, versions[j]) != 0)
                continue;
            struct kda_symbols *symbols;
            struct kda_error err;
            assert_int_equal(find(&info.id, NULL, NULL, NULL, &symbols, &err), KDA_NO_SYMBOL);
            assert_non_null(strstr(err.text, versions[j]));
            assert_non_null(strstr(err.text, "not the addresses"));
            seen++;
        }
    }
    assert_int_equal(seen, 2);
}

static void message_names_file_places_and_command(void **state)
{
    (void)state;
    struct kda_kernel_id id = some_id("ntkrnlmp.pdb");
    struct kda_symbols *symbols;
    struct kda_error err;
    assert_int_equal(find(&id, NULL, ROOT "/one;" ROOT "/two",
                          "srv*" ROOT "/three*https://example.com/s", &symbols, &err),
                     KDA_NO_SYMBOL);
    static const char *const words[] = {
        "ntkrnlmp.pdb/" KEY "/ntkrnlmp.pdb",
        "0403020106050807090A0B0C0D0E0F10-12.json.xz",
        "kda symbols get IMAGE",
        "built-in table",
        ROOT "/one",
        ROOT "/two",
        ROOT "/three",
        ROOT "/cache/kda/symbols",
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!strstr(err.text, words[i]))
            fail_msg("\"%s\" is not in: %s", words[i], err.text);
    }
}

static void every_place_of_a_pdb(void **state)
{
    (void)state;
    static const char *const places[] = {
        "ntkrnlmp.pdb/" KEY "/ntkrnlmp.pdb",    "ntkrnlmp.pdb/" KEY_LOWER "/ntkrnlmp.pdb",
        "nt/ntkrnlmp.pdb/" KEY "/ntkrnlmp.pdb", "ntkrnlmp.pdb",
        "NTKRNLMP.PDB/" KEY "/NTKRNLMP.PDB",
    };
    struct kda_kernel_id id = some_id("NTKRNLMP.PDB");
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        clean();
        char path[600];
        (void)snprintf(path, sizeof(path), "%s/store/%s", ROOT, places[i]);
        write_pdb(path, &id);
        if (i == 2)
            write_file(ROOT "/store/index2.txt", "", 0);
        /* The two-letter level of an upper-case name is upper case: found through the lower one. */
        expect_origin(&id, ROOT "/store", NULL, NULL, path);
        expect_origin(&id, NULL, ROOT "/none;" ROOT "/store", NULL, path);
        expect_origin(&id, NULL, NULL, "cache*" ROOT "/store", path);
        expect_origin(&id, NULL, NULL, "srv*" ROOT "/none*" ROOT "/store*https://example.com",
                      path);
        expect_origin(&id, "pdb", NULL, ROOT "/store", path);
        expect_origin(&id, "srv*" ROOT "/store", NULL, NULL, path);
        expect_origin(&id, path, NULL, NULL, path);
    }
    clean();
    write_pdb(ROOT "/cache/kda/symbols/ntkrnlmp.pdb/" KEY "/ntkrnlmp.pdb", &id);
    expect_origin(&id, NULL, NULL, NULL,
                  ROOT "/cache/kda/symbols/ntkrnlmp.pdb/" KEY "/ntkrnlmp.pdb");
    expect_origin(&id, NULL, NULL, "srv*https://example.com;cache*",
                  ROOT "/cache/kda/symbols/ntkrnlmp.pdb/" KEY "/ntkrnlmp.pdb");
}

static void every_place_of_an_isf(void **state)
{
    (void)state;
    if (!kda_symbols_have_isf())
        skip();
    static const char *const places[] = {
        "0403020106050807090A0B0C0D0E0F10-12.json",
        "windows/ntkrnlmp.pdb/0403020106050807090A0B0C0D0E0F10-12.json",
        "symbols/windows/ntkrnlmp.pdb/0403020106050807090A0B0C0D0E0F10-12.json.xz",
        "ntkrnlmp.pdb/0403020106050807090A0B0C0D0E0F10-12.json.xz",
    };
    struct kda_kernel_id id = some_id("ntkrnlmp.pdb");
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        clean();
        char path[600];
        (void)snprintf(path, sizeof(path), "%s/store/%s", ROOT, places[i]);
        write_isf(path);
        expect_origin(&id, ROOT "/store", NULL, NULL, path);
        expect_origin(&id, "isf", ROOT "/store", NULL, path);
    }
}

static void pointer_files_are_followed(void **state)
{
    (void)state;
    struct kda_kernel_id id = some_id("ntkrnlmp.pdb");
    struct kda_symbols *symbols;
    write_pdb(ROOT "/elsewhere/x.pdb", &id);
    static const char good[] = "PATH:" ROOT "/elsewhere/x.pdb\r\n",
                      plain[] = ROOT "/elsewhere/x.pdb";
    static const char *const bad[] = {"MSG: not here", "", "PATH:", "PATH:/no/such/file"};
    const char *at = ROOT "/store/ntkrnlmp.pdb/" KEY "/file.ptr";
    write_file(at, good, sizeof(good) - 1);
    expect_origin(&id, ROOT "/store", NULL, NULL, ROOT "/elsewhere/x.pdb");
    write_file(at, plain, sizeof(plain) - 1);
    expect_origin(&id, ROOT "/store", NULL, NULL, ROOT "/elsewhere/x.pdb");
    for (size_t i = 0; i < 4; i++) {
        write_file(at, bad[i], strlen(bad[i]));
        assert_int_equal(find(&id, ROOT "/store", NULL, NULL, &symbols, NULL), KDA_NO_SYMBOL);
    }
}

static void a_bad_file_is_skipped_and_named(void **state)
{
    (void)state;
    struct kda_kernel_id id = some_id("ntkrnlmp.pdb"), other = id;
    struct kda_symbols *symbols;
    struct kda_error err;
    other.pdb_age = 2;
    write_pdb(ROOT "/one/ntkrnlmp.pdb", &other);
    assert_int_equal(find(&id, NULL, ROOT "/one", NULL, &symbols, &err), KDA_NO_SYMBOL);
    assert_non_null(strstr(err.text, "skipped"));
    write_pdb(ROOT "/two/ntkrnlmp.pdb", &id);
    expect_origin(&id, NULL, ROOT "/one;" ROOT "/two", NULL, ROOT "/two/ntkrnlmp.pdb");
}

/* What the user names is never silently replaced. */
static void a_named_file_is_final(void **state)
{
    (void)state;
    struct kda_profile_info info = {0};
    for (size_t i = 0; !info.id.has_pdb; i++)
        kda_profile_get(i, &info);
    struct kda_kernel_id other = some_id("ntkrnlmp.pdb");
    struct kda_symbols *symbols;
    struct kda_error err;
    write_pdb(ROOT "/x.pdb", &other);
    write_file(ROOT "/text.pdb", "text", 4);
    write_file(ROOT "/text.bin", "text", 4);
    assert_int_equal(find(&info.id, ROOT "/x.pdb", NULL, NULL, &symbols, &err), KDA_BAD_DATA);
    assert_non_null(strstr(err.text, KEY));
    assert_int_equal(find(&info.id, ROOT "/text.pdb", NULL, NULL, &symbols, &err), KDA_BAD_DATA);
    assert_int_equal(find(&info.id, ROOT "/text.bin", NULL, NULL, &symbols, &err), KDA_USAGE);
    assert_int_equal(find(&info.id, ROOT "/none", NULL, NULL, &symbols, &err), KDA_IO);
    /* A folder that was named comes first, but the table still serves when it has nothing. */
    expect_origin(&info.id, ROOT, NULL, NULL, "built-in table");
    write_pdb(ROOT "/ntkrnlmp.pdb", &info.id);
    expect_origin(&info.id, ROOT, NULL, NULL, ROOT "/ntkrnlmp.pdb");
    expect_origin(&info.id, NULL, ROOT, NULL, "built-in table");
    expect_origin(&info.id, "pdb", ROOT, NULL, ROOT "/ntkrnlmp.pdb");
}

static void hostile_names_open_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"../x.pdb", "a/b.pdb",  "..",      "",
                                        ".pdb",     "a\\b.pdb", "C:x.pdb", "a\nb.pdb"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct kda_kernel_id id = some_id(names[i]);
        struct kda_symbols *symbols;
        struct kda_error err;
        assert_false(kda_store_name_ok(names[i]));
        write_pdb(ROOT "/x.pdb", &id);
        assert_int_equal(find(&id, NULL, ROOT, NULL, &symbols, &err), KDA_NO_SYMBOL);
        assert_non_null(strstr(err.text, "no plain file name"));
        assert_null(strchr(err.text, '\n'));
    }
    assert_true(kda_store_name_ok("ntkrnlmp.pdb"));
    assert_true(kda_store_name_ok("ntkrla57.pdb"));
}

static void symbol_paths_are_taken_apart(void **state)
{
    (void)state;
    struct kda_symbol_path path;
    assert_int_equal(kda_symbol_path_parse(";;SRV*/a**/b*https://x/y*/c;cache*;cache*/d;/e;"
                                           "http://z;symsrv*symsrv.dll*/f*http://w;file:///g",
                                           &path, NULL),
                     KDA_OK);
    assert_int_equal(path.count, 7);
    const struct kda_place *p = path.places;
    assert_int_equal(p[0].kind, KDA_PLACE_SERVER);
    assert_int_equal(p[0].folder_count, 3);
    assert_string_equal(p[0].folders[0], "/a");
    assert_string_equal(p[0].folders[1], "");
    assert_string_equal(p[0].folders[2], "/b");
    assert_string_equal(p[0].url, "https://x/y");
    assert_int_equal(p[1].kind, KDA_PLACE_CACHE);
    assert_string_equal(p[1].folders[0], "");
    assert_string_equal(p[2].folders[0], "/d");
    assert_int_equal(p[3].kind, KDA_PLACE_FOLDER);
    assert_string_equal(p[3].folders[0], "/e");
    assert_int_equal(p[4].kind, KDA_PLACE_SERVER);
    assert_int_equal(p[4].folder_count, 0);
    assert_string_equal(p[4].url, "http://z");
    assert_string_equal(p[5].folders[0], "/f");
    assert_string_equal(p[5].url, "http://w");
    assert_string_equal(p[6].folders[0], "/g");
    kda_symbol_path_deinit(&path);
    char many[256] = "srv*";
    for (size_t i = 4; i < 84; i++)
        many[i] = i % 2 ? '*' : 'a';
    assert_int_equal(kda_symbol_path_parse(many, &path, NULL), KDA_USAGE);
    for (size_t i = 0; many[i]; i++)
        many[i] = many[i] == '*' ? ';' : many[i];
    assert_int_equal(kda_symbol_path_parse(many, &path, NULL), KDA_USAGE);
}

static void default_cache_follows_the_environment(void **state)
{
    (void)state;
    static const struct {
        const char *xdg, *home, *want;
    } cases[] = {
        {"/x", "/h", "/x/kda/symbols"},
        {"relative", "/h", "/h/.cache/kda/symbols"},
        {NULL, "/h", "/h/.cache/kda/symbols"},
        {NULL, NULL, NULL},
    };
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)(cases[i].xdg ? setenv("XDG_CACHE_HOME", cases[i].xdg, 1)
                            : unsetenv("XDG_CACHE_HOME"));
        (void)(cases[i].home ? setenv("HOME", cases[i].home, 1) : unsetenv("HOME"));
        char *cache = kda_store_default_cache();
        if (cases[i].want)
            assert_string_equal(cache, cases[i].want);
        else
            assert_null(cache);
        kda_free(cache);
    }
    if (home)
        (void)setenv("HOME", home, 1);
    free(home);
}

static void failing_calls_leave_nothing(void **state)
{
    (void)state;
#ifdef KDA_FAULT_INJECTION
    struct kda_kernel_id id = some_id("ntkrnlmp.pdb");
    write_pdb(ROOT "/two/ntkrnlmp.pdb", &id);
    bool fired = true;
    uint64_t n = 1;
    for (; fired; n++) {
        struct kda_symbols *symbols = NULL;
        struct kda_error err;
        kda_fault_arm(n);
        enum kda_status status = find(&id, NULL, ROOT "/one;" ROOT "/two", "srv*", &symbols, &err);
        fired = kda_fault_fired();
        kda_fault_arm(0);
        assert_int_equal(status == KDA_OK, symbols != NULL);
        /* A read that fails is a file that is skipped, a folder of profiles that cannot be opened
         * one that has none. */
        assert_true(status == KDA_OK ||
                    (fired && (status == KDA_NO_MEMORY || status == KDA_NO_SYMBOL)));
        kda_symbols_free(symbols);
    }
    assert_true(n > 10);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(profile_by_pdb_and_by_pe, fresh_folder),
        cmocka_unit_test_setup(pe_does_not_overrule_the_pdb, fresh_folder),
        cmocka_unit_test_setup(known_build_without_addresses_says_so, fresh_folder),
        cmocka_unit_test_setup(message_names_file_places_and_command, fresh_folder),
        cmocka_unit_test_setup(every_place_of_a_pdb, fresh_folder),
        cmocka_unit_test_setup(every_place_of_an_isf, fresh_folder),
        cmocka_unit_test_setup(pointer_files_are_followed, fresh_folder),
        cmocka_unit_test_setup(a_bad_file_is_skipped_and_named, fresh_folder),
        cmocka_unit_test_setup(a_named_file_is_final, fresh_folder),
        cmocka_unit_test_setup(hostile_names_open_nothing, fresh_folder),
        cmocka_unit_test_setup(symbol_paths_are_taken_apart, fresh_folder),
        cmocka_unit_test_setup(default_cache_follows_the_environment, fresh_folder),
        cmocka_unit_test_setup(failing_calls_leave_nothing, fresh_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
