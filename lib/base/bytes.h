/*
 * bytes.h - little-endian loads, checked arithmetic and the bounded cursor. No C struct is ever
 * laid over file or image bytes; everything goes through here.
 */
#ifndef KDA_BASE_BYTES_H
#define KDA_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t kda_le16(const void *p)
{
    const uint8_t *b = p;
    return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t kda_le32(const void *p)
{
    const uint8_t *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t kda_le64(const void *p)
{
    const uint8_t *b = p;
    return (uint64_t)kda_le32(b) | (uint64_t)kda_le32(b + 4) << 32;
}

static inline uint32_t kda_be32(const void *p)
{
    const uint8_t *b = p;
    return (uint32_t)b[3] | (uint32_t)b[2] << 8 | (uint32_t)b[1] << 16 | (uint32_t)b[0] << 24;
}

static inline uint64_t kda_be64(const void *p)
{
    const uint8_t *b = p;
    return (uint64_t)kda_be32(b) << 32 | (uint64_t)kda_be32(b + 4);
}

static inline void kda_put_le16(void *p, uint16_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}

static inline void kda_put_le32(void *p, uint32_t v)
{
    uint8_t *b = p;
    kda_put_le16(b, (uint16_t)v);
    kda_put_le16(b + 2, (uint16_t)(v >> 16));
}

static inline void kda_put_le64(void *p, uint64_t v)
{
    uint8_t *b = p;
    kda_put_le32(b, (uint32_t)v);
    kda_put_le32(b + 4, (uint32_t)(v >> 32));
}

/* false on overflow; *ret untouched then. */
static inline bool kda_add64(uint64_t a, uint64_t b, uint64_t *ret)
{
    if (a > UINT64_MAX - b)
        return false;
    *ret = a + b;
    return true;
}

static inline bool kda_mul64(uint64_t a, uint64_t b, uint64_t *ret)
{
    if (a != 0 && b > UINT64_MAX / a)
        return false;
    *ret = a * b;
    return true;
}

/* Bounded reader over bytes: a failed take moves nothing and sets `failed`, which sticks, so a
 * parser may take several fields and test once. Failed takes give 0. */
struct kda_cursor {
    const uint8_t *base;
    size_t size;
    size_t pos;
    bool failed;
};

static inline struct kda_cursor kda_cursor_make(const void *bytes, size_t size)
{
    struct kda_cursor c = {bytes, size, 0, false};
    return c;
}

static inline size_t kda_cursor_left(const struct kda_cursor *c)
{
    return c->size - c->pos;
}

/* Pointer to the next `size` bytes, or NULL; advances. */
static inline const uint8_t *kda_take(struct kda_cursor *c, size_t size)
{
    if (c->failed || size > c->size - c->pos) {
        c->failed = true;
        return NULL;
    }
    const uint8_t *p = c->base + c->pos;
    c->pos += size;
    return p;
}

static inline bool kda_seek(struct kda_cursor *c, size_t pos)
{
    if (pos > c->size) {
        c->failed = true;
        return false;
    }
    c->pos = pos;
    return true;
}

static inline uint8_t kda_take8(struct kda_cursor *c)
{
    const uint8_t *p = kda_take(c, 1);
    return p ? p[0] : 0;
}

static inline uint16_t kda_take16(struct kda_cursor *c)
{
    const uint8_t *p = kda_take(c, 2);
    return p ? kda_le16(p) : (uint16_t)0;
}

static inline uint32_t kda_take32(struct kda_cursor *c)
{
    const uint8_t *p = kda_take(c, 4);
    return p ? kda_le32(p) : 0;
}

static inline uint64_t kda_take64(struct kda_cursor *c)
{
    const uint8_t *p = kda_take(c, 8);
    return p ? kda_le64(p) : 0;
}

/* NUL-terminated string inside the bytes, or NULL with `failed`. */
static inline const char *kda_take_cstr(struct kda_cursor *c)
{
    if (c->failed)
        return NULL;
    const uint8_t *nul = memchr(c->base + c->pos, 0, c->size - c->pos);
    if (!nul) {
        c->failed = true;
        return NULL;
    }
    const char *text = (const char *)(c->base + c->pos);
    c->pos = (size_t)(nul - c->base) + 1;
    return text;
}

#endif
