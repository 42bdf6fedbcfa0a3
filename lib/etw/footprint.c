/*
 * footprint.c - how few pages could have been read: the measure that `make bench` holds the reader
 * against.
 */
#include <string.h>

#include "internal.h"

struct footprint {
    struct kda_map pages;
    bool failed;
};

static void add_bytes(struct footprint *f, uint64_t va, uint32_t size)
{
    if (va == 0 || size == 0 || size > KDA_PAGE_SIZE)
        return;
    uint64_t last = (va + size - 1) / KDA_PAGE_SIZE;
    for (uint64_t page = va / KDA_PAGE_SIZE; page <= last; page++)
        f->failed = !kda_map_put(&f->pages, page, 1) || f->failed;
}

static void add(struct footprint *f, const struct kda_layout *layout, enum kda_struct_id type,
                uint64_t va)
{
    add_bytes(f, va, layout->size[type]);
}

static void add_entry(struct footprint *f, uint64_t entry_va)
{
    add_bytes(f, entry_va, 16);
}

uint64_t kda_etw_footprint(const struct kda_etw *etw)
{
    const struct kda_layout *layout = kda_kernel_layout(etw->kernel);
    const struct kda_process *processes;
    struct footprint f;
    size_t count;
    memset(&f, 0, sizeof(f));
    kda_map_init(&f.pages);
    for (size_t i = 0; i < etw->sessions.count; i++) {
        const struct kda_etw_session *session = etw->sessions.items[i];
        add(&f, layout, KDA_STRUCT_WMI_LOGGER_CONTEXT, session->va);
    }
    for (size_t i = 0; i < etw->consumers.count; i++) {
        const struct kda_etw_consumer *consumer = etw->consumers.items[i];
        add(&f, layout, KDA_STRUCT_ETW_REALTIME_CONSUMER, consumer->va);
        add_entry(&f, consumer->handle_va);
    }
    for (size_t i = 0; i < etw->providers.count; i++) {
        const struct kda_etw_provider *provider = etw->providers.items[i];
        add(&f, layout, KDA_STRUCT_ETW_GUID_ENTRY, provider->va);
    }
    for (size_t i = 0; i < etw->registrations.count; i++) {
        const struct kda_etw_registration *reg = etw->registrations.items[i];
        add(&f, layout, KDA_STRUCT_ETW_REG_ENTRY, reg->va);
        add_entry(&f, reg->handle_va);
    }
    if (kda_processes(etw->kernel, &processes, &count, NULL) == KDA_OK)
        for (size_t i = 0; i < count; i++) {
            add(&f, layout, KDA_STRUCT_EPROCESS, processes[i].va);
            add_entry(&f, processes[i].cid_va);
        }
    uint64_t pages = f.failed ? 0 : f.pages.count;
    kda_map_deinit(&f.pages);
    return pages;
}
