#define _POSIX_C_SOURCE 200809L

#include "forge.h"

#include <stdlib.h>
#include <string.h>

#include "kda/error.h"

/* kda-forge SCENARIO.txt -o IMAGE [--format NAME] [--size SIZE] [--truth OUT.json] [--add LINE] */

#define SCENARIO_MAX (1u << 20)

static const char usage[] =
    "usage: kda-forge SCENARIO.txt -o IMAGE [--format FORMAT] [--size SIZE]\n"
    "                 [--truth OUT.json] [--add LINE]...\n"
    "Builds a Windows memory image from a scenario (docs/forge.md).\n"
    "  FORMAT  raw, dmp-full, dmp-kernel, dmp-bitmap, dmp-live, dmp-rdmp, dmp-rdmp-active,\n"
    "          dmp-rdmp-full, elf, vmem (writes IMAGE and its .vmss), lime\n"
    "  SIZE    memory of the machine, like 64M or 16G\n"
    "  LINE    one more line of scenario, read after the file\n";

struct options {
    const char *scenario, *image, *truth;
    enum forge_format format;
    char extra[4096];
};

static int complain(const char *what, const char *detail)
{
    (void)fprintf(stderr, "kda-forge: %s%s\n", what, detail);
    return 2;
}

static bool add_line(struct options *o, const char *prefix, const char *line)
{
    size_t used = strlen(o->extra);
    int n = snprintf(o->extra + used, sizeof(o->extra) - used, "%s%s\n", prefix, line);
    return n >= 0 && (size_t)n < sizeof(o->extra) - used;
}

static bool take(struct options *o, const char *name, const char *value)
{
    if (strcmp(name, "-o") == 0) {
        o->image = value;
        return true;
    }
    if (strcmp(name, "--truth") == 0) {
        o->truth = value;
        return true;
    }
    if (strcmp(name, "--format") == 0)
        return forge_format_parse(value, &o->format);
    if (strcmp(name, "--size") == 0)
        return add_line(o, "size ", value);
    if (strcmp(name, "--add") == 0)
        return add_line(o, "", value);
    return false;
}

static int parse(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            (void)fputs(usage, stdout);
            return -1;
        }
        if (argv[i][0] != '-' && !o->scenario) {
            o->scenario = argv[i];
            continue;
        }
        if (i + 1 == argc || !take(o, argv[i], argv[i + 1]))
            return complain("cannot use ", argv[i]);
        i++;
    }
    if (!o->scenario || !o->image) {
        (void)fputs(usage, stderr);
        return 2;
    }
    return 0;
}

static char *read_scenario(const struct options *o)
{
    FILE *in = fopen(o->scenario, "rb");
    size_t extra = strlen(o->extra);
    char *text = in ? calloc(1, SCENARIO_MAX + extra + 2) : NULL;
    size_t size = text ? fread(text, 1, SCENARIO_MAX, in) : 0;
    bool bad = !text || ferror(in) || size == SCENARIO_MAX || strlen(text) != size;
    if (in)
        (void)fclose(in);
    if (bad) {
        free(text);
        return NULL;
    }
    text[size] = '\n';
    memcpy(text + size + 1, o->extra, extra + 1);
    return text;
}

static bool write_truth(const struct forge *forge, const char *path)
{
    FILE *out = fopen(path, "wb");
    if (!out)
        return false;
    bool good = forge_truth_json(forge, out);
    good = fclose(out) == 0 && good;
    if (!good)
        (void)remove(path);
    return good;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct kda_error err = {0};
    struct forge *forge = NULL;
    int usage_error = parse(argc, argv, &o);
    if (usage_error != 0)
        return usage_error < 0 ? 0 : usage_error;
    char *text = read_scenario(&o);
    if (!text)
        return complain("cannot read ", o.scenario);
    enum kda_status status = forge_build(text, &forge, &err);
    free(text);
    if (status == KDA_OK)
        status = forge_write(forge, o.format, o.image, &err);
    if (status != KDA_OK) {
        (void)complain("", err.text);
    } else if (o.truth && !write_truth(forge, o.truth)) {
        (void)complain("cannot write ", o.truth);
        status = KDA_IO;
    }
    forge_free(forge);
    return status == KDA_OK ? 0 : 1;
}
