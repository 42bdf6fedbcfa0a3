/*
 * kdbg.h - the encoding of the debugger data block, as pure functions over bytes. Private to
 * lib/kernel.
 *
 * Encoded, every qword w of the block stands for
 *     plain = bswap(rol(w ^ never, never) ^ flag_va) ^ always
 * with KiWaitNever, KiWaitAlways and the address of KdpDataBlockEncoded. Rotation and byte swap
 * move bits and change none, so both xors join into one constant:
 *     plain = bswap(rol(w, r)) ^ key,  r = never mod 64
 * That form is what a known kernel base solves without the keys. Source: docs/kernel.md.
 */
#ifndef KDA_KERNEL_KDBG_H
#define KDA_KERNEL_KDBG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KDA_KDBG_MIN 0x300u
#define KDA_KDBG_MAX 0x1000u
#define KDA_KDBG_HEAD 0x20u /* list links, tag and size, kernel base */

struct kda_kdbg_cipher {
    unsigned rotate;
    uint64_t key;
};

struct kda_kdbg_cipher kda_kdbg_cipher(uint64_t never, uint64_t always, uint64_t flag_va);

/* Decodes `size` bytes, of which a rest below 8 is left alone. `out` may be `in`. */
void kda_kdbg_apply(const struct kda_kdbg_cipher *cipher, const uint8_t *in, size_t size,
                    uint8_t *out);

/* Size that a plain block states, or 0 when the KDA_KDBG_HEAD bytes at `plain` are not the start of
 * the block of the kernel at `kernel_base`. */
uint32_t kda_kdbg_size(const uint8_t *plain, uint64_t kernel_base);

/* Solves the cipher from the KDA_KDBG_HEAD encoded bytes at `in`. True only if exactly one rotation
 * gives a block of this kernel whose list links are `head_va` (0 = not known: then they must be
 * kernel addresses). */
bool kda_kdbg_solve(const uint8_t *in, uint64_t kernel_base, uint64_t head_va,
                    struct kda_kdbg_cipher *ret);

/* Decodes a block without keys: at most `size` bytes and at most as many as the block states, which
 * *ret receives. `out` has `size` bytes and is untouched when this is no such block. */
bool kda_kdbg_decode_keyless(const uint8_t *in, size_t size, uint64_t kernel_base, uint64_t head_va,
                             uint8_t *out, uint32_t *ret);

#endif
