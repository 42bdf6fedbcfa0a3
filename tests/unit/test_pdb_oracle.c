/* The PDB reader against LLVM's: what `llvm-pdbutil dump` says about a file is what is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "file.h"
#include "ntfake.h"
#include "process.h"
#include "symbols/lookup.h"
#include "symbols/pdb.h"

#define DATA KDA_SOURCE_DIR "/../shared/data/pdb/"
#define MAX_TYPES 4096

/* What the dump says, by type index. */
struct oracle {
    struct {
        unsigned bit, bits;
    } bit_fields[MAX_TYPES];
    struct {
        unsigned count;
        struct {
            char name[48];
            unsigned type, offset;
        } members[160];
    } * lists[MAX_TYPES];
    unsigned sections[32];
    size_t section_count;
    size_t checked;
};

static unsigned number_after(const char *line, const char *key, int base)
{
    const char *at = strstr(line, key);
    return at ? (unsigned)strtoul(at + strlen(key), NULL, base) : 0;
}

/* Text between the quotes of `...`. */
static bool quoted(const char *line, char *out, size_t cap)
{
    const char *start = strchr(line, '`'), *end = start ? strchr(start + 1, '`') : NULL;
    if (!end)
        return false;
    (void)snprintf(out, cap, "%.*s", (int)(end - start - 1), start + 1);
    return true;
}

static void note_member(struct oracle *o, unsigned list, const char *line)
{
    char name[48];
    if (!o->lists[list])
        o->lists[list] = calloc(1, sizeof(*o->lists[list]));
    assert_non_null(o->lists[list]);
    unsigned n = o->lists[list]->count++;
    assert_true(n < 160 && quoted(line, name, sizeof(name)));
    memcpy(o->lists[list]->members[n].name, name, sizeof(name));
    o->lists[list]->members[n].type = number_after(line, "Type = 0x", 16);
    o->lists[list]->members[n].offset = number_after(line, "offset = ", 10);
}

static void check_struct(struct oracle *o, const char *name, unsigned list, unsigned size,
                         const struct kda_layout *got)
{
    struct kda_lookup lookup;
    unsigned id;
    kda_lookup_structs(&lookup);
    if (!kda_lookup_find(&lookup, name, strlen(name), &id))
        return;
    assert_int_equal(got->size[id], size);
    struct kda_lookup_fields fields;
    kda_lookup_fields(&fields, (enum kda_struct_id)id);
    for (unsigned i = 0; o->lists[list] && i < o->lists[list]->count; i++) {
        const char *member = o->lists[list]->members[i].name;
        unsigned type = o->lists[list]->members[i].type - 0x1000;
        enum kda_field_id field;
        if (!kda_lookup_field(&fields, member, strlen(member), &field))
            continue;
        assert_int_equal(got->field[field].offset, o->lists[list]->members[i].offset);
        assert_int_equal(got->field[field].bits, type < MAX_TYPES ? o->bit_fields[type].bits : 0);
        assert_int_equal(got->field[field].bit, type < MAX_TYPES ? o->bit_fields[type].bit : 0);
        o->checked++;
    }
}

static void check_types(struct oracle *o, FILE *dump, const struct kda_layout *got)
{
    char line[1024], name[128] = "";
    unsigned index = 0, list = 0;
    bool is_struct = false;
    while (fgets(line, sizeof(line), dump)) {
        if (strstr(line, "| LF_")) {
            index = number_after(line, "0x", 16) - 0x1000;
            assert_true(index < MAX_TYPES);
            is_struct = strstr(line, "LF_STRUCTURE") || strstr(line, "LF_UNION");
            (void)quoted(line, name, sizeof(name));
        } else if (strstr(line, "- LF_MEMBER")) {
            note_member(o, index, line);
        } else if (strstr(line, "bit offset = ")) {
            o->bit_fields[index].bit = number_after(line, "bit offset = ", 10);
            o->bit_fields[index].bits = number_after(line, "# bits = ", 10);
        } else if (strstr(line, "field list: 0x")) {
            list = number_after(line, "field list: 0x", 16) - 0x1000;
        } else if (is_struct && strstr(line, "options: ") && !strstr(line, "forward ref")) {
            check_struct(o, name, list, number_after(line, "sizeof ", 10), got);
        }
    }
}

static void check_publics(struct oracle *o, FILE *dump, const struct kda_layout *got)
{
    char line[1024], name[128] = "";
    struct kda_lookup lookup;
    unsigned id;
    kda_lookup_symbols(&lookup);
    while (fgets(line, sizeof(line), dump)) {
        if (strstr(line, "virtual address") && o->section_count < 32)
            o->sections[o->section_count++] = (unsigned)strtoul(line, NULL, 16);
        if (strstr(line, "S_PUB32"))
            (void)quoted(line, name, sizeof(name));
        const char *at = strstr(line, "addr = ");
        if (!at || !kda_lookup_find(&lookup, name, strlen(name), &id))
            continue;
        unsigned segment = (unsigned)strtoul(at + 7, NULL, 10);
        unsigned offset = (unsigned)strtoul(strchr(at, ':') + 1, NULL, 10);
        assert_true(segment >= 1 && segment <= o->section_count);
        assert_int_equal(got->rva[id], o->sections[segment - 1] + offset);
        o->checked++;
    }
}

static FILE *pdbutil(const char *what, const char *path)
{
    static const char output[] = KDA_BUILD_DIR "/pdbutil.txt";
    const char *const argv[] = {"llvm-pdbutil", "dump", what, path, NULL};
    assert_true(run_program(NULL, argv, output));
    FILE *dump = fopen(output, "r");
    assert_non_null(dump);
    return dump;
}

/* Number of facts that were compared. */
static size_t compare(const char *path)
{
    struct oracle *o = calloc(1, sizeof(*o));
    struct kda_file *file;
    struct kda_layout got;
    assert_non_null(o);
    assert_int_equal(kda_file_open(path, &file, NULL), KDA_OK);
    assert_int_equal(kda_pdb_layout(file, NULL, &got, NULL), KDA_OK);
    kda_file_close(file);
    FILE *dump = pdbutil("-types", path);
    check_types(o, dump, &got);
    (void)fclose(dump);
    dump = pdbutil("-section-headers", path);
    check_publics(o, dump, &got);
    (void)fclose(dump);
    dump = pdbutil("-publics", path);
    check_publics(o, dump, &got);
    (void)fclose(dump);
    size_t checked = o->checked;
    for (size_t i = 0; i < MAX_TYPES; i++)
        free(o->lists[i]);
    free(o);
    return checked;
}

static void shipped_files_agree(void **state)
{
    (void)state;
    if (!have_program("llvm-pdbutil") || kda_path_kind(DATA "nt2.pdb") != KDA_PATH_FILE)
        skip();
    assert_int_equal(compare(DATA "nt2.pdb"), 21);
    assert_int_equal(compare(DATA "ntkrnlmp.pdb"), 22);
    assert_int_equal(compare(DATA "forced.pdb"), 2);
}

static void made_file_agrees(void **state)
{
    (void)state;
    if (!have_program("llvm-pdbutil") || !ntfake_available())
        skip();
    struct kda_layout layout;
    struct kda_profile_info info;
    size_t row = kda_profile_count() - 1;
    for (kda_profile_get(row, &info); !info.id.has_pdb; row--)
        kda_profile_get(row - 1, &info);
    kda_profile_layout(row, &layout);
    assert_true(ntfake_build(&layout, &info.id, KDA_BUILD_DIR "/ntfake-oracle"));
    assert_true(compare(KDA_BUILD_DIR "/ntfake-oracle/ntkrnlmp.pdb") > 280);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_files_agree),
        cmocka_unit_test(made_file_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
