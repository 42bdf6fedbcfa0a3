/*
 * fit_machine.h - forged machines seen with their true layout and without any, for the tests of the
 * fit. Included by one file of a test program.
 */
#ifndef KDA_TESTS_FIT_MACHINE_H
#define KDA_TESTS_FIT_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kda/etw.h"
#include "kda/fit.h"

#include "forge.h"

#define SCENARIOS KDA_SOURCE_DIR "/tests/images/scenarios/"

struct machine {
    struct forge *forge;
    uint8_t *bytes;
    size_t size;
};

struct view {
    struct kda_image *image;
    struct kda_kernel *kernel;
    struct kda_fit *fit; /* NULL for the true layout */
    struct kda_etw *etw;
};

/* The scenario file with its build replaced and lines added. */
char *scenario(const char *name, const char *build, const char *extra)
{
    char path[512];
    (void)snprintf(path, sizeof(path), SCENARIOS "%s.txt", name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    size_t cap = 1 << 20, used = 0;
    char *text = calloc(1, cap), line[4096];
    assert_non_null(text);
    while (fgets(line, sizeof(line), in)) {
        bool skip = build && (strncmp(line, "build ", 6) == 0 || strncmp(line, "rvas ", 5) == 0);
        if (strncmp(line, "kdbg ", 5) == 0 && strstr(extra, "kdbg "))
            skip = true;
        if (!skip)
            used += (size_t)snprintf(text + used, cap - used, "%s", line);
    }
    (void)fclose(in);
    if (build)
        used += (size_t)snprintf(text + used, cap - used, "\nbuild %s\n", build);
    (void)snprintf(text + used, cap - used, "\n%s\n", extra);
    return text;
}

void make(struct machine *m, const char *name, const char *build, const char *extra,
          enum forge_format format)
{
    struct kda_error err = {0};
    char *text = scenario(name, build, extra);
    enum kda_status status = forge_build(text, &m->forge, &err);
    if (status == KDA_OK)
        status = forge_write_memory(m->forge, format, &m->bytes, &m->size, &err);
    if (status != KDA_OK)
        fail_msg("%s %s: %s", name, build ? build : "", err.text);
    free(text);
}

void unmake(struct machine *m)
{
    forge_free(m->forge);
    free(m->bytes);
}

void look(struct view *v, const struct machine *m)
{
    struct kda_error err = {0};
    memset(v, 0, sizeof(*v));
    assert_int_equal(kda_image_open_memory(m->bytes, m->size, "forged", &v->image, &err), KDA_OK);
    if (kda_kernel_open(v->image, NULL, &v->kernel, &err) != KDA_OK)
        fail_msg("%s", err.text);
}

/* Rows of published headers lack sizes and bits; the generator writes those fields as the last
 * build with symbols has them. */
struct kda_layout *true_layout(const struct machine *m)
{
    struct kda_layout *layout = calloc(2, sizeof(*layout));
    assert_non_null(layout);
    *layout = *forge_layout(m->forge);
    for (size_t i = 0; i < kda_profile_count(); i++) {
        struct kda_profile_info info;
        kda_profile_get(i, &info);
        if (strcmp(info.version, "10.0.22000.2538") == 0)
            kda_profile_layout(i, layout + 1);
    }
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        enum kda_struct_id type = kda_field_struct((enum kda_field_id)i);
        struct kda_field *to = &layout->field[i], *from = &layout[1].field[i];
        if (to->offset == KDA_NONE &&
            (type == KDA_STRUCT_ETW_REG_ENTRY || type == KDA_STRUCT_HANDLE_TABLE_ENTRY ||
             type == KDA_STRUCT_ETW_REALTIME_CONSUMER || type == KDA_STRUCT_ETW_FILTER_HEADER))
            *to = *from;
        if (to->size == 0)
            *to = (struct kda_field){to->offset, from->size, from->bit, from->bits};
    }
    return layout;
}

void look_with_symbols(struct view *v, const struct machine *m)
{
    struct kda_error err = {0};
    struct kda_symbols *symbols;
    struct kda_layout *layout = true_layout(m);
    look(v, m);
    assert_int_equal(kda_symbols_create(layout, "forge", "forge", NULL, &symbols, &err), KDA_OK);
    free(layout);
    assert_int_equal(kda_kernel_use_layout(v->kernel, symbols, NULL, &err), KDA_OK);
    if (kda_etw_map(v->kernel, &v->etw, &err) != KDA_OK)
        fail_msg("true layout: %s", err.text);
}

enum kda_status look_fitted(struct view *v, const struct machine *m,
                            const struct kda_fit_options *options, struct kda_error *err)
{
    look(v, m);
    enum kda_status status = kda_etw_fit(v->kernel, options, &v->fit, err);
    if (status == KDA_OK)
        status = kda_fit_install(v->fit, v->kernel, err);
    if (status == KDA_OK)
        status = kda_etw_map(v->kernel, &v->etw, err);
    return status;
}

enum kda_status look_without(struct view *v, const struct machine *m, struct kda_error *err)
{
    struct kda_fit_options options = {.no_profile = true};
    return look_fitted(v, m, &options, err);
}

void close_view(struct view *v)
{
    kda_etw_free(v->etw);
    kda_fit_free(v->fit);
    kda_kernel_close(v->kernel);
    kda_image_close(v->image);
}

/* ---- comparison: `a` is the truth, `b` may know less, never something else ---- */

const char *current = "";

/* The end of the logger context, which servicing moved: no check touches these fields, and no value
 * comes of them. */
bool nothing_reads(enum kda_field_id field)
{
    switch (field) {
    case KDA_F_WMI_LOGGER_CONTEXT_WinRtProviderBinaryList:
    case KDA_F_WMI_LOGGER_CONTEXT_BinaryTrackingList:
    case KDA_F_WMI_LOGGER_CONTEXT_Flags2:
    case KDA_F_WMI_LOGGER_CONTEXT_RequestFlag:
    case KDA_F_WMI_LOGGER_CONTEXT_HookIdMap:
    case KDA_F_WMI_LOGGER_CONTEXT_StackHookIdMap:
    case KDA_F_WMI_LOGGER_CONTEXT_DisallowedGuids:
    case KDA_F_WMI_LOGGER_CONTEXT_CallbackContext:
    case KDA_F_WMI_LOGGER_CONTEXT_LastBufferSwitchTime:
        return true;
    default:
        return false;
    }
}

void compare_layout(const struct machine *m, const struct kda_fit *fit)
{
    const struct kda_layout *truth = forge_layout(m->forge), *found = kda_fit_layout(fit);
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        uint32_t is = truth->field[i].offset, says = found->field[i].offset;
        if (nothing_reads((enum kda_field_id)i))
            continue;
        if (says != KDA_NONE && is != KDA_NONE && is != says)
            fail_msg("%s: %s is at 0x%x, not 0x%x (%s)", current,
                     kda_field_name((enum kda_field_id)i), says, is,
                     kda_fit_state_name(kda_fit_field_state(fit, (enum kda_field_id)i)));
    }
    for (size_t i = 0; i < KDA_SYM_COUNT; i++)
        if (found->rva[i] != KDA_NONE && truth->rva[i] != KDA_NONE &&
            found->rva[i] != truth->rva[i])
            fail_msg("%s: %s is at 0x%x, not 0x%x", current, kda_symbol_name((enum kda_symbol_id)i),
                     found->rva[i], truth->rva[i]);
}

/* Where the byte at a kernel address stands in the image; for changing it. */
uint8_t *at_va(const struct machine *m, uint64_t va)
{
    struct view v;
    uint64_t pa = 0;
    look(&v, m);
    assert_int_equal(kda_translate(v.kernel, kda_kernel_info(v.kernel)->dtb, va, &pa, NULL),
                     KDA_OK);
    close_view(&v);
    assert_true(pa + 8 <= m->size);
    return m->bytes + pa;
}

#endif
