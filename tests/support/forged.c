#include "forged.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "forge.h"

#define TEXT_MAX ((size_t)1 << 18)

static bool dropped(const char *line, const char *drop)
{
    while (drop && *drop) {
        size_t size = strcspn(drop, "|");
        if (strncmp(line, drop, size) == 0)
            return true;
        drop += size + (drop[size] == '|');
    }
    return false;
}

char *forged_text(const char *name, const char *drop, const char *add)
{
    char path[512], line[8192];
    char *text = calloc(1, TEXT_MAX);
    size_t used = 0;
    (void)snprintf(path, sizeof(path), KDA_SOURCE_DIR "/tests/images/scenarios/%s.txt", name);
    FILE *in = fopen(path, "rb");
    if (!in || !text)
        fail_msg("%s cannot be read", path);
    while (fgets(line, sizeof(line), in)) {
        size_t size = strlen(line);
        assert_true(used + size + (add ? strlen(add) : 0) + 2 < TEXT_MAX);
        if (dropped(line, drop))
            continue;
        memcpy(text + used, line, size);
        used += size;
    }
    (void)fclose(in);
    if (add)
        (void)snprintf(text + used, TEXT_MAX - used, "%s\n", add);
    return text;
}

void forged_open(struct forged *forged, const char *text, bool etw_may_fail)
{
    forged_carve(forged, text, etw_may_fail, false);
}

void forged_carve(struct forged *forged, const char *text, bool etw_may_fail, bool carve)
{
    struct kda_error err = {0};
    struct kda_kernel_options options = {.carve = carve};
    memset(forged, 0, sizeof(*forged));
    options.symbols.path = "profile";
    if (forge_build_memory(text, FORGE_RAW, &forged->bytes, &forged->size, &err) != KDA_OK)
        fail_msg("%s", err.text);
    if (kda_image_open_memory(forged->bytes, forged->size, "forged", &forged->image, &err) !=
            KDA_OK ||
        kda_kernel_open(forged->image, &options, &forged->kernel, &err) != KDA_OK ||
        kda_kernel_load_symbols(forged->kernel, &err) != KDA_OK)
        fail_msg("%s", err.text);
    if (kda_etw_map(forged->kernel, &forged->etw, &err) != KDA_OK) {
        forged->etw = NULL;
        if (!etw_may_fail)
            fail_msg("%s", err.text);
    }
}

void forged_close(struct forged *forged)
{
    kda_etw_free(forged->etw);
    kda_kernel_close(forged->kernel);
    kda_image_close(forged->image);
    free(forged->bytes);
}
