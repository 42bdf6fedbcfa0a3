/*
 * live_dump.h - a live kernel dump: what is asked of Windows, and how much room it will take.
 */
#ifndef KDA_CLI_LIVE_DUMP_H
#define KDA_CLI_LIVE_DUMP_H

#include "cli.h"
#include "host.h"

/* SYSDBG_LIVEDUMP_CONTROL, version 1. Source: public descriptions of NtSystemDebugControl's class
 * 37 (docs/windows.md); Windows 8.1 and later, 64 bits. */
#define LIVE_DUMP_CONTROL_SIZE 0x40u
#define LIVE_DUMP_FILE_AT 0x28u   /* handle of the file */
#define LIVE_DUMP_CANCEL_AT 0x30u /* handle of an event that ends it */

/* Fills the block but for the handles. */
void live_dump_control(bool user_pages, bool hypervisor, uint8_t control[LIVE_DUMP_CONTROL_SIZE]);

/* Bytes that the file may have: an estimate on the safe side, since only the dump itself tells.
 * Kernel memory is the pools and a share of the machine's memory for page tables, the page-frame
 * database, stacks and images; user pages can be all of the memory. */
uint64_t live_dump_estimate(const struct host_memory *memory, bool user_pages, bool hypervisor);

/* Takes a dump into `path`, as the options of the run say. Prints what is wrong. */
int live_dump_take(struct cli *cli, const char *path);

#endif
