/* Names and small helpers over the id lists of kda/fields.h. */
#include "handle.h"

#define KDA_X(id) #id,
static const char *const symbol_names[] = {KDA_SYMBOLS(KDA_X)};
#undef KDA_X

#define KDA_X(id) "_" #id,
static const char *const struct_names[] = {KDA_STRUCTS(KDA_X)};
#undef KDA_X

#define KDA_X(type, name) "_" #type "." #name,
static const char *const field_names[] = {KDA_FIELDS(KDA_X)};
#undef KDA_X

#define KDA_X(type, name) (uint8_t) KDA_STRUCT_##type,
static const uint8_t field_structs[] = {KDA_FIELDS(KDA_X)};
#undef KDA_X

_Static_assert(KDA_STRUCT_COUNT <= UINT8_MAX, "field_structs holds bytes");

const char *kda_symbol_name(enum kda_symbol_id id)
{
    return symbol_names[id];
}

const char *kda_struct_name(enum kda_struct_id id)
{
    return struct_names[id];
}

const char *kda_field_name(enum kda_field_id id)
{
    return field_names[id];
}

enum kda_struct_id kda_field_struct(enum kda_field_id id)
{
    return (enum kda_struct_id)field_structs[id];
}

void kda_layout_clear(struct kda_layout *layout)
{
    for (size_t i = 0; i < KDA_SYM_COUNT; i++)
        layout->rva[i] = KDA_NONE;
    for (size_t i = 0; i < KDA_STRUCT_COUNT; i++)
        layout->size[i] = KDA_NONE;
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
        layout->field[i] = (struct kda_field){KDA_NONE, 0, 0, 0};
}

uint16_t kda_bit_unit(unsigned bit, unsigned bits)
{
    if (bits == 0 || bit > 64 || bits > 64 - bit)
        return 0;
    for (uint16_t size = 1; size <= 8; size = (uint16_t)(size * 2)) {
        if (bit + bits <= size * 8u)
            return size;
    }
    return 0;
}

void kda_field_set(struct kda_field *field, uint64_t offset, uint64_t size)
{
    if (offset >= KDA_NONE)
        return;
    *field = (struct kda_field){(uint32_t)offset, size <= UINT16_MAX ? (uint16_t)size : 0, 0, 0};
}

void kda_field_set_bits(struct kda_field *field, uint64_t offset, unsigned bit, unsigned bits)
{
    uint16_t unit = kda_bit_unit(bit, bits);
    if (offset >= KDA_NONE || unit == 0)
        return;
    *field = (struct kda_field){(uint32_t)offset, unit, (uint8_t)bit, (uint8_t)bits};
}
