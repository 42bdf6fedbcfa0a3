/* fake_fit.h - the fit of the pretended machine; a part of fake_model.h. */
#ifndef KDA_TESTS_FAKE_FIT_H
#define KDA_TESTS_FAKE_FIT_H

#include "kda/fit.h"

/* The pretended machine cannot be fitted: what is asked for is symbols. */
enum kda_status kda_etw_fit(struct kda_kernel *kernel, const struct kda_fit_options *options,
                            struct kda_fit **ret, struct kda_error *err)
{
    (void)kernel;
    (void)options;
    (void)ret;
    return kda_fail(err, KDA_NO_SYMBOL, "fit", "no ETW state was found that passes the checks");
}

enum kda_status kda_fit_install(const struct kda_fit *fit, struct kda_kernel *kernel,
                                struct kda_error *err)
{
    (void)fit;
    (void)kernel;
    (void)err;
    return KDA_OK;
}

void kda_fit_free(struct kda_fit *fit)
{
    (void)fit;
}

const struct kda_fit_info *kda_fit_info(const struct kda_fit *fit)
{
    static const struct kda_fit_info info = {.nearest = "10.0.22000.795"};
    (void)fit;
    return &info;
}

enum kda_fit_state kda_fit_field_state(const struct kda_fit *fit, enum kda_field_id field)
{
    (void)fit;
    (void)field;
    return KDA_FIT_ABSENT;
}

const char *kda_fit_anchor_name(enum kda_fit_anchor anchor)
{
    (void)anchor;
    return "debugger_data";
}

const char *kda_fit_verdict_name(enum kda_fit_verdict verdict)
{
    (void)verdict;
    return "accepted";
}

const char *kda_field_name(enum kda_field_id id)
{
    (void)id;
    return "_EPROCESS.UniqueProcessId";
}

#endif
