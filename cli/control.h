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

/* Each asks the open device and returns an error of the host; an answer that is not what the
 * protocol says is CONTROL_BAD_ANSWER. */
#define CONTROL_BAD_ANSWER 1306u /* ERROR_REVISION_MISMATCH */
uint32_t control_get_version(const struct host_ops *host, struct control_version *version);
uint32_t control_get_status(const struct host_ops *host, struct control_status *status);
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
