/* filter.h - fwpkclnt.sys, for the injector. */
#ifndef KDA_FILTER_SHIM_H
#define KDA_FILTER_SHIM_H

#include "wfp.h"

/* FALSE where no filter leads to a callout of the layer; `anyway`: filters do not matter. */
BOOLEAN TestClassify(const FWPS_INCOMING_VALUES0 *values,
                     const FWPS_INCOMING_METADATA_VALUES0 *metadata, BOOLEAN anyway);

#endif
