/*
 * control.h - the driver's protocol and settings as the tool uses them: requests to bytes, answers
 * to values, rules to texts. The only part of the tool that knows event/.
 */
#ifndef KDA_CLI_CONTROL_H
#define KDA_CLI_CONTROL_H

#include "host.h"

#define CONTROL_KINDS 64u
#define CONTROL_LOG_TEXT 39u
#define CONTROL_RULE_MAX 32767u

extern const char control_service[]; /* name of the service, and of the file without .sys */
extern const char control_device[];  /* path of the device */

struct control_version {
    uint32_t schema;
    uint32_t major, minor, patch;
};

struct control_counts {
    uint64_t offered, written, lost, filtered;
};

struct control_status {
    char log[CONTROL_LOG_TEXT]; /* "{...}" */
    uint64_t next_id, queued, file_bytes;
    uint64_t kinds; /* bit of each kind that is on */
    uint32_t write_status;
    bool writing;
    uint32_t readers, file_number;
    struct control_counts kind[CONTROL_KINDS];
};

/* "2026-11-29T21:04:05.1234567Z" */
#define CONTROL_TIME_TEXT 32u
void control_time(uint64_t time, char text[CONTROL_TIME_TEXT]);

#define CONTROL_SENSORS 8u
#define CONTROL_FAILURES 64u
#define CONTROL_TEXT 40u

struct control_failure {
    char place[CONTROL_TEXT]; /* function of the driver */
    char call[CONTROL_TEXT];  /* what it called */
    uint32_t status;
    uint64_t count, first, last; /* times: 100 ns since 1601 */
};

struct control_sensor {
    char name[CONTROL_TEXT];
    const char *state;            /* "armed", "degraded", "off", "unknown" */
    bool troubled;                /* `cause` says what led to the state */
    uint64_t since;               /* 0: not known */
    struct control_failure cause; /* place, call, status */
};

struct control_troubles {
    uint64_t total;
    size_t sensor_count, failure_count;
    struct control_sensor sensors[CONTROL_SENSORS];
    struct control_failure failures[CONTROL_FAILURES]; /* the latest first */
};

/* Each asks the open device and returns an error of the host; an answer that is not what the
 * protocol says is CONTROL_BAD_ANSWER. */
#define CONTROL_BAD_ANSWER 1306u /* ERROR_REVISION_MISMATCH */
uint32_t control_get_version(const struct host_ops *host, struct control_version *version);
uint32_t control_get_status(const struct host_ops *host, struct control_status *status);
/* CONTROL_UNKNOWN_REQUEST: an older driver, which does not tell its troubles. */
#define CONTROL_UNKNOWN_REQUEST 1u /* ERROR_INVALID_FUNCTION */
uint32_t control_get_troubles(const struct host_ops *host, struct control_troubles *troubles);
/* `*on`: bits of the kinds that are on afterwards. */
uint32_t control_set_kinds(const struct host_ops *host, uint64_t enable, uint64_t disable,
                           uint64_t *on);

/* Is it the schema that this program reads? */
bool control_schema_known(const struct control_version *version);

/* Kinds of the driver, and those that are on where nothing is set. */
uint64_t control_kinds(void);
uint64_t control_default_kinds(void);
/* "registry.value_set", "registry.*", "*", with commas between; 0: there is no such kind. */
uint64_t control_parse_kinds(const char *text, size_t size);

/* NULL: the driver will take this rule. Else what is wrong, in its words. */
const char *control_rule_problem(const char *rule);
/* Words of a command line to one rule; a value with spaces gets its quotes back. NULL: no memory.
 */
char *control_join_rule(char *const *words, size_t count);
#define CONTROL_MAX_RULES 64u
/* Rule `index` of those in force where none are set; NULL past the end. */
const char *control_default_rule(size_t index);

#endif
