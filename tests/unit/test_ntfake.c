/* A PDB that a compiler and a linker made from a profile row reads back equal to that row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kda/symbols.h"
#include "layout_equal.h"
#include "ntfake.h"

static void round_trip(const char *version)
{
    size_t row = 0;
    struct kda_profile_info info;
    for (kda_profile_get(row, &info); strcmp(info.version, version) != 0; row++)
        kda_profile_get(row + 1, &info);
    struct kda_layout want;
    kda_profile_layout(row, &want);

    char folder[512], path[600];
    (void)snprintf(folder, sizeof(folder), "%s/ntfake-%s", KDA_BUILD_DIR, version);
    (void)snprintf(path, sizeof(path), "%s/ntkrnlmp.pdb", folder);
    assert_true(ntfake_build(&want, &info.id, folder));

    struct kda_symbols *symbols;
    struct kda_error err;
    const char *const ways[] = {path, folder}; /* the file itself, and a flat folder of PDBs */
    for (size_t i = 0; i < 2; i++) {
        struct kda_symbols_options options = {.path = ways[i]};
        enum kda_status status = kda_symbols_find(&info.id, &options, &symbols, &err);
        if (status != KDA_OK)
            fail_msg("%s: %s", version, err.text);
        assert_string_equal(kda_symbols_info(symbols)->source, "pdb");
        assert_string_equal(kda_symbols_info(symbols)->version, version);
        assert_string_equal(kda_symbols_info(symbols)->origin, path);
        assert_int_equal(layout_differences(&want, kda_symbols_layout(symbols), version), 0);
        kda_symbols_free(symbols);
    }
}

static void every_family_round_trips(void **state)
{
    (void)state;
    if (!ntfake_available())
        skip();
    static const char *const versions[] = {"6.1.7601.24540", "6.3.9600.19913", "10.0.14393.4583",
                                           "10.0.17763.379", "10.0.18362.720", "10.0.19041.1466",
                                           "10.0.20348.825", "10.0.22000.795"};
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
        round_trip(versions[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_family_round_trips)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
