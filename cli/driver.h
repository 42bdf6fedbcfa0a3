/*
 * driver.h - what the files of `kda driver` share.
 */
#ifndef KDA_CLI_DRIVER_H
#define KDA_CLI_DRIVER_H

#include "cli.h"
#include "host.h"

/* The service; HOST_NOT_INSTALLED if there is none. `image` is the caller's to free, also then. */
uint32_t driver_query(const struct cli *cli, struct host_service *service);

/* What `put` prints, to standard output or the file of -o. Returns CLI_DONE, or the exit code after
 * a message. */
int driver_print(struct cli *cli, void (*put)(FILE *to, const void *what), const void *what);

struct control_troubles;
/* A string of JSON, with its quotes. */
void driver_put_string(FILE *to, const char *text);
/* Sensors; with `all` the calls that failed, too. */
void driver_put_troubles(FILE *to, const struct control_troubles *troubles, bool all);
/* Members of an object, with a comma before them. */
void driver_put_json_troubles(FILE *to, const struct control_troubles *troubles);
/* False, and a note for each, where a sensor does not see what it is made to see. */
bool driver_sensors_whole(const struct cli *cli, const struct control_troubles *troubles);

int driver_run_status(struct cli *cli);
int driver_run_filter(struct cli *cli);

#endif
