/*
 * zw_path.c - the file of the host that an NT path means.
 */
#include "zw.h"

#include <dirent.h>
#include <strings.h>
#include <sys/stat.h>

#define REPARSE_POINT_ENCOUNTERED NTSTATUS_OF(0xC000050B)

static bool follows_all; /* the kernel does not know OBJ_DONT_REPARSE */

void sim_disk_follows_links(bool all)
{
    follows_all = all;
}

/* Appends the entry of `folder` that is called `name`, or `name` itself where there is none. */
static void append_part(char *folder, size_t room, const char *name, bool *exists)
{
    size_t used = strlen(folder);
    struct stat info;
    DIR *listing;

    snprintf(folder + used, room - used, "/%s", name);
    *exists = lstat(folder, &info) == 0;
    if (*exists)
        return;
    folder[used] = 0;
    listing = opendir(folder);
    if (listing) {
        const struct dirent *entry;
        while (!*exists && (entry = readdir(listing)) != NULL) {
            if (strcasecmp(entry->d_name, name) == 0) {
                snprintf(folder + used, room - used, "/%s", entry->d_name);
                *exists = true;
            }
        }
        closedir(listing);
    }
    if (!*exists)
        snprintf(folder + used, room - used, "/%s", name);
}

static bool valid_part(const char *part)
{
    return *part && strcmp(part, ".") != 0 && strcmp(part, "..") != 0 && strlen(part) <= 255 &&
           !strpbrk(part, "*?<>|\":/");
}

/* The folder that a name begins in, and what follows. The object manager's own links are links like
 * others: who wants none followed has to begin at a handle. */
static NTSTATUS begin_path(POBJECT_ATTRIBUTES attributes, char **rest_of, char *path, size_t room,
                           bool *exists)
{
    NTSTATUS status = STATUS_SUCCESS;
    char *rest = *rest_of;

    snprintf(path, room, "%s", sim_disk());
    *exists = true;
    if ((attributes->Attributes & OBJ_DONT_REPARSE) && follows_all)
        return STATUS_INVALID_PARAMETER;
    if (attributes->RootDirectory) {
        struct file *f = sim_handle_body_for(attributes->RootDirectory, SIM_TYPE_FILE, 0, &status);
        if (!f)
            return status;
        if (*rest == '\\' || !f->directory)
            status = STATUS_OBJECT_NAME_INVALID;
        else
            snprintf(path, room, "%s", f->path);
        sim_object_unref(f);
        return status;
    }
    if (attributes->Attributes & OBJ_DONT_REPARSE)
        return REPARSE_POINT_ENCOUNTERED;
    if (strncasecmp(rest, "\\??\\C:\\", 7) == 0) {
        rest += 7;
    } else if (strncasecmp(rest, "\\DosDevices\\C:\\", 15) == 0) {
        rest += 15;
    } else if (strncasecmp(rest, "\\SystemRoot\\", 12) == 0) {
        rest += 12;
        append_part(path, room, "Windows", exists);
    } else {
        status = *rest == '\\' ? STATUS_OBJECT_PATH_NOT_FOUND : STATUS_OBJECT_NAME_INVALID;
    }
    *rest_of = rest;
    return status;
}

NTSTATUS sim_file_path(POBJECT_ATTRIBUTES attributes, char *path, size_t room, bool *exists)
{
    struct sim_str text = sim_str_of(attributes->ObjectName);
    char *utf8 = sim_utf8(text.units, text.count);
    char *rest = utf8;
    struct stat info;
    char *part;
    NTSTATUS status = begin_path(attributes, &rest, path, room, exists);

    while (NT_SUCCESS(status) && rest && *rest) {
        part = rest;
        rest = strchr(rest, '\\');
        if (rest)
            *rest++ = 0;
        if (!*exists)
            status = STATUS_OBJECT_PATH_NOT_FOUND;
        else if (!valid_part(part) || strlen(path) + strlen(part) + 2 > room)
            status = STATUS_OBJECT_NAME_INVALID;
        else
            append_part(path, room, part, exists);
        if (NT_SUCCESS(status) && *exists && (attributes->Attributes & OBJ_DONT_REPARSE) &&
            lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
            status = REPARSE_POINT_ENCOUNTERED;
    }
    free(utf8);
    return status;
}
