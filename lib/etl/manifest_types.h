/*
 * manifest_types.h - names of types in manifests. Internal to lib/etl.
 */
#ifndef KDA_ETL_MANIFEST_TYPES_H
#define KDA_ETL_MANIFEST_TYPES_H

#include "template.h"

/* "win:UInt32"; KDA_IN_NULL for names that are none. */
enum kda_in_type kda_manifest_in_type(const char *name);
/* "win:HexInt32", "xs:string"; NULL and unknown names: KDA_OUT_DEFAULT. */
enum kda_out_type kda_manifest_out_type(const char *name);

#endif
