#include "dmp.h"

#include <string.h>

#include "bytes.h"

#define FILLER32 0x45474150u
#define FILLER64 0x4547415045474150u

/* More than any Windows counts; a larger number is noise. */
#define MAX_CPUS 4096u

enum {
    OFF_MAJOR = 0x08,
    OFF_BUILD = 0x0C,
    OFF_DTB = 0x10,
    OFF_MODULES = 0x20,
    OFF_PROCESSES = 0x28,
    OFF_MACHINE = 0x30,
    OFF_CPUS = 0x34,
    OFF_BUGCHECK = 0x38,
    OFF_BUGCHECK_ARGS = 0x40,
    OFF_KDBG = 0x80,
    OFF_DUMP_TYPE = 0xF98,
    OFF_SYSTEM_TIME = 0xFA8,
};

uint32_t kda_dmp_u32(const uint8_t *header, size_t off)
{
    uint32_t value = kda_le32(header + off);
    return value == FILLER32 ? 0 : value;
}

uint64_t kda_dmp_u64(const uint8_t *header, size_t off)
{
    uint64_t value = kda_le64(header + off);
    return value == FILLER64 ? 0 : value;
}

enum kda_status kda_dmp_type(const struct kda_image *image, uint32_t *type, struct kda_error *err)
{
    if (!kda_head_has(image, 0, "PAGEDU64", 8))
        return KDA_NOT_MINE;
    if (image->head_size < OFF_DUMP_TYPE + 4)
        return kda_fail(err, KDA_BAD_DATA, "image",
                        "the crash dump header is cut: %zu of %u bytes are there", image->head_size,
                        KDA_DMP_HEADER);
    *type = kda_dmp_u32(image->head, OFF_DUMP_TYPE);
    return KDA_OK;
}

enum kda_status kda_dmp_tag(struct kda_image *image, enum kda_dmp_tag *tag, struct kda_error *err)
{
    uint8_t bytes[12] = {0};
    *tag = KDA_DMP_TAG_NONE;
    if (kda_file_size(image->file) < KDA_DMP_HEADER + sizeof(bytes))
        return KDA_OK;
    enum kda_status status =
        kda_file_read_at(image->file, KDA_DMP_HEADER, bytes, sizeof(bytes), err);
    if (status != KDA_OK)
        return status;
    if (memcmp(bytes, "SDMPDUMP", 8) == 0 || memcmp(bytes, "FDMPDUMP", 8) == 0)
        *tag = KDA_DMP_TAG_BITMAP;
    else if (memcmp(bytes + 4, "RDMPDUMP", 8) == 0)
        *tag = KDA_DMP_TAG_RDMP;
    return KDA_OK;
}

static void take_facts(struct kda_image *image, const uint8_t *h)
{
    struct kda_image_info *info = &image->info;
    info->dump_type = kda_dmp_u32(h, OFF_DUMP_TYPE);
    info->major = kda_dmp_u32(h, OFF_MAJOR);
    info->build = kda_dmp_u32(h, OFF_BUILD);
    info->machine = kda_dmp_u32(h, OFF_MACHINE);
    info->cpus = kda_dmp_u32(h, OFF_CPUS);
    if (info->cpus > MAX_CPUS)
        info->cpus = 0;
    /* The low bits may hold a PCID. */
    kda_image_add_dtb(image, kda_dmp_u64(h, OFF_DTB));
    info->ps_loaded_module_list = kda_dmp_u64(h, OFF_MODULES);
    info->ps_active_process_head = kda_dmp_u64(h, OFF_PROCESSES);
    info->has_roots = info->ps_loaded_module_list != 0 && info->ps_active_process_head != 0;
    info->kd_debugger_data_block = kda_dmp_u64(h, OFF_KDBG);
    info->has_bugcheck = kda_le32(h + OFF_BUGCHECK) != FILLER32;
    info->bugcheck = kda_dmp_u32(h, OFF_BUGCHECK);
    for (size_t i = 0; i < 4; i++)
        info->bugcheck_args[i] = kda_dmp_u64(h, OFF_BUGCHECK_ARGS + 8 * i);
    info->system_time_100ns = kda_dmp_u64(h, OFF_SYSTEM_TIME);
}

/* What people are told; formats of one body differ in what wrote them. */
static const char *const titles[] = {
    [KDA_DMP_FULL] = "Windows crash dump, full (DumpType 1)",
    [KDA_DMP_SUMMARY] = "Windows crash dump, kernel (DumpType 2)",
    [KDA_DMP_TRIAGE] = "Windows triage dump (DumpType 4)",
    [KDA_DMP_BITMAP_FULL] = "Windows crash dump, bitmap (DumpType 5)",
    [KDA_DMP_BITMAP_KERNEL] = "Windows crash dump, live or automatic bitmap (DumpType 6)",
    [KDA_DMP_RDMP_KERNEL] = "Windows crash dump, kernel memory ranges (DumpType 8)",
    [KDA_DMP_RDMP_ACTIVE] = "Windows crash dump, active memory ranges (DumpType 9)",
    [KDA_DMP_RDMP_FULL] = "Windows crash dump, full memory ranges (DumpType 10)",
};

enum kda_status kda_dmp_read_header(struct kda_image *image, uint8_t header[KDA_DMP_HEADER],
                                    struct kda_error *err)
{
    uint64_t size = kda_file_size(image->file);
    if (size < KDA_DMP_HEADER)
        return kda_fail(err, KDA_BAD_DATA, "image",
                        "the crash dump header is cut: %llu of %u bytes are there",
                        (unsigned long long)size, KDA_DMP_HEADER);
    enum kda_status status = kda_file_read_at(image->file, 0, header, KDA_DMP_HEADER, err);
    if (status != KDA_OK)
        return status;
    take_facts(image, header);
    uint32_t type = image->info.dump_type;
    if (type < sizeof(titles) / sizeof(titles[0]) && titles[type])
        image->info.title = titles[type];
    return KDA_OK;
}
