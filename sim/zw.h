/*
 * zw.h - open files; private to sim/.
 */
#ifndef SIM_ZW_H
#define SIM_ZW_H

#include "io.h"

struct dirent;

struct file {
    FILE_OBJECT object; /* first: what the driver may see */
    struct sim_wide name;
    struct file *next; /* open files of the disk */
    char *path;
    char *pattern; /* of a listing */
    struct dirent **entries;
    int entry_count;
    int entry_next;
    int fd; /* -1: no file of the disk */
    uint32_t access;
    uint32_t share;
    bool synchronous;
    bool directory;
};

/* Host path of an NT path; *exists tells about its last part. */
NTSTATUS sim_file_path(POBJECT_ATTRIBUTES attributes, char *path, size_t room, bool *exists);
/* True: the operation fails with *status. */
bool sim_file_fails(const char *ddi, enum sim_file_op op, NTSTATUS *status);
/* The open file of a handle, with a reference; only synchronous use is simulated. */
struct file *sim_file_data(const char *ddi, HANDLE handle, HANDLE event, PIO_APC_ROUTINE apc);

#endif
