/* The PDB reader on real files, on files built here, on damaged ones, and with failing calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "alloc.h"
#include "bytes.h"
#include "file.h"
#include "pdbgen.h"
#include "symbols/isf.h"
#include "symbols/pdb.h"
#include "layout_equal.h"
#include "text.h"

#define DATA KDA_SOURCE_DIR "/../shared/data/pdb/"

static const uint8_t some_guid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static enum kda_status read_memory(const struct bytes *file, const struct kda_kernel_id *id,
                                   struct kda_layout *ret, struct kda_error *err)
{
    struct kda_file *f;
    enum kda_status status = kda_file_open_memory(file->data, file->size, "test.pdb", &f, err);
    if (status != KDA_OK)
        return status;
    status = kda_pdb_layout(f, id, ret, err);
    kda_file_close(f);
    return status;
}

/* ---- a PDB built here ---- */

enum { AGE = 3, PDB_STREAM_AGE = 9 };

/* Bit fields, every kind of size, an anonymous union that holds an anonymous structure, and a list
 * that goes on in a second record. */
static void add_eprocess(struct tpi *tpi, uint32_t list_entry)
{
    struct bytes inner = {0}, outer = {0}, second = {0}, first = {0}, index = {0};
    uint32_t bits = tpi_bits(tpi, 0x20, 3, 4); /* unsigned char */
    put_member(&inner, bits, 0, "SignatureLevel");
    put_member(&inner, 0x75, 4, "Flags");
    uint32_t inner_list = tpi_add(tpi, 0x1203, &inner);
    uint32_t inner_struct = tpi_struct(tpi, 0x1505, inner_list, 8, "<unnamed-tag>", 0);
    put_member(&outer, inner_struct, 0, "");
    put_member(&outer, 0x77, 0, "CreateTime");
    uint32_t outer_list = tpi_add(tpi, 0x1203, &outer);
    uint32_t outer_union = tpi_struct(tpi, 0x1506, outer_list, 8, "<unnamed-tag>", 0);
    put_member(&second, tpi_array(tpi, 0x20, 15), 0x9000, "ImageFileName");
    put_member(&second, outer_union, 0x9010, "");
    bytes_put16(&second, 0x1510); /* nested type */
    bytes_put16(&second, 0);
    bytes_put32(&second, outer_union);
    put_text(&second, "");
    bytes_put16(&second, 0x1511); /* a method that introduces a virtual slot */
    bytes_put16(&second, 4 << 2);
    put_zeros(&second, 8);
    put_text(&second, "Method");
    put_member(&second, 0x603, 0x9020, "Job"); /* void far 64-bit pointer */
    uint32_t second_list = tpi_add(tpi, 0x1203, &second);
    put_member(&first, 0x77, 8, "UniqueProcessId");
    put_member(&first, list_entry, 16, "ActiveProcessLinks");
    bytes_put16(&first, 0x1404);
    bytes_put16(&first, 0);
    bytes_put32(&first, second_list);
    uint32_t fields = tpi_add(tpi, 0x1203, &first);
    (void)tpi_struct(tpi, 0x1505, 0, 0, "_EPROCESS", 0x80);
    (void)tpi_struct(tpi, 0x1504, fields, 0x9100, "_EPROCESS", 0);
    struct bytes *all[] = {&inner, &outer, &second, &first, &index};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        bytes_free(all[i]);
}

/* Sizes through a modifier, an enum and a forward reference whose definition comes later. */
static void add_logger(struct tpi *tpi, uint32_t list_entry)
{
    struct bytes body = {0}, fields = {0};
    bytes_put32(&body, 0x22);
    bytes_put16(&body, 1);
    uint32_t modified = tpi_add(tpi, 0x1001, &body);
    bytes_free(&body);
    bytes_put16(&body, 0);
    bytes_put16(&body, 0);
    bytes_put32(&body, 0x72); /* 16-bit integer */
    bytes_put32(&body, 0);
    put_text(&body, "_SOME_ENUM");
    uint32_t enumeration = tpi_add(tpi, 0x1507, &body);
    uint32_t later = tpi_struct(tpi, 0x1505, 0, 0, "_ETW_BUFFER_QUEUE", 0x80);
    put_member(&fields, modified, 0, "LoggerId");
    put_member(&fields, enumeration, 4, "PoolType");
    put_member(&fields, later, 0x10, "BufferQueue");
    put_member(&fields, list_entry, 0x30, "Consumers");
    uint32_t list = tpi_add(tpi, 0x1203, &fields);
    (void)tpi_struct(tpi, 0x1505, list, 0x400, "_WMI_LOGGER_CONTEXT", 0);
    (void)tpi_struct(tpi, 0x1505, 0, 0x18, "_ETW_BUFFER_QUEUE", 0);
    bytes_free(&body);
    bytes_free(&fields);
}

static void build_types(struct bytes *ret)
{
    struct tpi tpi = {0};
    struct bytes fields = {0}, body = {0};
    uint32_t list_entry = tpi_struct(&tpi, 0x1505, 0, 0, "_LIST_ENTRY", 0x80);
    bytes_put32(&body, list_entry);
    bytes_put32(&body, 0x1000c);
    uint32_t pointer = tpi_add(&tpi, 0x1002, &body);
    put_member(&fields, pointer, 0, "Flink");
    put_member(&fields, pointer, 8, "Blink");
    uint32_t list = tpi_add(&tpi, 0x1203, &fields);
    (void)tpi_struct(&tpi, 0x1505, list, 16, "_LIST_ENTRY", 0);
    add_eprocess(&tpi, list_entry);
    add_logger(&tpi, list_entry);
    tpi_finish(&tpi, ret);
    bytes_free(&fields);
    bytes_free(&body);
}

/* Streams: 0 empty, 1 info, 2 types, 3 DBI, 4 empty, 5 symbols, 6 sections, 7 original sections,
 * 8 OMAP. */
static void build_pdb(uint32_t block_size, int backwards, bool moved, struct bytes *ret)
{
    struct bytes s[9] = {{0}};
    pdbgen_info(&s[1], some_guid, PDB_STREAM_AGE);
    build_types(&s[2]);
    struct pdbgen_dbi dbi = {AGE, 5, moved ? 8 : 0xffff, 6, moved ? 7 : 0xffff};
    pdbgen_dbi(&s[3], &dbi);
    put_symbol(&s[5], 0x110d, 2, 0x80, "PspCidTable"); /* data record, overruled below */
    put_symbol(&s[5], 0x110e, 1, 0x10, "NotWanted");
    put_symbol(&s[5], 0x1012, 1, 0x10, "PsActiveProcessHead"); /* another kind of record */
    put_symbol(&s[5], 0x110e, 2, 0x40, "PspCidTable");
    put_symbol(&s[5], 0x110d, 2, 0x48, "PsLoadedModuleList");
    put_symbol(&s[5], 0x110e, 3, 0x10, "NtBuildLab");   /* past the last section */
    put_symbol(&s[5], 0x110e, 2, 0x100, "KiWaitNever"); /* dropped by the OMAP */
    put_section(&s[6], 0x1000);
    put_section(&s[6], 0x5000);
    put_section(&s[7], 0x1000);
    put_section(&s[7], 0x3000);
    static const uint32_t omap[][2] = {
        {0x1000, 0x1000}, {0x3000, 0x7000}, {0x3044, 0x9000}, {0x3100, 0}};
    for (size_t i = 0; i < 4; i++) {
        bytes_put32(&s[8], omap[i][0]);
        bytes_put32(&s[8], omap[i][1]);
    }
    pdbgen_container(s, 9, block_size, backwards, ret);
    for (size_t i = 0; i < 9; i++)
        bytes_free(&s[i]);
}

static void check_field(const struct kda_layout *l, enum kda_field_id id, uint32_t offset,
                        unsigned size, unsigned bit, unsigned bits)
{
    const struct kda_field *f = &l->field[id];
    if (f->offset != offset || f->size != size || f->bit != bit || f->bits != bits)
        fail_msg("%s: 0x%x/%u %u:%u", kda_field_name(id), f->offset, f->size, f->bit, f->bits);
}

static void check_built(const struct kda_layout *l)
{
    check_field(l, KDA_F_LIST_ENTRY_Blink, 8, 8, 0, 0);
    check_field(l, KDA_F_EPROCESS_UniqueProcessId, 8, 8, 0, 0);
    check_field(l, KDA_F_EPROCESS_ActiveProcessLinks, 16, 16, 0, 0);
    check_field(l, KDA_F_EPROCESS_ImageFileName, 0x9000, 15, 0, 0);
    check_field(l, KDA_F_EPROCESS_SignatureLevel, 0x9010, 1, 3, 4);
    check_field(l, KDA_F_EPROCESS_Flags, 0x9014, 4, 0, 0);
    check_field(l, KDA_F_EPROCESS_CreateTime, 0x9010, 8, 0, 0);
    check_field(l, KDA_F_EPROCESS_Job, 0x9020, 8, 0, 0);
    check_field(l, KDA_F_EPROCESS_Token, KDA_NONE, 0, 0, 0);
    check_field(l, KDA_F_WMI_LOGGER_CONTEXT_LoggerId, 0, 4, 0, 0);
    check_field(l, KDA_F_WMI_LOGGER_CONTEXT_PoolType, 4, 2, 0, 0);
    check_field(l, KDA_F_WMI_LOGGER_CONTEXT_BufferQueue, 0x10, 0x18, 0, 0);
    check_field(l, KDA_F_WMI_LOGGER_CONTEXT_Consumers, 0x30, 16, 0, 0);
    assert_int_equal(l->size[KDA_STRUCT_EPROCESS], 0x9100);
    assert_int_equal(l->size[KDA_STRUCT_ETW_BUFFER_QUEUE], 0x18);
    assert_int_equal(l->size[KDA_STRUCT_EJOB], KDA_NONE);
    assert_int_equal(l->rva[KDA_SYM_PsActiveProcessHead], KDA_NONE);
    assert_int_equal(l->rva[KDA_SYM_NtBuildLab], KDA_NONE);
}

static void built_file_reads_back(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {512, 1024, 4096, 65536};
    for (size_t i = 0; i < 4; i++) {
        for (int way = 0; way < 4; way++) {
            struct bytes file;
            struct kda_layout l;
            struct kda_error err;
            bool moved = way & 1;
            build_pdb(sizes[i], way & 2, moved, &file);
            if (read_memory(&file, NULL, &l, &err) != KDA_OK)
                fail_msg("%s", err.text);
            check_built(&l);
            assert_int_equal(l.rva[KDA_SYM_PspCidTable], moved ? 0x7040 : 0x5040);
            assert_int_equal(l.rva[KDA_SYM_PsLoadedModuleList], moved ? 0x9004 : 0x5048);
            assert_int_equal(l.rva[KDA_SYM_KiWaitNever], moved ? KDA_NONE : 0x5100);
            bytes_free(&file);
        }
    }
}

static void another_kernel_is_refused_with_both_names(void **state)
{
    (void)state;
    struct bytes file;
    struct kda_layout l;
    struct kda_error err;
    build_pdb(512, 0, false, &file);
    struct kda_kernel_id id = {.has_pdb = true, .pdb_age = AGE};
    memcpy(id.pdb_guid, some_guid, 16);
    assert_int_equal(read_memory(&file, &id, &l, &err), KDA_OK);
    id.pdb_age = PDB_STREAM_AGE; /* the age of the record is that of the DBI stream */
    assert_int_equal(read_memory(&file, &id, &l, &err), KDA_BAD_DATA);
    assert_non_null(strstr(err.text, "0403020106050807090A0B0C0D0E0F103"));
    assert_non_null(strstr(err.text, "0403020106050807090A0B0C0D0E0F109"));
    id.pdb_age = AGE;
    id.pdb_guid[15] ^= 1;
    assert_int_equal(read_memory(&file, &id, &l, &err), KDA_BAD_DATA);
    id.has_pdb = false;
    assert_int_equal(read_memory(&file, &id, &l, &err), KDA_OK);
    bytes_free(&file);
}

/* ---- damaged files ---- */

static void every_cut_is_an_error(void **state)
{
    (void)state;
    struct bytes file;
    build_pdb(512, 0, true, &file);
    for (size_t size = 0; size < file.size; size++) {
        struct bytes cut = {file.data, size, size};
        struct kda_layout l;
        enum kda_status status = read_memory(&cut, NULL, &l, NULL);
        assert_int_equal(status, size < 32 ? KDA_NOT_MINE : KDA_BAD_DATA);
    }
    bytes_free(&file);
}

static void other_formats_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *head, *word;
        enum kda_status status;
    } cases[] = {
        {"Microsoft C/C++ program database 2.00\r\n\032JG", "2.00", KDA_UNSUPPORTED},
        {"Microsoft MSFZ Container\r\n\032ALD", "MSFZ", KDA_UNSUPPORTED},
        {"BSJB\1\0\1\0", "portable", KDA_UNSUPPORTED},
        {"MZ", "not a PDB", KDA_NOT_MINE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t head[64] = {0};
        memcpy(head, cases[i].head, strlen(cases[i].head));
        struct bytes file = {head, sizeof(head), sizeof(head)};
        struct kda_layout l;
        struct kda_error err;
        assert_int_equal(read_memory(&file, NULL, &l, &err), cases[i].status);
        assert_non_null(strstr(err.text, cases[i].word));
    }
}

static enum kda_status read_types(struct tpi *tpi)
{
    struct bytes s[4] = {{0}}, file;
    struct kda_layout l;
    pdbgen_info(&s[1], some_guid, 1);
    tpi_finish(tpi, &s[2]);
    pdbgen_container(s, 4, 512, 0, &file);
    enum kda_status status = read_memory(&file, NULL, &l, NULL);
    for (size_t i = 0; i < 4; i++)
        bytes_free(&s[i]);
    bytes_free(&file);
    return status;
}

/* A modifier of itself, an anonymous structure inside itself, a list that continues with itself,
 * and a member of an unknown kind: all must end, and none may be believed. */
static void types_in_circles_end(void **state)
{
    (void)state;
    struct tpi tpi = {0};
    struct bytes body = {0};
    bytes_put32(&body, 0x1000);
    bytes_put16(&body, 1);
    (void)tpi_add(&tpi, 0x1001, &body);
    bytes_free(&body);
    put_member(&body, 0x1000, 0, "CreateTime");
    (void)tpi_struct(&tpi, 0x1505, tpi_add(&tpi, 0x1203, &body), 8, "_EPROCESS", 0);
    assert_int_equal(read_types(&tpi), KDA_OK);
    bytes_free(&body);

    tpi = (struct tpi){0};
    for (int i = 0; i < 2; i++) /* 0x1001 is the structure itself; two, so that it doubles */
        put_member(&body, 0x1001, 1, "");
    (void)tpi_struct(&tpi, 0x1505, tpi_add(&tpi, 0x1203, &body), 8, "_EPROCESS", 0);
    assert_int_equal(read_types(&tpi), KDA_BAD_DATA);
    bytes_free(&body);

    tpi = (struct tpi){0};
    bytes_put16(&body, 0x1404);
    bytes_put16(&body, 0);
    bytes_put32(&body, 0x1000);
    (void)tpi_struct(&tpi, 0x1505, tpi_add(&tpi, 0x1203, &body), 8, "_EPROCESS", 0);
    assert_int_equal(read_types(&tpi), KDA_BAD_DATA);
    bytes_free(&body);

    tpi = (struct tpi){0};
    bytes_put32(&body, 0x7777);
    (void)tpi_struct(&tpi, 0x1505, tpi_add(&tpi, 0x1203, &body), 8, "_EPROCESS", 0);
    assert_int_equal(read_types(&tpi), KDA_BAD_DATA);
    bytes_free(&body);
}

static void failing_calls_leave_nothing(void **state)
{
    (void)state;
#ifdef KDA_FAULT_INJECTION
    struct bytes file;
    build_pdb(512, 1, true, &file);
    bool fired = true;
    uint64_t n = 1;
    for (; fired; n++) {
        struct kda_layout l;
        memset(&l, 0x5a, sizeof(l));
        struct kda_layout before = l;
        kda_fault_arm(n);
        enum kda_status status = read_memory(&file, NULL, &l, NULL);
        fired = kda_fault_fired();
        kda_fault_arm(0);
        if (!fired) {
            assert_int_equal(status, KDA_OK);
            check_built(&l);
        } else {
            assert_true(status == KDA_NO_MEMORY || status == KDA_IO);
            assert_memory_equal(&l, &before, sizeof(l));
        }
    }
    assert_true(n > 10);
    bytes_free(&file);
#else
    skip();
#endif
}

/* ---- size ---- */

/* As many records as a kernel's PDB has. */
static void kernel_sized_file_is_fast(void **state)
{
    (void)state;
    struct tpi tpi = {0};
    struct bytes s[7] = {{0}}, file;
    char name[64];
    for (unsigned i = 0; i < 20000; i++) {
        struct bytes fields = {0};
        for (unsigned j = 0; j < 8; j++) {
            (void)snprintf(name, sizeof(name), "SomeMemberOfAStructure%u", j);
            put_member(&fields, 0x75, j * 4, name);
        }
        (void)snprintf(name, sizeof(name), "_SOME_STRUCTURE_%u", i);
        uint32_t list = tpi_add(&tpi, 0x1203, &fields);
        (void)tpi_struct(&tpi, 0x1505, 0, 0, name, 0x80);
        (void)tpi_struct(&tpi, 0x1505, list, 32, name, 0);
        bytes_free(&fields);
        (void)snprintf(name, sizeof(name), "SomeFunctionWithALongishName%u", i);
        put_symbol(&s[5], 0x110e, 1, i * 16, name);
        (void)snprintf(name, sizeof(name), "SomeGlobalVariable%u", i);
        put_symbol(&s[5], 0x110e, 2, i * 16, name);
    }
    struct bytes fields = {0};
    put_member(&fields, 0x77, 0x440, "UniqueProcessId");
    (void)tpi_struct(&tpi, 0x1505, tpi_add(&tpi, 0x1203, &fields), 0xb80, "_EPROCESS", 0);
    put_symbol(&s[5], 0x110e, 2, 0x123450, "PspCidTable");
    pdbgen_info(&s[1], some_guid, 1);
    tpi_finish(&tpi, &s[2]);
    struct pdbgen_dbi dbi = {1, 5, 0xffff, 6, 0xffff};
    pdbgen_dbi(&s[3], &dbi);
    put_section(&s[6], 0x1000);
    put_section(&s[6], 0x600000);
    put_zeros(&s[4], 3000000); /* modules, which are not read */
    pdbgen_container(s, 7, 4096, 0, &file);
    struct kda_layout l;
    clock_t start = clock();
    assert_int_equal(read_memory(&file, NULL, &l, NULL), KDA_OK);
    double ms = (double)(clock() - start) * 1000 / CLOCKS_PER_SEC;
    print_message("           %zu bytes, 60000 type and 40000 symbol records: %.1f ms\n", file.size,
                  ms);
    assert_int_equal(l.field[KDA_F_EPROCESS_UniqueProcessId].offset, 0x440);
    assert_int_equal(l.rva[KDA_SYM_PspCidTable], 0x723450);
    assert_true(ms < 2000); /* sanitizer builds and busy machines included */
    for (size_t i = 0; i < 7; i++)
        bytes_free(&s[i]);
    bytes_free(&fields);
    bytes_free(&file);
}

/* ---- real files ---- */

static bool open_data(const char *name, struct kda_file **file)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s%s", DATA, name);
    return kda_path_kind(path) == KDA_PATH_FILE && kda_file_open(path, file, NULL) == KDA_OK;
}

/* GUID and age that an image's debug record asks for. */
static void read_rsds(const char *name, uint8_t guid[16], uint32_t *age)
{
    struct kda_file *file;
    void *data;
    size_t size;
    assert_true(open_data(name, &file));
    assert_int_equal(kda_file_read_all(file, 1 << 20, &data, &size, NULL), KDA_OK);
    const uint8_t *bytes = data;
    size_t at = 0;
    while (at + 24 <= size && memcmp(bytes + at, "RSDS", 4) != 0)
        at++;
    assert_true(at + 24 <= size);
    memcpy(guid, bytes + at + 4, 16);
    *age = kda_le32(bytes + at + 20);
    kda_free(data);
    kda_file_close(file);
}

static void identity_is_what_the_image_asks_for(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"nt2.pdb", "nt2.exe"},
                                           {"ntkrnlmp.pdb", "ntoskrnl.exe"}};
    uint8_t guid[16], want[16];
    uint32_t age, want_age;
    struct kda_file *file;
    for (size_t i = 0; i < 2; i++) {
        if (!open_data(pairs[i][0], &file))
            skip();
        assert_int_equal(kda_pdb_identity(file, guid, &age, NULL), KDA_OK);
        kda_file_close(file);
        read_rsds(pairs[i][1], want, &want_age);
        assert_memory_equal(guid, want, 16);
        assert_int_equal(age, want_age);
    }
    assert_true(open_data("forced.pdb", &file)); /* PDB age 2, DBI age 1 */
    assert_int_equal(kda_pdb_identity(file, guid, &age, NULL), KDA_OK);
    kda_file_close(file);
    assert_true(kda_guid_parse("11223344-5566-7788-99aa-bbccddeeff00", want));
    assert_memory_equal(guid, want, 16);
    assert_int_equal(age, 1);
}

static void pdb_equals_isf_of_it(void **state)
{
    (void)state;
    struct kda_file *pdb = NULL, *isf = NULL;
    struct kda_layout a, b;
    if (!open_data("nt2.pdb", &pdb) || !open_data("nt.isf.json", &isf))
        skip();
    assert_int_equal(kda_pdb_layout(pdb, NULL, &a, NULL), KDA_OK);
    enum kda_status status = kda_isf_layout(isf, NULL, &b, NULL);
    kda_file_close(pdb);
    kda_file_close(isf);
    if (status == KDA_UNSUPPORTED)
        skip();
    assert_int_equal(status, KDA_OK);
    assert_int_equal(layout_differences(&b, &a, "nt2.pdb"), 0);
    assert_int_equal(a.field[KDA_F_WMI_LOGGER_CONTEXT_Consumers].offset, 0x98);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_file_reads_back),
        cmocka_unit_test(another_kernel_is_refused_with_both_names),
        cmocka_unit_test(every_cut_is_an_error),
        cmocka_unit_test(other_formats_are_named),
        cmocka_unit_test(types_in_circles_end),
        cmocka_unit_test(failing_calls_leave_nothing),
        cmocka_unit_test(kernel_sized_file_is_fast),
        cmocka_unit_test(identity_is_what_the_image_asks_for),
        cmocka_unit_test(pdb_equals_isf_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
