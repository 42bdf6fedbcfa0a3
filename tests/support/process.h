/* process.h - child processes and folders for tests, without a shell. */
#ifndef KDA_TESTS_PROCESS_H
#define KDA_TESTS_PROCESS_H

#include <stdbool.h>

/* Runs argv[0] (looked up in PATH) in `folder` (NULL = here) and waits. Standard output goes to the
 * file `output`, or nowhere when NULL. True if it ended with 0. */
bool run_program(const char *folder, const char *const *argv, const char *output);

/* Is there a program of this name that answers --version? */
bool have_program(const char *name);

/* Makes a folder and those above it. */
bool make_folders(const char *path);
/* Removes a file or a folder with all in it; true if it is gone. */
bool remove_tree(const char *path);

#endif
