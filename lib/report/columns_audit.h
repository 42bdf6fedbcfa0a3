/*
 * columns_audit.h - column tables of the rows about callbacks and the audit.
 */
#ifndef KDA_REPORT_COLUMNS_AUDIT_H
#define KDA_REPORT_COLUMNS_AUDIT_H

#include "writer.h"

extern const struct kda_columns kda_callback_columns, kda_audit_columns, kda_unchecked_columns,
    kda_check_columns, kda_change_columns;

#endif
