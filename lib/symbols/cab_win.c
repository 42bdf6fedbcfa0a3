/* cab_win.c - cabinets through the system's own reader. */
#include <windows.h>
#include <fdi.h>

#include "cab.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "dll_win.h"

/* The first failure stays: what FDI makes of it says less. */
struct unpacking {
    struct kda_file *cab;
    struct kda_outfile *out;
    uint64_t max, total;
    bool found; /* the first file of it */
    enum kda_status status;
    struct kda_error *err;
};

/* What FDI holds as a file: the cabinet, or what comes out of it. */
struct stream {
    struct unpacking *unpacking;
    bool is_out;
    uint64_t pos;
};

static void fail(struct unpacking *u, enum kda_status status)
{
    if (u->status == KDA_OK)
        u->status = status;
}

static void *DIAMONDAPI fdi_alloc(ULONG size)
{
    return kda_calloc(size, 1);
}

static void DIAMONDAPI fdi_free(void *p)
{
    kda_free(p);
}

static INT_PTR new_stream(struct unpacking *u, bool is_out)
{
    struct stream *stream = kda_calloc(1, sizeof(*stream));
    if (!stream) {
        fail(u, kda_fail(u->err, KDA_NO_MEMORY, "symbols", "out of memory unpacking \"%s\"",
                         kda_file_name(u->cab)));
        return -1;
    }
    stream->unpacking = u;
    stream->is_out = is_out;
    return (INT_PTR)stream;
}

/* FDI hands its callers' data to all but this one: the name is the address of it, as text. */
static INT_PTR DIAMONDAPI fdi_open(char *name, int flags, int mode)
{
    uint64_t address = 0;
    (void)flags;
    (void)mode;
    for (const char *p = name; *p; p++)
        address = address << 4 | (uint64_t)(*p - 'a');
    return new_stream((struct unpacking *)(uintptr_t)address, false);
}

static void put_address(const struct unpacking *u, char name[17])
{
    uint64_t address = (uintptr_t)u;
    for (unsigned i = 0; i < 16; i++)
        name[i] = (char)('a' + (address >> (60 - 4 * i) & 15));
    name[16] = '\0';
}

static UINT DIAMONDAPI fdi_read(INT_PTR handle, void *buffer, UINT size)
{
    struct stream *stream = (struct stream *)handle;
    struct unpacking *u = stream->unpacking;
    uint64_t all = kda_file_size(u->cab);
    uint64_t left = stream->pos < all ? all - stream->pos : 0;
    UINT got = left < size ? (UINT)left : size;
    enum kda_status status = kda_file_read_at(u->cab, stream->pos, buffer, got, u->err);
    if (status != KDA_OK) {
        fail(u, status);
        return (UINT)-1;
    }
    stream->pos += got;
    return got;
}

static UINT DIAMONDAPI fdi_write(INT_PTR handle, void *buffer, UINT size)
{
    const struct stream *stream = (const struct stream *)handle;
    struct unpacking *u = stream->unpacking;
    enum kda_status status;
    if (!stream->is_out)
        return (UINT)-1;
    if (size > u->max - u->total)
        status = kda_fail(u->err, KDA_LIMIT, "symbols",
                          "the compressed file unpacks to more than %llu bytes",
                          (unsigned long long)u->max);
    else
        status = kda_outfile_write(u->out, buffer, size, u->err);
    if (status != KDA_OK) {
        fail(u, status);
        return (UINT)-1;
    }
    u->total += size;
    return size;
}

static int DIAMONDAPI fdi_close(INT_PTR handle)
{
    kda_free((void *)handle);
    return 0;
}

static LONG DIAMONDAPI fdi_seek(INT_PTR handle, LONG distance, int from)
{
    struct stream *stream = (struct stream *)handle;
    int64_t base = from == SEEK_SET   ? 0
                   : from == SEEK_CUR ? (int64_t)stream->pos
                                      : (int64_t)kda_file_size(stream->unpacking->cab);
    int64_t to = base + distance;
    if (to < 0 || to > INT32_MAX)
        return -1;
    stream->pos = (uint64_t)to;
    return (LONG)to;
}

/* Only the first file comes out, and a cabinet that goes on in another one is not followed. */
static INT_PTR DIAMONDAPI fdi_notify(FDINOTIFICATIONTYPE what, FDINOTIFICATION *about)
{
    struct unpacking *u = about->pv;
    switch (what) {
    case fdintCOPY_FILE:
        if (u->found)
            return 0;
        u->found = true;
        return new_stream(u, true);
    case fdintCLOSE_FILE_INFO:
        (void)fdi_close(about->hf);
        return TRUE;
    case fdintNEXT_CABINET:
        return -1;
    default:
        return 0;
    }
}

struct cabinet {
    __typeof__(&FDICreate) create;
    __typeof__(&FDICopy) copy;
    __typeof__(&FDIDestroy) destroy;
};

static bool load(struct cabinet *api)
{
    static const char *const names[] = {"FDICreate", "FDICopy", "FDIDestroy"};
    _Static_assert(sizeof(*api) == sizeof(names), "one pointer for each name");
    return kda_dll_functions(L"cabinet.dll", names, sizeof(names) / sizeof(names[0]), api);
}

enum kda_status kda_cab_unpack(struct kda_file *cab, struct kda_outfile *out, uint64_t max,
                               struct kda_error *err)
{
    struct unpacking u = {.cab = cab, .out = out, .max = max, .err = err};
    char name[17], folder[] = "";
    ERF problem = {0};
    struct cabinet api;
    if (kda_file_size(cab) > INT32_MAX) /* FDI counts in signed 32 bits */
        return kda_fail(err, KDA_LIMIT, "symbols", "the compressed file has %llu bytes",
                        (unsigned long long)kda_file_size(cab));
    if (!load(&api))
        return kda_fail(err, KDA_UNSUPPORTED, "symbols",
                        "\"%s\" is compressed, and this system has no cabinet.dll",
                        kda_file_name(cab));
    HFDI fdi = kda_fault() ? NULL
                           : api.create(fdi_alloc, fdi_free, fdi_open, fdi_read, fdi_write,
                                        fdi_close, fdi_seek, cpuUNKNOWN, &problem);
    if (!fdi)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory unpacking \"%s\"",
                        kda_file_name(cab));
    put_address(&u, name);
    BOOL good = api.copy(fdi, name, folder, 0, fdi_notify, NULL, &u);
    (void)api.destroy(fdi);
    if (u.status != KDA_OK)
        return u.status;
    if (!good)
        return kda_fail(err, KDA_BAD_DATA, "symbols",
                        "the compressed file cannot be unpacked: cabinet error %d",
                        problem.erfOper);
    if (!u.found)
        return kda_fail(err, KDA_BAD_DATA, "symbols", "the compressed file is empty");
    return KDA_OK;
}
