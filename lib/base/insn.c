/*
 * insn.c - a decoder of x64 instructions.
 *
 * It goes instruction by instruction, so that bytes inside an instruction are never taken for an
 * opcode; at the first byte it does not know it says so.
 */
#include "insn.h"

#include "bytes.h"

/* Bytes after the ModRM byte that address memory; SIZE_MAX when they run out. */
static size_t address_bytes(const uint8_t *modrm, size_t left, struct kda_insn *insn)
{
    unsigned mod = modrm[0] >> 6, rm = modrm[0] & 7;
    size_t used = 0;
    if (mod == 3)
        return 0;
    if (rm == 4) {
        if (left < 2)
            return SIZE_MAX;
        used = 1;
        if (mod == 0 && (modrm[1] & 7) == 5)
            return left >= 6 ? 5 : SIZE_MAX;
    } else if (mod == 0 && rm == 5) {
        if (left < 5)
            return SIZE_MAX;
        insn->rip = true;
        insn->displacement = (int32_t)kda_le32(modrm + 1);
        return 4;
    }
    used += mod == 1 ? 1u : mod == 2 ? 4u : 0u;
    return used < left ? used : SIZE_MAX;
}

/* Bytes of an immediate operand of a one-byte opcode with ModRM, or -1 for an unknown opcode. */
static int modrm_opcode(uint8_t op, bool operand16, uint8_t modrm)
{
    bool arithmetic = op < 0x40 && (op & 7) < 4;
    if (arithmetic || (op >= 0x84 && op <= 0x8b) || op == 0x8d || op == 0x63 ||
        (op >= 0xd0 && op <= 0xd3) || op == 0xfe || op == 0xff)
        return 0;
    if (op == 0x80 || op == 0x83 || op == 0xc0 || op == 0xc1 || op == 0xc6 || op == 0x6b)
        return 1;
    if (op == 0x81 || op == 0xc7 || op == 0x69)
        return operand16 ? 2 : 4;
    if (op == 0xf6)
        return (modrm & 0x38) == 0 ? 1 : 0;
    if (op == 0xf7)
        return (modrm & 0x38) != 0 ? 0 : operand16 ? 2 : 4;
    return -1;
}

/* Size of an instruction without ModRM after its opcode byte, or -1. */
static int plain_opcode(uint8_t op, bool operand16, bool wide)
{
    if ((op >= 0x50 && op <= 0x5f) || op == 0x90 || op == 0xc3 || op == 0xcc || op == 0x99 ||
        op == 0x98)
        return 0;
    if ((op >= 0x70 && op <= 0x7f) || op == 0xeb || op == 0xa8 || op == 0x6a ||
        (op >= 0xb0 && op <= 0xb7) || (op < 0x40 && (op & 7) == 4))
        return 1;
    if (op == 0xc2)
        return 2;
    if (op == 0xe8 || op == 0xe9)
        return 4;
    if (op == 0xa9 || op == 0x68 || (op < 0x40 && (op & 7) == 5))
        return operand16 ? 2 : 4;
    if (op >= 0xb8 && op <= 0xbf)
        return wide ? 8 : operand16 ? 2 : 4;
    return -1;
}

/* Two-byte opcodes that compilers use at the start of functions. */
static int escape_opcode(uint8_t op, bool *has_modrm)
{
    *has_modrm = true;
    if (op >= 0x80 && op <= 0x8f) { /* Jcc rel32 */
        *has_modrm = false;
        return 4;
    }
    if (op == 0xba)
        return 1;
    if (op == 0x1f || op == 0x1e || (op >= 0x40 && op <= 0x4f) || (op >= 0x90 && op <= 0x9f) ||
        (op >= 0xb6 && op <= 0xb7) || (op >= 0xbe && op <= 0xbf) || op == 0xa3 || op == 0xaf ||
        op == 0x10 || op == 0x11 || op == 0x28 || op == 0x29 || op == 0x57 || op == 0x0d ||
        op == 0xb1 || op == 0xc1)
        return 0;
    return -1;
}

struct kda_insn kda_insn_decode(const uint8_t *code, size_t size)
{
    struct kda_insn insn = {0};
    size_t at = 0;
    bool operand16 = false, wide = false, has_modrm = true;
    /* Prefixes: operand size, segments, repeat, lock; then REX. */
    while (at < size && (code[at] == 0x66 || code[at] == 0x65 || code[at] == 0x64 ||
                         code[at] == 0xf0 || code[at] == 0xf2 || code[at] == 0xf3)) {
        operand16 = operand16 || code[at] == 0x66;
        at++;
    }
    if (at < size && (code[at] & 0xf0) == 0x40)
        wide = (code[at++] & 8) != 0;
    if (at >= size)
        return insn;
    uint8_t op = code[at++];
    int tail;
    if (op == 0x0f) {
        tail = at < size ? escape_opcode(code[at], &has_modrm) : -1;
        at++;
    } else {
        tail = plain_opcode(op, operand16, wide);
        has_modrm = tail < 0;
        if (has_modrm)
            tail = at < size ? modrm_opcode(op, operand16, code[at]) : -1;
    }
    if (tail < 0)
        return insn;
    if (has_modrm) {
        size_t address = at < size ? address_bytes(code + at, size - at, &insn) : SIZE_MAX;
        if (address == SIZE_MAX)
            return insn;
        at += 1 + address;
    }
    at += (size_t)tail;
    if (at > size)
        return insn;
    insn.lea = insn.rip && wide && op == 0x8d;
    insn.load64 = insn.lea || (insn.rip && wide && op == 0x8b);
    insn.branch = op == 0xe8 || op == 0xe9;
    if (insn.branch)
        insn.displacement = (int32_t)kda_le32(code + at - 4);
    insn.size = at;
    return insn;
}
