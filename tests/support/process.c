#define _XOPEN_SOURCE 700

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

bool run_program(const char *folder, const char *const *argv, const char *output)
{
    pid_t child = fork();
    if (child == 0) {
        int out = open(output ? output : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || (folder && chdir(folder) != 0))
            _exit(126);
        (void)execvp(argv[0], (char *const *)(const void *)argv);
        _exit(127);
    }
    int status;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

bool have_program(const char *name)
{
    const char *const argv[] = {name, "--version", NULL};
    return run_program(NULL, argv, NULL);
}

bool make_folders(const char *path)
{
    char part[1024];
    size_t length = strlen(path);
    if (length >= sizeof(part))
        return false;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return false;
    }
    return true;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

bool remove_tree(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return access(path, F_OK) != 0;
}
