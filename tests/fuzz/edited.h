/*
 * edited.h - a forged image and an edit script for it, so that a fuzzer starts from memory that
 * makes sense and breaks it piece by piece.
 *
 * An edit has 8 bytes: u16 page (of those in use), u16 place, u8 how, u8 size, u16 argument.
 */
#ifndef KDA_FUZZ_EDITED_H
#define KDA_FUZZ_EDITED_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "forge.h"
#include "kda/image.h"

#define EDIT 8u
#define MAX_EDITS 2000u
#define PAGE KDA_PAGE_SIZE

struct edited {
    uint8_t *bytes, *pristine;
    size_t size;
    uint32_t *used; /* pages that hold something */
    size_t used_count;
};

static inline void edited_make(struct edited *image, const char *build, const char *scenario)
{
    size_t room = strlen(scenario) + 64;
    char *text = calloc(1, room);
    struct kda_error err;
    if (!text)
        abort();
    (void)snprintf(text, room, "build %s\n%s", build, scenario);
    if (forge_build_memory(text, FORGE_RAW, &image->bytes, &image->size, &err) != KDA_OK) {
        (void)fprintf(stderr, "%s: %s\n", build, err.text);
        abort();
    }
    free(text);
    image->pristine = malloc(image->size);
    image->used = calloc(image->size / PAGE, sizeof(*image->used));
    if (!image->pristine || !image->used)
        abort();
    memcpy(image->pristine, image->bytes, image->size);
    for (uint32_t i = 0; i < image->size / PAGE; i++)
        for (size_t j = 0; j < PAGE; j++)
            if (image->bytes[(size_t)i * PAGE + j]) {
                image->used[image->used_count++] = i;
                break;
            }
}

static inline size_t edited_place(const struct edited *image, unsigned page, unsigned at)
{
    return (size_t)image->used[page % image->used_count] * PAGE + (at & (PAGE - 8));
}

static inline void edited_edit(const struct edited *image, const uint8_t *e)
{
    size_t at = edited_place(image, kda_le16(e), kda_le16(e + 2));
    uint16_t argument = kda_le16(e + 6);
    uint64_t old = kda_le64(image->bytes + at), value;
    unsigned bytes = e[5] % 8 + 1;
    switch (e[4] % 6) {
    case 0: /* a small number */
        value = argument;
        break;
    case 1: /* what stands elsewhere: pointers that lead somewhere */
        value = kda_le64(image->bytes + edited_place(image, argument, (unsigned)argument * 8));
        bytes = 8;
        break;
    case 2: /* near what it was */
        value = old + (uint64_t)(int64_t)(int16_t)argument;
        bytes = 8;
        break;
    case 3:
        value = old ^ (uint64_t)1 << argument % 64;
        bytes = 8;
        break;
    case 4:
        value = argument & 1 ? UINT64_MAX : 0;
        break;
    default:
        value = argument * 0x0001000100010001u;
        break;
    }
    for (unsigned i = 0; i < bytes; i++)
        image->bytes[at + i] = (uint8_t)(value >> (8 * i));
}

static inline size_t edited_count(size_t size)
{
    return size / EDIT < MAX_EDITS ? size / EDIT : MAX_EDITS;
}

static inline void edited_apply(const struct edited *image, const uint8_t *script, size_t size)
{
    for (size_t i = 0; i < edited_count(size); i++)
        edited_edit(image, script + i * EDIT);
}

static inline void edited_restore(const struct edited *image, const uint8_t *script, size_t size)
{
    for (size_t i = 0; i < edited_count(size); i++) {
        const uint8_t *e = script + i * EDIT;
        size_t at = edited_place(image, kda_le16(e), kda_le16(e + 2));
        memcpy(image->bytes + at, image->pristine + at, 8);
    }
}

#endif
