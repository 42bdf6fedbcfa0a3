/*
 * VMware: memory in a .vmem file, its map in the .vmss or .vmsn beside it. Either file may be
 * given. Old snapshots hold the memory themselves.
 */
#include "runs.h"

#include <string.h>

#include "vmware_state.h"

#define CR0_PG 0x80000000u
#define CR4_LA57 0x1000u

/* ESX names snapshots NAME-Snapshot1.vmem and .vmsn, so the stem is the same there too. */
static const char *const state_endings[] = {".vmss", ".vmsn", ".VMSS", ".VMSN", NULL};
static const char *const memory_endings[] = {".vmem", ".VMEM", NULL};

/* Opens the first file beside `path` that has one of the endings instead of the last four
 * letters and dot. KDA_ABSENT if there is none. */
static enum kda_status open_beside(const char *path, const char *const *endings,
                                   struct kda_file **ret, struct kda_error *err)
{
    size_t stem = strlen(path) - strlen(".vmem");
    char *other = kda_strdup(path);
    if (!other)
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory");
    enum kda_status status = KDA_ABSENT;
    for (; *endings && status == KDA_ABSENT; endings++) {
        memcpy(other + stem, *endings, strlen(*endings));
        status = kda_file_open(other, ret, err);
        if (status == KDA_IO)
            status = KDA_ABSENT;
    }
    kda_free(other);
    return status;
}

static enum kda_status take_state(struct kda_image *image, const struct kda_vmware_state *state,
                                  uint64_t base, uint64_t flat_size, struct kda_error *err)
{
    struct kda_runs *runs;
    enum kda_status status = kda_image_new_runs(image, &runs, err);
    if (status != KDA_OK)
        return status;
    if (state->region_count == 0)
        status = kda_image_add_run(runs, 0, flat_size, base, err);
    for (size_t i = 0; i < state->region_count && status == KDA_OK; i++) {
        const struct kda_vmware_region *region = &state->regions[i];
        const uint64_t max = KDA_MAX_PA / KDA_PAGE_SIZE;
        if (region->ppn > max || region->page > max || region->size > max)
            return kda_fail(err, KDA_BAD_DATA, "image",
                            "memory region %zu of the VMware state file is outside of the "
                            "physical address space",
                            i);
        status = kda_image_add_run(runs, region->ppn * KDA_PAGE_SIZE, region->size * KDA_PAGE_SIZE,
                                   base + region->page * KDA_PAGE_SIZE, err);
    }
    for (size_t i = 0; i < state->cpu_count; i++) {
        if (!(state->cpus[i].cr0 & CR0_PG))
            continue;
        kda_image_add_dtb(image, state->cpus[i].cr3);
        if (state->cpus[i].cr4 & CR4_LA57)
            image->info.la57 = true;
    }
    image->info.cpus = (uint32_t)state->cpu_count;
    return status == KDA_OK ? kda_image_finish_runs(image, runs, err) : status;
}

static enum kda_status probe_state(struct kda_image *image, struct kda_error *err)
{
    (void)err;
    return kda_vmware_is_state(image->head, image->head_size) ? KDA_OK : KDA_NOT_MINE;
}

static bool is_state_name(const char *name)
{
    return kda_name_ends(name, ".vmss") || kda_name_ends(name, ".vmsn");
}

/* Told to the caller: the other file is evidence as much as the named one. */
static enum kda_status name_companion(struct kda_image *image, const struct kda_file *file,
                                      struct kda_error *err)
{
    const char *name = kda_file_name(file);
    image->info.companion = kda_arena_strndup(&image->arena, name, strlen(name));
    return image->info.companion ? KDA_OK : kda_fail(err, KDA_NO_MEMORY, "image", "out of memory");
}

static enum kda_status find_memory(struct kda_image *image, struct kda_error *err)
{
    const char *name = kda_file_name(image->file);
    enum kda_status status = KDA_ABSENT;
    if (image->companions && is_state_name(name))
        status = open_beside(name, memory_endings, &image->pages, err);
    if (status == KDA_OK)
        return name_companion(image, image->pages, err);
    if (status != KDA_ABSENT)
        return status;
    return kda_fail(err, KDA_IO, "image",
                    "this VMware state file holds no memory itself, and the .vmem file that "
                    "belongs to it is not beside it under the same name");
}

static enum kda_status open_state(struct kda_image *image, struct kda_error *err)
{
    struct kda_vmware_state *state = kda_calloc(1, sizeof(*state));
    if (!state)
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory");
    enum kda_status status = kda_vmware_read_state(image->file, state, err);
    if (status != KDA_OK)
        goto out;
    if (state->inline_size > 0) {
        status = take_state(image, state, state->inline_off, state->inline_size, err);
        goto out;
    }
    status = find_memory(image, err);
    if (status == KDA_OK)
        status = take_state(image, state, 0, kda_file_size(image->pages), err);
out:
    kda_vmware_state_deinit(state);
    kda_free(state);
    return status;
}

/* A .vmem has no signature: it is taken here only if its state file is there, else it is raw. */
static enum kda_status probe_vmem(struct kda_image *image, struct kda_error *err)
{
    const char *name = kda_file_name(image->file);
    struct kda_file *file;
    if (!image->companions || !kda_name_ends(name, ".vmem"))
        return KDA_NOT_MINE;
    enum kda_status status = open_beside(name, state_endings, &file, err);
    if (status != KDA_OK)
        return status == KDA_ABSENT ? KDA_NOT_MINE : status;
    kda_file_close(file);
    return KDA_OK;
}

static enum kda_status open_vmem(struct kda_image *image, struct kda_error *err)
{
    struct kda_file *file = NULL;
    struct kda_vmware_state *state = kda_calloc(1, sizeof(*state));
    if (!state)
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory");
    enum kda_status status = open_beside(kda_file_name(image->file), state_endings, &file, err);
    if (status == KDA_ABSENT)
        status = kda_fail(err, KDA_IO, "image", "its state file can no longer be opened");
    if (status == KDA_OK)
        status = name_companion(image, file, err);
    if (status == KDA_NO_MEMORY)
        goto out;
    if (status == KDA_OK)
        status = kda_vmware_read_state(file, state, err);
    if (status != KDA_OK) {
        /* Reading it flat instead could show wrong pages above 3 GiB as if they were right. */
        kda_error_prepend(err, "while reading the state file beside it (move it away to read the "
                               ".vmem as a flat image)");
        goto out;
    }
    status = take_state(image, state, 0, kda_file_size(image->file), err);
out:
    kda_vmware_state_deinit(state);
    kda_free(state);
    kda_file_close(file);
    return status;
}

const struct kda_image_ops kda_fmt_vmware = {
    .probe = probe_state,
    .open = open_state,
    .read = kda_image_runs_read,
    .next_run = kda_image_runs_next,
    .place = kda_image_runs_place,
    .close = kda_image_runs_close,
};

const struct kda_image_ops kda_fmt_vmem = {
    .probe = probe_vmem,
    .open = open_vmem,
    .read = kda_image_runs_read,
    .next_run = kda_image_runs_next,
    .place = kda_image_runs_place,
    .close = kda_image_runs_close,
};
