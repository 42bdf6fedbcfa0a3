/*
 * columns_log.h - column tables of the rows about logs.
 */
#ifndef KDA_REPORT_COLUMNS_LOG_H
#define KDA_REPORT_COLUMNS_LOG_H

#include "writer.h"

extern const struct kda_columns kda_event_columns, kda_log_columns, kda_account_columns,
    kda_finding_columns, kda_count_columns;

#endif
