/*
 * advice.h - what an error of Windows means for who runs the tool, and what to do about it.
 */
#ifndef KDA_CLI_ADVICE_H
#define KDA_CLI_ADVICE_H

#include "host.h"

enum advice_about {
    ADVICE_INSTALL = 1,
    ADVICE_START = 2,
    ADVICE_STOP = 4,
    ADVICE_REMOVE = 8,
    ADVICE_SERVICE = 15, /* any of the above */
    ADVICE_DEVICE = 16,  /* open, ask, read */
    ADVICE_SETTINGS = 32,
    ADVICE_DUMP = 64,
};

/* NULL: there is nothing to add to the system's own words. */
const char *advice_for_error(enum advice_about about, uint32_t error);
/* Same for the NTSTATUS of a live dump. */
const char *advice_for_dump(uint32_t ntstatus);

/* "kda: cannot <what>: <the system's words>", and the advice on a line of its own. */
void advice_say(const struct host_ops *host, enum advice_about about, uint32_t error,
                const char *what);

#endif
