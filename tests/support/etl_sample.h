/* etl_sample.h - records and files that the tests of trace files share. */
#ifndef KDA_TESTS_ETL_SAMPLE_H
#define KDA_TESTS_ETL_SAMPLE_H

#include "etl_writer.h"
#include "kda/etl.h"

#define ETL_T0 3594954863453u /* start_raw of etl_defaults */

/* An event whose process id is `number`; sizes differ. */
struct etl_record etl_sample_event(uint64_t time, uint32_t number);
/* Events 0 to count - 1 over several CPUs, from `time` on, with pauses of some CPUs; some times are
 * equal. Returns count. */
uint32_t etl_fill(struct etl_writer *w, uint32_t cpus, uint32_t count, uint64_t time);
/* Opens a file that is borrowed until close; ends the test if it is refused. */
struct kda_etl *etl_open_blob(const struct blob *file);

#endif
