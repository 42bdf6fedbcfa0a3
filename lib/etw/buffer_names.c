/*
 * buffer_names.c - words for where a trace buffer was found and what it is used for.
 */
#include "kda/buffers.h"

const char *kda_buffer_place_name(unsigned bit)
{
    static const char *const names[KDA_BUFFER_PLACES] = {
        "global",      "free",        "overflow",    "cpu",      "current",
        "compression", "placeholder", "undelivered", "consumer", "consumer_space"};
    return bit < KDA_BUFFER_PLACES ? names[bit] : NULL;
}

const char *kda_buffer_state_name(uint32_t state)
{
    static const char *const names[] = {
        "free", "logging", "cswitch", "flush", "pending_compression", "compressed", "placeholder"};
    return state < sizeof(names) / sizeof(names[0]) ? names[state] : NULL;
}
