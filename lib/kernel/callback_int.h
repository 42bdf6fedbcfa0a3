/*
 * callback_int.h - private to the callback files of lib/kernel: the records and how an array is
 * found without its symbol.
 */
#ifndef KDA_KERNEL_CALLBACK_INT_H
#define KDA_KERNEL_CALLBACK_INT_H

#include "internal.h"
#include "kda/callbacks.h"

/* EX_CALLBACK_ROUTINE_BLOCK: rundown protection, function, context. */
#define KDA_ROUTINE_FUNCTION 8u
#define KDA_ROUTINE_CONTEXT 16u
#define KDA_ROUTINE_SIZE 24u
#define KDA_FAST_REF_BITS ((uint64_t)15)

/* Registry callback: LIST_ENTRY, two counters, cookie, context, function, altitude. */
#define KDA_REGISTRY_COOKIE 0x18u
#define KDA_REGISTRY_CONTEXT 0x20u
#define KDA_REGISTRY_FUNCTION 0x28u
#define KDA_REGISTRY_ALTITUDE 0x30u
#define KDA_REGISTRY_SIZE 0x40u

/* Address of the notify array or registry list that the kernel's own code names and that holds
 * callbacks. KDA_ABSENT (no code names one), KDA_BAD_DATA (more than one), a gap status (the code
 * is not in the image). Drivers have to be read before. Not for object callbacks, whose lists hang
 * on exported types. */
enum kda_status kda_callback_by_code(struct kda_kernel *kernel, enum kda_callback_kind kind,
                                     uint64_t *va, struct kda_error *err);

#endif
