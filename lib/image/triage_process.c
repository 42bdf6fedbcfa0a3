#include "triage.h"

#include "bytes.h"
#include "text.h"

#define EPROCESS_MIN 0x100u
#define EPROCESS_MAX 0x1000u
#define NAME_SIZE 15u
/* Lowest kernel address with five-level paging; four-level ones are above it. */
#define KERNEL_HALF 0xFF00000000000000u

/* Two lists of KPROCESS that are nearly always empty and then point at themselves, which tells the
 * address of the whole: Header.WaitListHead and ProfileListHead.
 * Source: KPROCESS of all PDBs from 7601 to 26100. */
enum { WAIT_LIST = 0x08, PROFILE_LIST = 0x18 };

/* KTHREAD.ApcState.Process. Source: 0xB8 on 10240 to 26100. */
enum { THREAD_PROCESS = 0xB8 };

/* EPROCESS forms. The debugger data block in the dump names the offset of the parent id, which
 * picks the row; no build number is asked. Source: PDBs of 7601, 9600, 14393, 17763, 18362, 19041
 * (to 22631) and field offsets of 26100 checked on real dumps. */
static const struct form {
    uint16_t parent, pid, name;
} forms[] = {
    {0x290, 0x180, 0x2E0}, {0x3D0, 0x2E0, 0x438}, {0x3E0, 0x2E8, 0x450}, {0x3E0, 0x2E0, 0x450},
    {0x3E8, 0x2E8, 0x450}, {0x540, 0x440, 0x5A8}, {0x2D0, 0x1D0, 0x338},
};

/* Address that an empty list at `off` gives to its object, or 0. */
static uint64_t own_address(const uint8_t *bytes, size_t off)
{
    uint64_t next = kda_le64(bytes + off);
    if (next != kda_le64(bytes + off + 8) || next < KERNEL_HALF + off)
        return 0;
    return next - off;
}

static bool is_name(const uint8_t *bytes)
{
    size_t length = 0;
    while (length < NAME_SIZE && bytes[length] >= 0x20 && bytes[length] != 0x7F)
        length++;
    return length > 0 && (length == NAME_SIZE || bytes[length] == 0);
}

static bool is_kernel_pointer(uint64_t va)
{
    return va >= KERNEL_HALF && va % 8 == 0;
}

/* A process id is a small multiple of four, followed by the links to the process list. */
static bool fits(const struct form *form, const struct kda_triage_process *process,
                 const uint8_t *bytes, size_t size)
{
    if (form->parent != process->parent_off || (size_t)form->name + NAME_SIZE > size)
        return false;
    uint64_t pid = kda_le64(bytes + form->pid);
    return pid % 4 == 0 && pid <= UINT32_MAX &&
           is_kernel_pointer(kda_le64(bytes + form->pid + 8)) &&
           is_kernel_pointer(kda_le64(bytes + form->pid + 16)) && is_name(bytes + form->name);
}

static enum kda_status take_name(struct kda_image *image, const uint8_t *bytes,
                                 struct kda_error *err)
{
    char text[2 * NAME_SIZE + 1];
    size_t length = kda_latin1_to_utf8(bytes, NAME_SIZE, text, sizeof(text));
    char *copy = kda_arena_strndup(&image->arena, text, length);
    if (!copy)
        return kda_fail(err, KDA_NO_MEMORY, "image", "out of memory for the process name");
    image->info.process_name = copy;
    return KDA_OK;
}

/* The address is told by at least two of three witnesses, or it is not told. */
static enum kda_status take_address(struct kda_image *image,
                                    const struct kda_triage_process *process, const uint8_t *bytes,
                                    struct kda_error *err)
{
    uint64_t a = own_address(bytes, WAIT_LIST), b = own_address(bytes, PROFILE_LIST), c = 0;
    uint8_t pointer[8];
    uint64_t off = (uint64_t)process->thread_off + THREAD_PROCESS;
    if (process->thread_off != 0 && off + sizeof(pointer) <= kda_file_size(image->file)) {
        enum kda_status status = kda_file_read_at(image->file, off, pointer, sizeof(pointer), err);
        if (status != KDA_OK)
            return status;
        c = kda_le64(pointer);
    }
    if (a != 0 && (a == b || a == c))
        image->info.process_va = a;
    else if (b != 0 && b == c)
        image->info.process_va = b;
    return KDA_OK;
}

enum kda_status kda_triage_read_process(struct kda_image *image,
                                        const struct kda_triage_process *process,
                                        struct kda_error *err)
{
    uint8_t bytes[EPROCESS_MAX];
    size_t size = process->size;
    if (process->off == 0 || size < EPROCESS_MIN || size > sizeof(bytes) ||
        process->off > kda_file_size(image->file) ||
        size > kda_file_size(image->file) - process->off)
        return KDA_OK;
    enum kda_status status = kda_file_read_at(image->file, process->off, bytes, size, err);
    if (status != KDA_OK)
        return status;
    const struct form *found = NULL;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]) && !found; i++)
        if (fits(&forms[i], process, bytes, size))
            found = &forms[i];
    if (!found) {
        kda_image_warn(image, "the process stored in the dump has an unknown form; it is not "
                              "named");
        return KDA_OK;
    }
    image->info.process_pid = kda_le64(bytes + found->pid);
    image->info.has_process_pid = true;
    status = take_address(image, process, bytes, err);
    return status == KDA_OK ? take_name(image, bytes + found->name, err) : status;
}
