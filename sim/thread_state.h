/*
 * thread_state.h - states in which a callback can find its thread, and that the driver asks for;
 * and what tests do to the objects of the driver. The tests' side, as sim.h.
 */
#ifndef SIM_THREAD_STATE_H
#define SIM_THREAD_STATE_H

#include <stdbool.h>
#include <stdint.h>

/* Of the calling host thread, until told otherwise: inside a guarded region; inside a request of
 * the file system (paging I/O). */
void sim_set_apcs_disabled(bool disabled);
void sim_set_top_level_irp(bool set);
/* Registry operations of the calling host thread are part of a transaction. */
void sim_set_transaction(bool on);
/* Somebody deletes the filter engine's n-th committed filter; false: there is none. */
bool sim_wfp_delete_filter(unsigned n);
/* Flags that all callouts of the driver have; flags that registering takes (all, until told). */
uint32_t sim_wfp_flags(void);
void sim_wfp_known_flags(uint32_t flags);
/* What the removal of each callback and callout answers from now on, `times` times, without doing
 * it. */
void sim_refuse_removal(int32_t status, unsigned times);
/* For the functions that remove: TRUE if this call is refused. */
bool sim_removal_refused(int32_t *status);
/* The next `times` calls of ExUuidCreate answer STATUS_RETRY. */
void sim_uuid_retry(unsigned times);
bool sim_uuid_refused(void);

#endif
