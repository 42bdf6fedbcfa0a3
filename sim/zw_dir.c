/*
 * zw_dir.c - listing a directory.
 */
#include "zw.h"

#include <dirent.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>

static bool matches(const char *pattern, const char *name)
{
    for (; *pattern && *pattern != '*'; pattern++, name++) {
        if (!*name || (*pattern != '?' && strncasecmp(pattern, name, 1) != 0))
            return false;
    }
    if (!*pattern)
        return !*name;
    for (pattern++;; name++) {
        if (matches(pattern, name))
            return true;
        if (!*name)
            return false;
    }
}

static size_t to_utf16(const char *text, uint16_t *out)
{
    const uint8_t *at = (const uint8_t *)text;
    size_t used = 0;

    while (*at) {
        uint32_t c = *at++;
        int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;
        c &= more == 3 ? 7u : more == 2 ? 15u : more == 1 ? 31u : 127u;
        for (; more > 0 && (*at & 0xC0) == 0x80; more--)
            c = c << 6 | (*at++ & 63u);
        if (c >= 0x10000) {
            out[used++] = (uint16_t)(0xD800 + ((c - 0x10000) >> 10));
            c = 0xDC00 + ((c - 0x10000) & 0x3FF);
        }
        out[used++] = (uint16_t)c;
    }
    return used;
}

static ULONG attributes_of(const struct file *f, const char *name)
{
    struct stat info;
    ULONG attributes = 0;

    if (fstatat(f->fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
        attributes |= S_ISDIR(info.st_mode) ? FILE_ATTRIBUTE_DIRECTORY : 0;
        attributes |= info.st_mode & 0222 ? 0 : FILE_ATTRIBUTE_READONLY;
    }
    return attributes ? attributes : FILE_ATTRIBUTE_NORMAL;
}

/* The first name does not fit: what is said depends on whether the caller has seen names before. */
static NTSTATUS no_room(bool first, uint8_t *buffer, ULONG length, ULONG needed,
                        PIO_STATUS_BLOCK io)
{
    const ULONG fixed = FIELD_OFFSET(FILE_DIRECTORY_INFORMATION, FileName);

    io->Information = 0;
    if (!first)
        return STATUS_SUCCESS;
    if (length < fixed)
        return STATUS_BUFFER_TOO_SMALL;
    memset(buffer, 0, fixed);
    ((FILE_DIRECTORY_INFORMATION *)(void *)buffer)->FileNameLength = needed - fixed;
    io->Information = fixed;
    return STATUS_BUFFER_OVERFLOW;
}

static NTSTATUS list_names(struct file *f, const char *pattern, bool single, bool first,
                           uint8_t *buffer, ULONG length, PIO_STATUS_BLOCK io)
{
    ULONG used = 0;
    ULONG *link = NULL;

    for (; f->entry_next < f->entry_count; f->entry_next++) {
        uint16_t name[256];
        const char *text = f->entries[f->entry_next]->d_name;
        size_t units;
        ULONG bytes;
        FILE_DIRECTORY_INFORMATION *entry;
        if (!matches(pattern, text))
            continue;
        units = to_utf16(text, name);
        used = (used + 7u) & ~7u;
        bytes = (ULONG)(FIELD_OFFSET(FILE_DIRECTORY_INFORMATION, FileName) + units * 2);
        if (used + bytes > length) {
            if (!link)
                return no_room(first, buffer, length, bytes, io);
            break;
        }
        if (link)
            *link = used - (ULONG)((uint8_t *)link - buffer);
        entry = (void *)(buffer + used);
        memset(entry, 0, sizeof(*entry));
        entry->FileAttributes = attributes_of(f, text);
        entry->FileNameLength = (ULONG)(units * 2);
        memcpy(entry->FileName, name, units * 2);
        link = &entry->NextEntryOffset;
        used += bytes;
        io->Information = used;
        if (single) {
            f->entry_next++;
            break;
        }
    }
    return link ? STATUS_SUCCESS : STATUS_NO_MORE_FILES;
}

NTSTATUS ZwQueryDirectoryFile(HANDLE file, HANDLE event, PIO_APC_ROUTINE apc, PVOID apcContext,
                              PIO_STATUS_BLOCK io, PVOID buffer, ULONG length, ULONG class_,
                              BOOLEAN single, PUNICODE_STRING pattern, BOOLEAN restart)
{
    struct sim_str text = sim_str_of(pattern);
    struct file *f;
    bool first;
    NTSTATUS status;

    sim_ddi_io(__func__, "ZW-001");
    (void)apcContext;
    SIM_CHECK(class_ == FileDirectoryInformation, "class %u is not simulated", class_);
    if (sim_file_fails(__func__, SIM_FILE_QUERY, &status))
        return status;
    f = sim_file_data(__func__, file, event, apc);
    if (!f)
        return STATUS_INVALID_HANDLE;
    io->Information = 0;
    first = !f->entries;
    if (restart)
        f->entry_next = 0;
    if (first)
        f->entry_count = scandir(f->path, &f->entries, NULL, alphasort);
    /* What is looked for is said once, with the first call. */
    if (!f->pattern)
        f->pattern = text.count ? sim_utf8(text.units, text.count) : strdup("*");
    status = f->entry_count < 0 ? STATUS_IO_DEVICE_ERROR
                                : list_names(f, f->pattern, single, first, buffer, length, io);
    if (status == STATUS_NO_MORE_FILES && first)
        status = STATUS_NO_SUCH_FILE;
    io->Status = status;
    sim_object_unref(f);
    return status;
}
