/* sample.h - the packed real-layout images of ../shared/data, unpacked into the build folder. */
#ifndef KDA_TESTS_SAMPLE_H
#define KDA_TESTS_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>

/* Path of the unpacked image; false when it is not there or xz is not installed. */
bool sample_unpack(const char *name, char *path, size_t cap);

#endif
