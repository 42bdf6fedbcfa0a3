#include "kdbg.h"

#include "base/bytes.h"

#define TAG 0x4742444bu /* "KDBG" */

static uint64_t turn(uint64_t word, unsigned rotate)
{
    uint8_t bytes[8];
    rotate &= 63;
    kda_put_le64(bytes, rotate ? word << rotate | word >> (64 - rotate) : word);
    return kda_be64(bytes);
}

struct kda_kdbg_cipher kda_kdbg_cipher(uint64_t never, uint64_t always, uint64_t flag_va)
{
    unsigned rotate = (unsigned)(never & 63);
    return (struct kda_kdbg_cipher){rotate, turn(never, rotate) ^ turn(flag_va, 0) ^ always};
}

void kda_kdbg_apply(const struct kda_kdbg_cipher *cipher, const uint8_t *in, size_t size,
                    uint8_t *out)
{
    for (size_t i = 0; size - i >= 8; i += 8)
        kda_put_le64(out + i, turn(kda_le64(in + i), cipher->rotate) ^ cipher->key);
}

static uint32_t stated_size(uint64_t tag)
{
    uint32_t size = (uint32_t)(tag >> 32);
    bool sane = size % 8 == 0 && size >= KDA_KDBG_MIN && size <= KDA_KDBG_MAX;
    return (uint32_t)tag == TAG && sane ? size : 0;
}

uint32_t kda_kdbg_size(const uint8_t *plain, uint64_t kernel_base)
{
    return kda_le64(plain + 0x18) == kernel_base ? stated_size(kda_le64(plain + 0x10)) : 0;
}

static bool link_ok(uint64_t link, uint64_t head_va)
{
    if (head_va != 0)
        return link == head_va;
    return link >> 56 == 0xff && link % 8 == 0;
}

bool kda_kdbg_solve(const uint8_t *in, uint64_t kernel_base, uint64_t head_va,
                    struct kda_kdbg_cipher *ret)
{
    struct kda_kdbg_cipher found = {0, 0};
    unsigned solutions = 0;
    for (unsigned rotate = 0; rotate < 64; rotate++) {
        /* The fourth qword is the kernel base, so each rotation has one key; the tag with its size
         * (55 bits) and the links (128 bits, or 22 where the head is not known) are the proof. */
        uint64_t key = turn(kda_le64(in + 0x18), rotate) ^ kernel_base;
        if (stated_size(turn(kda_le64(in + 0x10), rotate) ^ key) == 0 ||
            !link_ok(turn(kda_le64(in), rotate) ^ key, head_va) ||
            !link_ok(turn(kda_le64(in + 8), rotate) ^ key, head_va))
            continue;
        found = (struct kda_kdbg_cipher){rotate, key};
        solutions++;
    }
    if (solutions != 1)
        return false;
    *ret = found;
    return true;
}

bool kda_kdbg_decode_keyless(const uint8_t *in, size_t size, uint64_t kernel_base, uint64_t head_va,
                             uint8_t *out, uint32_t *ret)
{
    struct kda_kdbg_cipher cipher;
    uint8_t head[KDA_KDBG_HEAD];
    if (size < KDA_KDBG_HEAD || !kda_kdbg_solve(in, kernel_base, head_va, &cipher))
        return false;
    kda_kdbg_apply(&cipher, in, sizeof(head), head);
    uint32_t stated = kda_kdbg_size(head, kernel_base);
    kda_kdbg_apply(&cipher, in, size < stated ? size : stated, out);
    *ret = stated;
    return true;
}
