#include "ntfake.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "process.h"

/* Where lld puts the data section: one page of .rdata comes first. If that changed, no address
 * would be right and every test would say so. */
#define GLOBALS_RVA 0x2000u

bool ntfake_available(void)
{
    return have_program("clang") && have_program("lld-link");
}

/* ---- source ---- */

struct global {
    uint32_t rva;
    const char *name;
};

static int by_rva(const void *a, const void *b)
{
    const struct global *x = a, *y = b;
    return x->rva < y->rva ? -1 : x->rva > y->rva;
}

/* Labels in a section that has no bytes in the file, so that megabytes of address space cost
 * nothing. */
static void write_globals(FILE *out, const struct kda_layout *layout)
{
    struct global globals[KDA_SYM_COUNT];
    size_t count = 0;
    for (unsigned i = 0; i < KDA_SYM_COUNT; i++) {
        if (layout->rva[i] != KDA_NONE && layout->rva[i] >= GLOBALS_RVA)
            globals[count++] =
                (struct global){layout->rva[i], kda_symbol_name((enum kda_symbol_id)i)};
    }
    qsort(globals, count, sizeof(globals[0]), by_rva);
    (void)fprintf(out, "__asm__(\".bss\\n\"\n");
    uint32_t at = GLOBALS_RVA;
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, "  \".skip 0x%x\\n.globl %s\\n%s:\\n\"\n", globals[i].rva - at,
                      globals[i].name, globals[i].name);
        at = globals[i].rva;
    }
    (void)fprintf(out, "  \".skip 8\\n\");\n");
}

/* A member of the wanted size. Types are varied, so that their sizes are computed in every way. */
static void write_member(FILE *out, const struct kda_layout *layout, unsigned id)
{
    const struct kda_field *f = &layout->field[id];
    const char *full = kda_field_name((enum kda_field_id)id);
    const char *name = strchr(full, '.') + 1;
    static const char *const units[9] = {[1] = "u8", [2] = "u16", [4] = "u32", [8] = "u64"};
    static const char *const four[3] = {"u32", "enum kda_state", "const volatile long"};
    static const char *const eight[3] = {"void *", "u64", "struct kda_later *"};
    bool in_list = kda_field_struct((enum kda_field_id)id) == KDA_STRUCT_LIST_ENTRY;
    if (f->bits && f->bit)
        (void)fprintf(out, "%s _b%u:%u; ", units[f->size], id, f->bit);
    if (f->bits)
        (void)fprintf(out, "%s %s:%u;", units[f->size], name, f->bits);
    else if (f->size == 1 || f->size == 2)
        (void)fprintf(out, "%s %s;", units[f->size], name);
    else if (f->size == 4)
        (void)fprintf(out, "%s %s;", four[id % 3], name);
    else if (f->size == 8)
        (void)fprintf(out, "%s %s;", eight[id % 3], name);
    else if (f->size == 16 && !in_list && layout->size[KDA_STRUCT_LIST_ENTRY] == 16)
        (void)fprintf(out, "struct _LIST_ENTRY %s;", name);
    else
        (void)fprintf(out, "u8 %s[%u];", name, f->size);
}

static const struct kda_layout *sort_layout; /* qsort has no context argument */

static int by_offset(const void *a, const void *b)
{
    uint32_t x = sort_layout->field[*(const unsigned *)a].offset;
    uint32_t y = sort_layout->field[*(const unsigned *)b].offset;
    return x < y ? -1 : x > y;
}

/* Fields that follow one another form one chain; one that overlaps starts in a branch of its own.
 */
static void write_fields(FILE *out, const struct kda_layout *layout, unsigned *ids, size_t count)
{
    while (count > 0) {
        uint32_t at = 0;
        size_t left = 0;
        (void)fprintf(out, "  struct {\n");
        for (size_t i = 0; i < count; i++) {
            const struct kda_field *f = &layout->field[ids[i]];
            if (f->offset < at) {
                ids[left++] = ids[i];
                continue;
            }
            if (f->offset > at)
                (void)fprintf(out, "    u8 _p%u[%u];\n", ids[i], f->offset - at);
            (void)fprintf(out, "    ");
            write_member(out, layout, ids[i]);
            (void)fprintf(out, "\n");
            at = f->offset + f->size;
        }
        (void)fprintf(out, "  };\n");
        count = left;
    }
}

static void write_struct(FILE *out, const struct kda_layout *layout, enum kda_struct_id type)
{
    unsigned ids[KDA_FIELD_COUNT];
    size_t count = 0;
    for (unsigned i = 0; i < KDA_FIELD_COUNT; i++) {
        if (kda_field_struct((enum kda_field_id)i) == type && layout->field[i].offset != KDA_NONE &&
            layout->field[i].size != 0)
            ids[count++] = i;
    }
    sort_layout = layout;
    qsort(ids, count, sizeof(ids[0]), by_offset);
    (void)fprintf(out, "struct %s { union {\n", kda_struct_name(type));
    write_fields(out, layout, ids, count);
    (void)fprintf(out, "  u8 _all[%u]; }; };\nstruct %s *use_%u;\n", layout->size[type],
                  kda_struct_name(type), (unsigned)type);
}

void ntfake_source(FILE *out, const struct kda_layout *layout)
{
    (void)fprintf(out, "typedef unsigned char u8;\ntypedef unsigned short u16;\n"
                       "typedef unsigned int u32;\ntypedef unsigned long long u64;\n"
                       "enum kda_state { KDA_STATE_ONE, KDA_STATE_TWO };\n"
                       "#pragma pack(push, 1)\n");
    if (layout->size[KDA_STRUCT_LIST_ENTRY] != KDA_NONE)
        write_struct(out, layout, KDA_STRUCT_LIST_ENTRY);
    for (unsigned i = 0; i < KDA_STRUCT_COUNT; i++) {
        if (i != KDA_STRUCT_LIST_ENTRY && layout->size[i] != KDA_NONE)
            write_struct(out, layout, (enum kda_struct_id)i);
    }
    (void)fprintf(out, "#pragma pack(pop)\n");
    write_globals(out, layout);
}

/* ---- build ---- */

/* The linker computes the GUID; the wanted one replaces it in the PDB stream, which is found by its
 * version word and known age. */
static bool set_identity(const char *path, const struct kda_kernel_id *id)
{
    FILE *f = fopen(path, "r+b");
    if (!f)
        return false;
    (void)fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(size);
    bool done = false;
    size = bytes ? fread(bytes, 1, size, f) : 0;
    for (size_t at = 512; !done && at + 28 <= size; at += 512) {
        if (kda_le32(bytes + at) != 20000404 || kda_le32(bytes + at + 8) != 1)
            continue;
        done = id->pdb_age == 1 && fseek(f, (long)at + 12, SEEK_SET) == 0 &&
               fwrite(id->pdb_guid, 16, 1, f) == 1;
    }
    free(bytes);
    return fclose(f) == 0 && done;
}

bool ntfake_build(const struct kda_layout *layout, const struct kda_kernel_id *id,
                  const char *folder)
{
    static const char *const compile[] = {"clang",
                                          "--target=x86_64-pc-windows-msvc",
                                          "-ffreestanding",
                                          "-O1",
                                          "-g",
                                          "-gcodeview",
                                          "-fdebug-compilation-dir=.",
                                          "-c",
                                          "ntfake.c",
                                          "-o",
                                          "ntfake.obj",
                                          NULL};
    static const char *const link[] = {"lld-link",
                                       "/nologo",
                                       "/nodefaultlib",
                                       "/dll",
                                       "/noentry",
                                       "/subsystem:native",
                                       "/debug",
                                       "/Brepro",
                                       "/pdbsourcepath:C:/kda",
                                       "/pdb:ntkrnlmp.pdb",
                                       "/pdbaltpath:ntkrnlmp.pdb",
                                       "/implib:ntfake.lib",
                                       "/out:ntoskrnl.exe",
                                       "ntfake.obj",
                                       NULL};
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/ntfake.c", folder);
    FILE *out = make_folders(folder) ? fopen(path, "w") : NULL;
    if (!out)
        return false;
    ntfake_source(out, layout);
    if (fclose(out) != 0)
        return false;
    if (!run_program(folder, compile, NULL) || !run_program(folder, link, NULL)) {
        (void)fprintf(stderr, "cannot compile or link %s\n", path);
        return false;
    }
    (void)snprintf(path, sizeof(path), "%s/ntkrnlmp.pdb", folder);
    return !id || set_identity(path, id);
}
