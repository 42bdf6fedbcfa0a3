/*
 * ELF core of a whole machine: QEMU's dump-guest-memory, libvirt's "dump --memory-only",
 * VirtualBox's dumpvmcore. PT_LOAD segments say where physical memory stands; notes hold the
 * registers of each CPU. Nothing about alignment is assumed: QEMU puts the first page at 0x480.
 */
#include "runs.h"

#include <string.h>

#include "bytes.h"

#define EHDR_SIZE 64u
#define PHDR_SIZE 56u
#define PHDRS_PER_READ 64u
#define ET_CORE 4u
#define PT_LOAD 1u
#define PT_NOTE 4u
/* e_phnum that says "the real count is sh_info of section 0". Source: ELF gABI. */
#define PN_XNUM 0xFFFFu
/* All notes together: registers of 4,096 CPUs in QEMU's form. */
#define MAX_NOTES ((uint64_t)8 << 20)

#define EM_X86_64 62u
#define EM_AARCH64 183u

#define CR0_PG 0x80000000u
#define CR4_LA57 0x1000u

/* Where a note of one CPU keeps the registers that matter here. */
struct cpu_note {
    const char *owner;
    size_t size; /* smallest note that holds them */
    size_t cs, cr0, cr3, cr4;
};

/* Source: QEMU target/i386 QEMUCPUState (version 1); VirtualBox dbgfcorefmt.h DBGFCORECPU. */
static const struct cpu_note cpu_notes[] = {
    {"QEMU", 0x1B0, 0x98, 0x188, 0x1A0, 0x1A8},
    {"VBCPU", 0x140, 0xA0, 0x120, 0x130, 0x138},
};

struct elf {
    uint64_t phoff;
    uint64_t count;
    uint64_t user_cr3[KDA_IMAGE_MAX_CPUS]; /* of CPUs that were stopped in user mode */
    size_t user_count;
    uint64_t note_bytes;     /* read so far */
    uint64_t loads, at_zero; /* PT_LOAD segments, and those with physical address 0 */
};

static enum kda_status probe(struct kda_image *image, struct kda_error *err)
{
    const uint8_t *h = image->head;
    if (!kda_head_has(image, 0,
                      "\x7f"
                      "ELF",
                      4))
        return KDA_NOT_MINE;
    if (image->head_size < EHDR_SIZE)
        return kda_fail(err, KDA_BAD_DATA, "image", "ELF header is cut: %zu of %u bytes",
                        image->head_size, EHDR_SIZE);
    if (kda_le16(h + 16) != ET_CORE)
        return KDA_NOT_MINE;
    if (h[4] != 2 || h[5] != 1)
        return kda_fail(err, KDA_UNSUPPORTED, "image",
                        "a 32-bit or big-endian ELF core; only cores of 64-bit x64 machines hold "
                        "a Windows kernel that is supported");
    return KDA_OK;
}

static enum kda_status read_header(struct kda_image *image, struct elf *elf, struct kda_error *err)
{
    const uint8_t *h = image->head;
    uint64_t size = kda_file_size(image->file);
    elf->phoff = kda_le64(h + 32);
    elf->count = kda_le16(h + 56);
    if (kda_le16(h + 54) != PHDR_SIZE)
        return kda_fail_at(err, KDA_BAD_DATA, "image", 54,
                           "ELF program headers of %u bytes; they should have %u", kda_le16(h + 54),
                           PHDR_SIZE);
    if (elf->count == PN_XNUM) {
        uint8_t info[4];
        uint64_t sections = kda_le64(h + 40), at;
        if (sections < EHDR_SIZE || !kda_add64(sections, 44, &at))
            return kda_fail_at(err, KDA_BAD_DATA, "image", 40,
                               "the count of ELF program headers should stand in section 0, but "
                               "there is none");
        enum kda_status status = kda_file_read_at(image->file, at, info, sizeof(info), err);
        if (status != KDA_OK)
            return status;
        elf->count = kda_le32(info);
    }
    if (elf->phoff > size || elf->count > (size - elf->phoff) / PHDR_SIZE)
        return kda_fail_at(err, KDA_BAD_DATA, "image", elf->phoff,
                           "%llu ELF program headers at 0x%llx do not fit in the file",
                           (unsigned long long)elf->count, (unsigned long long)elf->phoff);
    uint16_t machine = kda_le16(h + 18);
    /* QEMU writes the machine of the CPU's present mode, so EM_386 says nothing. */
    if (machine == EM_X86_64)
        image->info.machine = 0x8664;
    else if (machine == EM_AARCH64)
        image->info.machine = 0xAA64;
    return KDA_OK;
}

static void take_cpu(struct kda_image *image, struct elf *elf, const struct cpu_note *form,
                     const uint8_t *desc)
{
    image->info.cpus++;
    uint64_t cr3 = kda_le64(desc + form->cr3);
    if (!(kda_le64(desc + form->cr0) & CR0_PG))
        return; /* still in real mode: CR3 means nothing */
    if (kda_le64(desc + form->cr4) & CR4_LA57)
        image->info.la57 = true;
    /* A CPU in user mode may run on page tables that hide the kernel, so those come last. */
    if ((kda_le16(desc + form->cs) & 3) == 0)
        kda_image_add_dtb(image, cr3);
    else if (elf->user_count < KDA_IMAGE_MAX_CPUS)
        elf->user_cr3[elf->user_count++] = cr3;
}

static void walk_notes(struct kda_image *image, struct elf *elf, const uint8_t *bytes, size_t size)
{
    struct kda_cursor c = kda_cursor_make(bytes, size);
    while (kda_cursor_left(&c) >= 12) {
        uint32_t name_size = kda_take32(&c), desc_size = kda_take32(&c);
        (void)kda_take32(&c);
        const uint8_t *name = kda_take(&c, name_size);
        (void)kda_take(&c, (4 - name_size % 4) % 4);
        const uint8_t *desc = kda_take(&c, desc_size);
        if (!name || !desc)
            return;
        for (size_t i = 0; i < sizeof(cpu_notes) / sizeof(cpu_notes[0]); i++) {
            const struct cpu_note *form = &cpu_notes[i];
            size_t length = strlen(form->owner);
            if (name_size >= length && memcmp(name, form->owner, length) == 0 &&
                (name_size == length || name[length] == 0) && desc_size >= form->size)
                take_cpu(image, elf, form, desc);
        }
        (void)kda_take(&c, (4 - desc_size % 4) % 4);
    }
}

static enum kda_status read_notes(struct kda_image *image, struct elf *elf, uint64_t off,
                                  uint64_t size, struct kda_error *err)
{
    uint64_t file_size = kda_file_size(image->file);
    if (off >= file_size || size > file_size - off || size > MAX_NOTES - elf->note_bytes) {
        kda_image_warn(image,
                       "the ELF notes at 0x%llx are damaged: the CPUs' registers are not "
                       "known",
                       (unsigned long long)off);
        return KDA_OK;
    }
    elf->note_bytes += size;
    uint8_t *bytes = kda_calloc((size_t)size, 1);
    if (!bytes)
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory for ELF notes");
    enum kda_status status = kda_file_read_at(image->file, off, bytes, (size_t)size, err);
    if (status == KDA_OK)
        walk_notes(image, elf, bytes, (size_t)size);
    kda_free(bytes);
    return status;
}

static enum kda_status take_segment(struct kda_image *image, struct elf *elf, struct kda_runs *runs,
                                    const uint8_t *phdr, struct kda_error *err)
{
    uint32_t type = kda_le32(phdr);
    uint64_t off = kda_le64(phdr + 8), pa = kda_le64(phdr + 24), size = kda_le64(phdr + 32);
    if (type == PT_NOTE)
        return read_notes(image, elf, off, size, err);
    if (type != PT_LOAD || size == 0)
        return KDA_OK;
    elf->loads++;
    elf->at_zero += pa == 0;
    return kda_image_add_run(runs, pa, size, off, err);
}

static enum kda_status read_segments(struct kda_image *image, struct elf *elf,
                                     struct kda_runs *runs, struct kda_error *err)
{
    uint8_t phdrs[PHDRS_PER_READ * PHDR_SIZE];
    for (uint64_t i = 0; i < elf->count; i += PHDRS_PER_READ) {
        uint64_t left = elf->count - i;
        size_t n = left < PHDRS_PER_READ ? (size_t)left : PHDRS_PER_READ;
        enum kda_status status =
            kda_file_read_at(image->file, elf->phoff + i * PHDR_SIZE, phdrs, n * PHDR_SIZE, err);
        for (size_t k = 0; k < n && status == KDA_OK; k++)
            status = take_segment(image, elf, runs, phdrs + k * PHDR_SIZE, err);
        if (status != KDA_OK)
            return status;
    }
    return KDA_OK;
}

static enum kda_status open(struct kda_image *image, struct kda_error *err)
{
    struct elf *elf = kda_calloc(1, sizeof(*elf));
    if (!elf)
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory");
    struct kda_runs *runs;
    enum kda_status status = kda_image_new_runs(image, &runs, err);
    if (status != KDA_OK)
        goto out;
    status = read_header(image, elf, err);
    if (status != KDA_OK)
        goto out;
    status = read_segments(image, elf, runs, err);
    if (status != KDA_OK)
        goto out;
    /* Cores of processes leave the physical address out. */
    if (elf->loads > 1 && elf->at_zero == elf->loads) {
        status = kda_fail(err, KDA_UNSUPPORTED, "image",
                          "an ELF core of a process, not of a machine; it holds no kernel");
        goto out;
    }
    for (size_t i = 0; i < elf->user_count; i++)
        kda_image_add_dtb(image, elf->user_cr3[i]);
    status = kda_image_finish_runs(image, runs, err);
out:
    kda_free(elf);
    return status;
}

const struct kda_image_ops kda_fmt_elf_core = {
    .probe = probe,
    .open = open,
    .read = kda_image_runs_read,
    .next_run = kda_image_runs_next,
    .place = kda_image_runs_place,
    .close = kda_image_runs_close,
};
