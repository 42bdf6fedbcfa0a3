/*
 * internal.h - what the files of lib/log share.
 */
#ifndef KDA_LOG_INTERNAL_H
#define KDA_LOG_INTERNAL_H

#include "kda/log.h"

/* The only version of the schema there is. */
#define KDA_LOG_SCHEMA_VERSION 1u

bool kda_log_member_is(const struct kda_log_member *member, const char *text);

/* The reader, for the verifier. */
uint64_t kda_log_bytes_total(const struct kda_log *log);
uint64_t kda_log_bytes_done(const struct kda_log *log);

#endif
