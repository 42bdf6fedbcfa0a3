/*
 * file_os.h - what file.c asks of the operating system about files that are read. file_posix.c and
 * file_win.c answer; the build takes one of them. Each also holds the part of file.h that is all
 * system: folders and files that are written.
 *
 * Paths are UTF-8 everywhere. '/' separates folders on every system; '\' does too on Windows.
 */
#ifndef KDA_BASE_FILE_OS_H
#define KDA_BASE_FILE_OS_H

#include "file.h"

#define KDA_NO_HANDLE ((intptr_t)-1)

struct kda_opened {
    intptr_t handle; /* KDA_NO_HANDLE where the open failed */
    uint64_t size;
    uint64_t time_100ns; /* of the last change, FILETIME; 0 = not known */
};

/* Opens a regular file or a disk. After a failure `opened->handle` may be valid: it is to be closed
 * all the same. */
KDA_MUST_CHECK enum kda_status kda_os_open(const char *path, struct kda_opened *opened,
                                           struct kda_error *err);
void kda_os_close(intptr_t handle);

/* The size by now; that of a disk stays as it was. */
KDA_MUST_CHECK enum kda_status kda_os_measure(intptr_t handle, const char *name, uint64_t *size,
                                              struct kda_error *err);

/* Reads all `size` bytes, which are inside the file as it was when opened. `name` is for errors. */
KDA_MUST_CHECK enum kda_status kda_os_read(intptr_t handle, const char *name, uint64_t off,
                                           void *buf, size_t size, struct kda_error *err);

/* As kda_file_next_data; `off` is below `size`. */
uint64_t kda_os_next_data(intptr_t handle, uint64_t off, uint64_t size);

/* Names of the entries of a folder, as they come. Names are given to `add` until it returns false.
 */
KDA_MUST_CHECK enum kda_status kda_os_list(const char *path, kda_dir_fn add, void *context,
                                           struct kda_error *err);

#endif
