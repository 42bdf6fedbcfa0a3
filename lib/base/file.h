/*
 * file.h - positioned reads from a file or from bytes in memory; folders; files being written. The
 * only place of the library that talks to the operating system about files. Paths are UTF-8.
 */
#ifndef KDA_BASE_FILE_H
#define KDA_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"

struct kda_file;

/* What stands at a path, links followed. */
enum kda_path_kind { KDA_PATH_NONE, KDA_PATH_FILE, KDA_PATH_FOLDER, KDA_PATH_OTHER };
enum kda_path_kind kda_path_kind(const char *path);

/* Calls fn with the name of every entry of a folder but "." and "..", in the order of the bytes of
 * the names, until it returns false; entries after the first `max` are not looked at. Errors:
 * KDA_ABSENT (no such folder), KDA_IO, KDA_NO_MEMORY. */
typedef bool (*kda_dir_fn)(void *context, const char *name);
KDA_MUST_CHECK enum kda_status kda_dir_walk(const char *path, size_t max, kda_dir_fn fn,
                                            void *context, struct kda_error *err);

/* Where this user's programs keep what can be made again; kda_free. NULL: out of memory or, with
 * *named false, the environment names no such folder. */
char *kda_cache_folder(bool *named);

/* The last name of a path. */
const char *kda_path_name(const char *path);

/* Is it an absolute path of another system, copied from there? */
bool kda_path_is_foreign(const char *path);

/* Opens a regular file or block device for reading. Directories, pipes and sockets are refused
 * with KDA_IO and a sentence that says what was found. */
KDA_MUST_CHECK enum kda_status kda_file_open(const char *path, struct kda_file **ret,
                                             struct kda_error *err);

/* Borrows `bytes` until close. */
KDA_MUST_CHECK enum kda_status kda_file_open_memory(const void *bytes, size_t size,
                                                    const char *name, struct kda_file **ret,
                                                    struct kda_error *err);

void kda_file_close(struct kda_file *file); /* NULL is allowed */

uint64_t kda_file_size(const struct kda_file *file); /* size when opened or measured, bytes */
/* Takes the size of a file that may have grown, whatever stands at its path by now. */
KDA_MUST_CHECK enum kda_status kda_file_measure(struct kda_file *file, struct kda_error *err);
uint64_t kda_file_time(const struct kda_file *file); /* last change, FILETIME; 0 = not known */
const char *kda_file_name(const struct kda_file *file);
bool kda_file_is_memory(const struct kda_file *file);

/* All or nothing. KDA_BAD_DATA when the range is not inside the file ("ends at ..."), KDA_IO when
 * the system refuses or the file shrank. */
KDA_MUST_CHECK enum kda_status kda_file_read_at(struct kda_file *file, uint64_t off, void *buf,
                                                size_t size, struct kda_error *err);

/* Where the next byte that is not in a hole of a sparse file stands: `off` itself if there or if
 * the system does not tell, the file's size if only a hole follows. Holes read as zeros. */
uint64_t kda_file_next_data(struct kda_file *file, uint64_t off);

/* Reads a whole small file (at most max bytes, else KDA_LIMIT) into fresh memory that the caller
 * frees with kda_free. */
KDA_MUST_CHECK enum kda_status kda_file_read_all(struct kda_file *file, size_t max, void **ret,
                                                 size_t *size, struct kda_error *err);

/* Counters since open. */
uint64_t kda_file_read_calls(const struct kda_file *file);
uint64_t kda_file_read_bytes(const struct kda_file *file);

/* --- Writing. The library writes into symbol caches only. --- */

/* Removes a file; one that is not there is no error. */
void kda_file_remove(const char *path);

/* Removes a folder if it is empty; otherwise does nothing. */
void kda_dir_remove(const char *path);

/* Creates `path` and every missing folder above it. */
KDA_MUST_CHECK enum kda_status kda_dirs_create(const char *path, struct kda_error *err);

/* A file being written beside its final place. Writes append; nobody sees the final name before
 * kda_outfile_commit. */
struct kda_outfile;

/* Opens for appending, creating it if needed, and locks it: a second opener, in this process or
 * another, gets KDA_IO at once. Never follows a symbolic link. */
KDA_MUST_CHECK enum kda_status kda_outfile_open(const char *path, struct kda_outfile **ret,
                                                struct kda_error *err);
uint64_t kda_outfile_size(const struct kda_outfile *out); /* bytes now in the file */
KDA_MUST_CHECK enum kda_status kda_outfile_write(struct kda_outfile *out, const void *bytes,
                                                 size_t size, struct kda_error *err);
/* Empties the file. */
KDA_MUST_CHECK enum kda_status kda_outfile_reset(struct kda_outfile *out, struct kda_error *err);
/* Flushes to the disk and renames over `target`, atomically; `out` must still be closed. */
KDA_MUST_CHECK enum kda_status kda_outfile_commit(struct kda_outfile *out, const char *target,
                                                  struct kda_error *err);
/* NULL is allowed. `keep` false removes a file that was not committed. */
void kda_outfile_close(struct kda_outfile *out, bool keep);

#endif
