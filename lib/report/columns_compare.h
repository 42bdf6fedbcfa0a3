/*
 * columns_compare.h - column tables of the rows of a comparison.
 */
#ifndef KDA_REPORT_COLUMNS_COMPARE_H
#define KDA_REPORT_COLUMNS_COMPARE_H

#include "writer.h"

extern const struct kda_columns kda_witness_columns, kda_difference_columns, kda_unmatched_columns;

#endif
