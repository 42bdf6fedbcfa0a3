/*
 * insn.h - a decoder of x64 instructions, as small as the start of ordinary functions needs.
 */
#ifndef KDA_BASE_INSN_H
#define KDA_BASE_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kda_insn {
    size_t size;          /* bytes; 0 = not decoded, the walk ends */
    bool rip;             /* has a RIP-relative operand */
    bool load64;          /* and is LEA r64, or MOV r64 from memory */
    bool lea;             /* and is LEA r64 */
    bool branch;          /* CALL or JMP with a 32-bit distance */
    int32_t displacement; /* of the operand, or of the branch: from the end of the instruction */
};

/* The instruction at `code`, of which `size` bytes are at hand. Source: Intel SDM volume 2, opcode
 * maps. */
struct kda_insn kda_insn_decode(const uint8_t *code, size_t size);

#endif
