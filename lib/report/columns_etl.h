/*
 * columns_etl.h - column tables of the rows about trace files.
 */
#ifndef KDA_REPORT_COLUMNS_ETL_H
#define KDA_REPORT_COLUMNS_ETL_H

#include "writer.h"

extern const struct kda_columns kda_trace_columns, kda_trace_session_columns, kda_trace_cpu_columns,
    kda_trace_damage_columns, kda_trace_count_columns;

#endif
