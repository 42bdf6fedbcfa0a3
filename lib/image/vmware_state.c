/*
 * The container is a table of groups; a group is a list of tags, each a name, up to three indices
 * and a value. Source: no public description by the vendor; layout as read by the open-source
 * readers of the format (Volatility, crash), which agree.
 */
#include "vmware_state.h"

#include <string.h>

#include "bytes.h"

#define GROUP_SIZE 80u
#define HEADER_SIZE 12u
#define MAX_GROUPS 1024u
/* Regions are one per hole in the guest's memory map; seen: 1 to 4. */
#define MAX_REGIONS 4096u
/* The group of a guest with many CPUs has some thousands. */
#define MAX_TAGS 262144u

#define TAG_MAX (2u + 255u + 3u * 4u + 18u) /* flags, length, name, indices, block header */
#define BLOCK_COMPRESSED 62u
#define BLOCK 63u

enum { HAVE_PPN = 1, HAVE_PAGE = 2, HAVE_SIZE = 4, HAVE_ALL = 7 };

struct tag {
    char name[256];
    uint32_t index[3];
    unsigned index_count;
    uint64_t off, size; /* value in the file */
    uint64_t full_size; /* unpacked */
    uint64_t value;     /* values of up to 8 bytes */
    bool end;
};

struct walk {
    struct kda_file *file;
    struct kda_vmware_state *state;
    unsigned version;
};

typedef enum kda_status (*tag_fn)(struct walk *walk, const struct tag *tag, struct kda_error *err);

bool kda_vmware_is_state(const uint8_t *head, size_t size)
{
    if (size < HEADER_SIZE)
        return false;
    uint32_t magic = kda_le32(head);
    return magic == 0xBED2BED0u || magic == 0xBAD1BAD1u || magic == 0xBED2BED2u ||
           magic == 0xBED3BED3u;
}

void kda_vmware_state_deinit(struct kda_vmware_state *state)
{
    kda_free(state->regions);
    state->regions = NULL;
}

static enum kda_status damaged(struct kda_error *err, uint64_t off)
{
    return kda_fail_at(
        err, KDA_BAD_DATA, "image", off,
        "the VMware state file is damaged at 0x%llx: what should stand there is past its "
        "end",
        (unsigned long long)off);
}

/* Reads the tag at *off and moves *off to the next one. */
static enum kda_status read_tag(struct walk *walk, uint64_t *off, struct tag *tag,
                                struct kda_error *err)
{
    uint8_t bytes[TAG_MAX];
    uint64_t file_size = kda_file_size(walk->file), at = *off;
    size_t n = file_size - at < TAG_MAX ? (size_t)(file_size - at) : TAG_MAX;
    enum kda_status status = kda_file_read_at(walk->file, at, bytes, n, err);
    if (status != KDA_OK)
        return status;
    *tag = (struct tag){0};
    struct kda_cursor c = kda_cursor_make(bytes, n);
    uint8_t flags = kda_take8(&c), length = kda_take8(&c);
    const uint8_t *name = kda_take(&c, length);
    if (name)
        memcpy(tag->name, name, length);
    tag->index_count = flags >> 6;
    for (unsigned i = 0; i < tag->index_count; i++)
        tag->index[i] = kda_take32(&c);
    tag->end = flags == 0 && length == 0;
    tag->size = tag->full_size = flags & 63u;
    uint16_t padding = 0;
    if (tag->size == BLOCK || tag->size == BLOCK_COMPRESSED) {
        tag->size = walk->version == 0 ? kda_take32(&c) : kda_take64(&c);
        tag->full_size = walk->version == 0 ? kda_take32(&c) : kda_take64(&c);
        padding = kda_take16(&c);
    }
    tag->off = at + c.pos + padding;
    if (c.failed || tag->off > file_size || tag->size > file_size - tag->off)
        return damaged(err, at);
    *off = tag->off + tag->size;
    uint8_t value[8] = {0};
    if (tag->size > 0 && tag->size <= sizeof(value))
        status = kda_file_read_at(walk->file, tag->off, value, (size_t)tag->size, err);
    tag->value = kda_le64(value);
    return status;
}

static enum kda_status walk_tags(struct walk *walk, uint64_t off, uint64_t size, tag_fn fn,
                                 struct kda_error *err)
{
    uint64_t file_size = kda_file_size(walk->file), end;
    if (off > file_size)
        return damaged(err, off);
    if (size == 0 || !kda_add64(off, size, &end) || end > file_size)
        end = file_size;
    for (unsigned n = 0; off < end; n++) {
        if (n == MAX_TAGS)
            return kda_fail_at(err, KDA_LIMIT, "image", off,
                               "more than %u tags in a group of the VMware state file", MAX_TAGS);
        struct tag tag;
        enum kda_status status = read_tag(walk, &off, &tag, err);
        if (status != KDA_OK || tag.end)
            return status;
        status = fn(walk, &tag, err);
        if (status != KDA_OK)
            return status;
    }
    return KDA_OK;
}

static enum kda_status take_region(struct walk *walk, const struct tag *tag, unsigned what,
                                   struct kda_error *err)
{
    struct kda_vmware_state *state = walk->state;
    size_t index = tag->index_count ? tag->index[0] : 0;
    if (index >= MAX_REGIONS)
        return kda_fail_at(err, KDA_LIMIT, "image", tag->off,
                           "memory region %zu in the VMware state file; at most %u are taken",
                           index, MAX_REGIONS);
    if (index >= state->region_count) {
        void *items = state->regions;
        size_t old = state->region_capacity;
        if (!kda_grow(&items, &state->region_capacity, index + 1, sizeof(*state->regions),
                      MAX_REGIONS))
            return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory for memory regions");
        state->regions = items;
        memset(state->regions + old, 0, (state->region_capacity - old) * sizeof(*state->regions));
        state->region_count = index + 1;
    }
    struct kda_vmware_region *region = &state->regions[index];
    region->have |= what;
    if (what == HAVE_PPN)
        region->ppn = tag->value;
    else if (what == HAVE_PAGE)
        region->page = tag->value;
    else
        region->size = tag->value;
    return KDA_OK;
}

static enum kda_status memory_tag(struct walk *walk, const struct tag *tag, struct kda_error *err)
{
    struct kda_vmware_state *state = walk->state;
    if (strcmp(tag->name, "regionsCount") == 0)
        state->stated_regions = tag->value;
    else if (strcmp(tag->name, "regionPPN") == 0)
        return take_region(walk, tag, HAVE_PPN, err);
    else if (strcmp(tag->name, "regionPageNum") == 0)
        return take_region(walk, tag, HAVE_PAGE, err);
    else if (strcmp(tag->name, "regionSize") == 0)
        return take_region(walk, tag, HAVE_SIZE, err);
    else if (strcmp(tag->name, "Memory") == 0 && tag->size >= KDA_PAGE_SIZE &&
             state->inline_size == 0) {
        if (tag->size != tag->full_size)
            return kda_fail_at(err, KDA_UNSUPPORTED, "image", tag->off,
                               "the memory in this VMware state file is compressed; suspend the "
                               "machine again with mainMem.useNamedFile = TRUE and use the .vmem");
        state->inline_off = tag->off;
        state->inline_size = tag->size;
    }
    return KDA_OK;
}

static enum kda_status cpu_tag(struct walk *walk, const struct tag *tag, struct kda_error *err)
{
    (void)err;
    struct kda_vmware_state *state = walk->state;
    if (strcmp(tag->name, "CR64") != 0 || tag->index_count != 2 ||
        tag->index[0] >= KDA_IMAGE_MAX_CPUS || tag->size != 8)
        return KDA_OK;
    struct kda_vmware_cpu *cpu = &state->cpus[tag->index[0]];
    if (tag->index[0] >= state->cpu_count)
        state->cpu_count = tag->index[0] + (size_t)1;
    if (tag->index[1] == 0)
        cpu->cr0 = tag->value;
    else if (tag->index[1] == 3)
        cpu->cr3 = tag->value;
    else if (tag->index[1] == 4)
        cpu->cr4 = tag->value;
    return KDA_OK;
}

static enum kda_status check_regions(const struct kda_vmware_state *state, struct kda_error *err)
{
    size_t complete = 0;
    for (size_t i = 0; i < state->region_count; i++)
        complete += state->regions[i].have == HAVE_ALL;
    if (complete != state->region_count || state->stated_regions != state->region_count)
        return kda_fail(err, KDA_BAD_DATA, "image",
                        "the VMware state file names %llu memory regions, but %zu are described",
                        (unsigned long long)state->stated_regions, complete);
    return KDA_OK;
}

enum kda_status kda_vmware_read_state(struct kda_file *file, struct kda_vmware_state *ret,
                                      struct kda_error *err)
{
    uint8_t bytes[GROUP_SIZE];
    enum kda_status status = kda_file_read_at(file, 0, bytes, HEADER_SIZE, err);
    if (status != KDA_OK)
        return status;
    if (!kda_vmware_is_state(bytes, HEADER_SIZE))
        return kda_fail_at(err, KDA_BAD_DATA, "image", 0, "not a VMware state file");
    struct walk walk = {file, ret, bytes[0] & 15u};
    uint32_t groups = kda_le32(bytes + 8);
    if (groups > MAX_GROUPS)
        return kda_fail_at(err, KDA_LIMIT, "image", 8,
                           "%u groups in the VMware state file; at most %u are taken", groups,
                           MAX_GROUPS);
    bool found = false;
    for (uint32_t i = 0; i < groups && status == KDA_OK; i++) {
        status = kda_file_read_at(file, HEADER_SIZE + (uint64_t)i * GROUP_SIZE, bytes,
                                  sizeof(bytes), err);
        if (status != KDA_OK)
            return status;
        uint64_t off = kda_le64(bytes + 64), size = kda_le64(bytes + 72);
        if (memcmp(bytes, "memory", 7) == 0) {
            found = true;
            status = walk_tags(&walk, off, size, memory_tag, err);
        } else if (memcmp(bytes, "cpu", 4) == 0) {
            status = walk_tags(&walk, off, size, cpu_tag, err);
        }
    }
    if (status != KDA_OK)
        return status;
    if (!found)
        return kda_fail(err, KDA_BAD_DATA, "image",
                        "the VMware state file has no group \"memory\"");
    return check_regions(ret, err);
}
