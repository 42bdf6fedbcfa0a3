/*
 * xpress.h - decompression of plain LZ77 (COMPRESSION_FORMAT_XPRESS).
 *
 * Source: [MS-XCA] 2.3 and 2.4; checked against streams that Windows compressed.
 */
#ifndef KDA_BASE_XPRESS_H
#define KDA_BASE_XPRESS_H

#include <stddef.h>
#include <stdint.h>

enum kda_xpress {
    KDA_XPRESS_WHOLE, /* `out` is full: what may follow in the input is not looked at */
    KDA_XPRESS_SHORT, /* the input ended first */
    KDA_XPRESS_BAD    /* a match reaches before the start, or has an impossible length */
};

/* Decompresses `in` until `out` is full. A match that is longer than the room left is cut. *written
 * (not NULL) receives the bytes of `out` that are valid, whatever is returned; bytes behind them
 * may have been changed. Takes time linear in in_size + out_size. */
enum kda_xpress kda_xpress_decompress(const void *in, size_t in_size, void *out, size_t out_size,
                                      size_t *written);

#endif
