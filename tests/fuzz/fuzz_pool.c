/*
 * Pool memory as a witness. Byte 0 even: the rest is a page of pool, whose headers are parsed at
 * every place. Odd: a forged machine on which something of each kind is on no list, changed by the
 * rest as an edit script (edited.h); what is found must stand where its address leads.
 */
#include "edited.h"

#include "kda/etw.h"
#include "kda/pool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char scenario[] =
    "size 4M\nseed 3\ncpus 1\nkernel pages=sparse\ncompact on\nusers off\ndrivers none\n"
    "driver edr.sys size=0x10000\n"
    "process 4 handles=2\nprocess 412 ppid=4 name=svchost.exe path=\\x\\svchost.exe handles=2\n"
    "process 1200 name=ghost.exe unlinked nocid notablelink\n"
    "session 1 name=One mode=0x180\nsession 2 name=Two mode=0x100 hidden\n"
    "consumer session=1 pid=412\nconsumer session=1 pid=412 unlinked nohandle\n"
    "provider {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} enable=1,level=5\n"
    "provider {22222222-0e7b-422b-a0c7-2fad1fd0e716} unlinked\n"
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} user pid=412\n"
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} user pid=412 unlinked nohandle\n"
    "bigpages EtwG\n";

static struct edited image;

static void require(bool truth)
{
    if (!truth)
        abort();
}

static void parse(const uint8_t *data, size_t size)
{
    uint8_t page[KDA_PAGE_SIZE] = {0};
    memcpy(page, data, size < sizeof(page) ? size : sizeof(page));
    for (size_t off = 0; off < sizeof(page); off += 16) {
        struct kda_pool_block block;
        if (kda_pool_parse(page, off, &block))
            require(block.size > 16 && off + block.size <= sizeof(page) &&
                    block.kind < KDA_POOL_KINDS && page[off + 3] & 2);
    }
}

static void look(struct kda_kernel *kernel)
{
    const struct kda_pool_block *blocks;
    struct kda_etw *etw;
    size_t count;
    if (kda_etw_map(kernel, &etw, NULL) != KDA_OK)
        return;
    require(kda_pool_blocks(kernel, &blocks, &count, NULL) == KDA_OK);
    for (size_t i = 0; i < count; i++) {
        uint64_t pa;
        if (blocks[i].va)
            require(kda_translate(kernel, kda_kernel_info(kernel)->dtb, blocks[i].va, &pa, NULL) ==
                        KDA_OK &&
                    pa == blocks[i].pa);
    }
    kda_etw_free(etw);
}

static void carve(void)
{
    struct kda_kernel_options options;
    struct kda_image *file;
    struct kda_kernel *kernel;
    memset(&options, 0, sizeof(options));
    options.symbols.path = "profile";
    options.carve = true;
    if (kda_image_open_memory(image.bytes, image.size, "fuzz.raw", &file, NULL) != KDA_OK)
        return;
    if (kda_kernel_open(file, &options, &kernel, NULL) == KDA_OK) {
        if (kda_kernel_load_symbols(kernel, NULL) == KDA_OK)
            look(kernel);
        kda_kernel_close(kernel);
    }
    kda_image_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    if (data[0] % 2 == 0) {
        parse(data + 1, size - 1);
        return 0;
    }
    if (!image.bytes)
        edited_make(&image, "10.0.22000.795", scenario);
    edited_apply(&image, data + 1, size - 1);
    carve();
    edited_restore(&image, data + 1, size - 1);
    return 0;
}
