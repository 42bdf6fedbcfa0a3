#include "sample.h"

#include <stdio.h>

#include "process.h"

static bool is_there(const char *path)
{
    FILE *file = fopen(path, "rb");
    return file && fclose(file) == 0;
}

bool sample_unpack(const char *name, char *path, size_t cap)
{
    char packed[512], part[512];
    (void)snprintf(path, cap, KDA_BUILD_DIR "/samples/%s", name);
    if (is_there(path))
        return true;
    (void)snprintf(packed, sizeof(packed), KDA_SOURCE_DIR "/../shared/data/images/%s.xz", name);
    (void)snprintf(part, sizeof(part), "%s.part", path);
    const char *const argv[] = {"xz", "-dc", packed, NULL};
    return is_there(packed) && make_folders(KDA_BUILD_DIR "/samples") &&
           run_program(NULL, argv, part) && rename(part, path) == 0;
}
