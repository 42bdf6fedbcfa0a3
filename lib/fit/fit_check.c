/*
 * fit_check.c - reads and checks of the fitting. Missing pages answer "cannot tell", never "no": an
 * address that no page table maps is a "no", since a right pointer leads somewhere.
 */
#include <string.h>

#include "fit_int.h"

/* 2000-01-01 and 2100-01-01 as FILETIME. */
#define TIME_FIRST 125911584000000000u
#define TIME_LAST 157469184000000000u
#define TEXT_CHECKED 64u /* bytes of a string that are looked at */

enum fit_answer kda_fit_read(const struct kda_fit *fit, uint64_t va, void *buf, size_t size)
{
    enum kda_status status = kda_read(fit->kernel, va, buf, size, NULL);
    return status == KDA_OK ? FIT_YES : status == KDA_UNMAPPED ? FIT_NO : FIT_UNKNOWN;
}

enum fit_answer kda_fit_u64(const struct kda_fit *fit, uint64_t va, uint64_t *ret)
{
    uint8_t bytes[8];
    enum fit_answer answer = kda_fit_read(fit, va, bytes, sizeof(bytes));
    if (answer == FIT_YES)
        *ret = kda_le64(bytes);
    return answer;
}

enum fit_answer kda_fit_u32(const struct kda_fit *fit, uint64_t va, uint32_t *ret)
{
    uint8_t bytes[4];
    enum fit_answer answer = kda_fit_read(fit, va, bytes, sizeof(bytes));
    if (answer == FIT_YES)
        *ret = kda_le32(bytes);
    return answer;
}

bool kda_fit_in_nt(const struct kda_fit *fit, uint64_t va)
{
    return va >= fit->base && va < fit->end;
}

bool kda_fit_is_pool(const struct kda_fit *fit, uint64_t va)
{
    return (va & 7) == 0 && kda_is_kernel_va(fit->kernel, va) && !kda_fit_in_nt(fit, va);
}

static enum fit_answer names(const struct kda_fit *fit, uint64_t at, uint64_t expected)
{
    uint64_t value;
    enum fit_answer answer = kda_fit_u64(fit, at, &value);
    return answer != FIT_YES ? answer : value == expected ? FIT_YES : FIT_NO;
}

enum fit_answer kda_fit_ring(const struct kda_fit *fit, uint64_t link)
{
    uint8_t bytes[16];
    enum fit_answer answer = kda_fit_read(fit, link, bytes, sizeof(bytes));
    if (answer != FIT_YES)
        return FIT_UNKNOWN; /* the object itself is missing: says nothing about the place */
    uint64_t flink = kda_le64(bytes), blink = kda_le64(bytes + 8);
    if (!kda_is_kernel_va(fit->kernel, flink) || !kda_is_kernel_va(fit->kernel, blink) ||
        ((flink | blink) & 7) != 0)
        return FIT_NO;
    enum fit_answer next = names(fit, flink + 8, link), back = names(fit, blink, link);
    /* One neighbour names the link and the other does not: a torn list, which is no other thing. */
    if (next == FIT_NO || back == FIT_NO)
        return next == FIT_YES || back == FIT_YES ? FIT_UNKNOWN : FIT_NO;
    return next == FIT_YES || back == FIT_YES ? FIT_YES : FIT_UNKNOWN;
}

static bool printable(const uint8_t *text, size_t bytes)
{
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        uint16_t c = kda_le16(text + i);
        if (c < 0x20 || c == 0x7f || c >= 0xfffe)
            return false;
    }
    return true;
}

enum fit_answer kda_fit_string(const struct kda_fit *fit, uint64_t va, bool may_be_empty)
{
    uint8_t head[16], text[TEXT_CHECKED];
    if (kda_fit_read(fit, va, head, sizeof(head)) != FIT_YES)
        return FIT_UNKNOWN;
    uint16_t length = kda_le16(head), maximum = kda_le16(head + 2);
    uint64_t buffer = kda_le64(head + 8);
    if (length == 0) {
        bool empty = buffer == 0 || kda_is_kernel_va(fit->kernel, buffer);
        return may_be_empty && empty ? FIT_UNKNOWN : FIT_NO;
    }
    if (length % 2 != 0 || length > maximum || !kda_is_kernel_va(fit->kernel, buffer) ||
        kda_le32(head + 4) > UINT16_MAX)
        return FIT_NO;
    size_t take = length < sizeof(text) ? length : sizeof(text);
    enum fit_answer answer = kda_fit_read(fit, buffer, text, take);
    return answer != FIT_YES ? answer : printable(text, take) ? FIT_YES : FIT_NO;
}

/* A fast reference to a self-relative descriptor. Source: SECURITY_DESCRIPTOR_RELATIVE, winnt.h:
 * revision 1, SE_SELF_RELATIVE 0x8000. */
enum fit_answer kda_fit_security(const struct kda_fit *fit, uint64_t va)
{
    uint64_t reference;
    uint8_t head[4];
    if (kda_fit_u64(fit, va, &reference) != FIT_YES || reference == 0)
        return FIT_UNKNOWN;
    reference &= ~(uint64_t)15;
    if (!kda_fit_is_pool(fit, reference))
        return FIT_NO;
    enum fit_answer answer = kda_fit_read(fit, reference, head, sizeof(head));
    if (answer != FIT_YES)
        return answer;
    return head[0] == 1 && (kda_le16(head + 2) & 0x8000) != 0 ? FIT_YES : FIT_NO;
}

enum fit_answer kda_fit_time(uint64_t time, bool may_be_zero)
{
    if (time == 0 && may_be_zero)
        return FIT_UNKNOWN;
    return time >= TIME_FIRST && time < TIME_LAST ? FIT_YES : FIT_NO;
}

/* Follows one direction; `next` 0 = Flink, 8 = Blink. */
static bool follow(struct kda_fit *fit, uint64_t head, unsigned next, size_t max, fit_link_fn fn,
                   void *context)
{
    uint64_t at = head, previous, slow = head;
    for (size_t i = 0; i < max; i++) {
        uint8_t link[16];
        previous = at;
        if (kda_fit_u64(fit, at + next, &at) != FIT_YES)
            return false;
        if (at == head)
            return true;
        if (!kda_is_kernel_va(fit->kernel, at) || (at & 7) != 0)
            return false;
        /* A node that does not name its predecessor is not followed: it may be anything. */
        if (kda_fit_read(fit, at, link, sizeof(link)) == FIT_YES &&
            kda_le64(link + (8 - next)) != previous)
            return false;
        fn(fit, context, at);
        /* A second walker at half the speed meets this one on any cycle without the head. */
        if (i % 2 == 1 && kda_fit_u64(fit, slow + next, &slow) == FIT_YES && slow == at)
            return false;
    }
    return false;
}

bool kda_fit_walk(struct kda_fit *fit, uint64_t head, size_t max, fit_link_fn fn, void *context)
{
    fit->head_met = 0;
    if (follow(fit, head, 0, max, fn, context))
        return true;
    (void)follow(fit, head, 8, max, fn, context);
    return false;
}

uint64_t kda_fit_met_head(struct kda_fit *fit, uint64_t link)
{
    uint64_t value;
    /* What can be read names its predecessor, or the walk would not have come here. */
    bool sure = link == fit->head_met || kda_fit_u64(fit, link, &value) == FIT_YES;
    fit->head_met = link;
    return sure ? link : 0;
}
