/*
 * symbol_server.h - a folder, two PDBs and a misbehaving symbol server, for the download tests.
 */
#ifndef KDA_TESTS_SYMBOL_SERVER_H
#define KDA_TESTS_SYMBOL_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kda/symbols.h"

struct symbol_server {
    char root[256]; /* holds good.pdb, other.pdb, requests.log */
    struct kda_kernel_id id;
    uint8_t *good;
    size_t good_size;
    int port;
    int to_child; /* closing it ends the server */
    int child;
};

/* False when there is no python3 or the server does not come up. */
bool symbol_server_start(struct symbol_server *server);
void symbol_server_stop(struct symbol_server *server);

/* Requests so far, and whether the newest asked for a range. */
unsigned symbol_server_requests(const struct symbol_server *server, bool *ranged);

/* Regular files below a folder. */
unsigned count_files(const char *path);

#endif
