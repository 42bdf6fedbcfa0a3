#define _XOPEN_SOURCE 700

#include "symbol_server.h"

#include "process.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tiny_pdb.h"

#define GOOD_BLOCKS 64
#define SERVER_SCRIPT KDA_SOURCE_DIR "/tests/download/server.py"

static bool put_file(const char *folder, const char *name, const uint8_t *bytes, size_t size)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    bool good = fwrite(bytes, 1, size, file) == size;
    return fclose(file) == 0 && good;
}

static bool make_pdbs(struct symbol_server *server)
{
    static const uint8_t guid[16] = {0xab, 0xcd, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0xfe};
    static const uint8_t other_guid[16] = {9};
    server->id = (struct kda_kernel_id){.has_pdb = true, .pdb_name = "NtTest.pdb", .pdb_age = 0x2b};
    memcpy(server->id.pdb_guid, guid, sizeof(guid));
    server->good = tiny_pdb_make(guid, 0x2b, GOOD_BLOCKS, 1, &server->good_size);
    size_t size;
    uint8_t *other = tiny_pdb_make(other_guid, 0x2b, GOOD_BLOCKS, 2, &size);
    bool made = server->good && other &&
                put_file(server->root, "good.pdb", server->good, server->good_size) &&
                put_file(server->root, "other.pdb", other, size) &&
                put_file(server->root, "requests.log", other, 0);
    free(other);
    return made;
}

static bool spawn(struct symbol_server *server)
{
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0)
        return false;
    server->child = fork();
    if (server->child == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        (void)close(in[1]);
        (void)close(out[0]);
        (void)execlp("python3", "python3", SERVER_SCRIPT, server->root, (char *)NULL);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    server->to_child = in[1];
    (void)fcntl(server->to_child, F_SETFD, FD_CLOEXEC);
    FILE *answer = fdopen(out[0], "r");
    bool up = server->child > 0 && answer && fscanf(answer, "%d", &server->port) == 1;
    if (answer)
        (void)fclose(answer);
    return up;
}

bool symbol_server_start(struct symbol_server *server)
{
    memset(server, 0, sizeof(*server));
    server->to_child = -1;
    (void)snprintf(server->root, sizeof(server->root), "%s/download-XXXXXX", KDA_BUILD_DIR);
    return mkdtemp(server->root) && make_pdbs(server) && spawn(server);
}

void symbol_server_stop(struct symbol_server *server)
{
    if (server->to_child >= 0)
        (void)close(server->to_child);
    if (server->child > 0)
        (void)waitpid(server->child, NULL, 0);
    free(server->good);
    (void)remove_tree(server->root);
}

unsigned symbol_server_requests(const struct symbol_server *server, bool *ranged)
{
    char path[512], line[1024];
    (void)snprintf(path, sizeof(path), "%s/requests.log", server->root);
    FILE *log = fopen(path, "r");
    unsigned count = 0;
    while (log && fgets(line, sizeof(line), log)) {
        count++;
        if (ranged)
            *ranged = strstr(line, "bytes=") != NULL;
    }
    if (log)
        (void)fclose(log);
    return count;
}

static unsigned counted;

static int count_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)path;
    (void)ftw;
    if (type == FTW_F && S_ISREG(st->st_mode))
        counted++;
    return 0;
}

unsigned count_files(const char *path)
{
    counted = 0;
    (void)nftw(path, count_one, 16, FTW_PHYS);
    return counted;
}
