/*
 * fields.c - typed reads by field id.
 */
#include <string.h>

#include "internal.h"

#include "base/text.h"

bool kda_has_field(const struct kda_kernel *kernel, enum kda_field_id field)
{
    return kernel->layout && kernel->layout->field[field].offset != KDA_NONE;
}

bool kda_has_symbol(const struct kda_kernel *kernel, enum kda_symbol_id symbol)
{
    return kernel->layout && kernel->layout->rva[symbol] != KDA_NONE;
}

uint64_t kda_symbol_va(const struct kda_kernel *kernel, enum kda_symbol_id symbol)
{
    return kda_has_symbol(kernel, symbol) ? kernel->info.base + kernel->layout->rva[symbol] : 0;
}

uint32_t kda_field_offset(const struct kda_kernel *kernel, enum kda_field_id field)
{
    return kernel->layout ? kernel->layout->field[field].offset : KDA_NONE;
}

enum kda_status kda_read_field(struct kda_kernel *kernel, uint64_t object, enum kda_field_id field,
                               uint64_t *ret, struct kda_error *err)
{
    if (!kda_has_field(kernel, field))
        return err ? kda_fail(err, KDA_NO_SYMBOL, "kernel", "this build's layout has no %s",
                              kda_field_name(field))
                   : KDA_NO_SYMBOL;
    const struct kda_field *f = &kernel->layout->field[field];
    size_t size = f->size;
    /* A guess of 8 would read the neighbours of a smaller field into its value. */
    if (size == 0)
        return err ? kda_fail(err, KDA_NO_SYMBOL, "kernel", "the size of %s is not known",
                              kda_field_name(field))
                   : KDA_NO_SYMBOL;
    if (size > 8)
        return kda_fail(err, KDA_USAGE, "kernel", "%s is no integer", kda_field_name(field));
    uint8_t bytes[8] = {0};
    enum kda_status status = kda_read(kernel, object + f->offset, bytes, size, err);
    if (status != KDA_OK)
        return status;
    uint64_t value = kda_le64(bytes);
    if (f->bits != 0) {
        value >>= f->bit;
        if (f->bits < 64)
            value &= ((uint64_t)1 << f->bits) - 1;
    }
    *ret = value;
    return KDA_OK;
}

static enum kda_status room_for(const struct kda_kernel *kernel, size_t size, struct kda_error *err)
{
    size_t limit = kernel->arena.limit;
    size_t most = limit > KDA_SHORT_NAMES ? limit - KDA_SHORT_NAMES : 0;
    if (kernel->arena.used <= most && size + 16 <= most - kernel->arena.used)
        return KDA_OK;
    return kda_fail(err, KDA_LIMIT, "kernel", "the image holds more than %zu MiB of names",
                    most >> 20);
}

static enum kda_status keep_string(struct kda_kernel *kernel, const char *text, size_t size,
                                   const char **ret, struct kda_error *err)
{
    enum kda_status status = room_for(kernel, size, err);
    if (status != KDA_OK)
        return status;
    char *kept = kda_arena_strndup(&kernel->arena, text, size);
    if (!kept)
        return kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory reading a string");
    *ret = kept;
    return KDA_OK;
}

enum kda_status kda_read_string(struct kda_kernel *kernel, uint64_t string_va, size_t max_bytes,
                                const char **ret, struct kda_error *err)
{
    /* UNICODE_STRING: u16 Length, u16 MaximumLength, pointer at 8. Source: ntdef.h, all x64. */
    uint8_t head[16];
    enum kda_status status = kda_read(kernel, string_va, head, sizeof(head), err);
    if (status != KDA_OK)
        return status;
    uint16_t length = kda_le16(head), maximum = kda_le16(head + 2);
    uint64_t buffer = kda_le64(head + 8);
    if (length == 0) {
        *ret = "";
        return KDA_OK;
    }
    if (length % 2 != 0 || length > maximum || (max_bytes && length > max_bytes))
        return kda_fail_at(err, KDA_BAD_DATA, "kernel", string_va,
                           "the string at 0x%016llx says length %u of %u",
                           (unsigned long long)string_va, length, maximum);
    if (!kda_is_kernel_va(kernel, buffer))
        return kda_fail_at(err, KDA_BAD_DATA, "kernel", string_va,
                           "the string at 0x%016llx has its text at 0x%016llx, no kernel address",
                           (unsigned long long)string_va, (unsigned long long)buffer);
    /* No unit becomes less than a byte: what cannot be kept is not worth reading. */
    status = room_for(kernel, length / 2u, err);
    if (status != KDA_OK)
        return status;
    /* UTF-16 first, its UTF-8 form behind it. */
    uint8_t stack[1024 + KDA_UTF8_MAX(512) + 1];
    size_t cap = KDA_UTF8_MAX(length / 2u) + 1;
    uint8_t *text = length + cap <= sizeof(stack) ? stack : kda_calloc(length + cap, 1);
    if (!text)
        return kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory reading a string");
    status = kda_read(kernel, buffer, text, length, err);
    if (status == KDA_OK) {
        char *utf8 = (char *)text + length;
        size_t size = kda_utf16_to_utf8(text, length / 2u, true, utf8, cap);
        status = keep_string(kernel, utf8, size, ret, err);
    }
    if (text != stack)
        kda_free(text);
    return status;
}
