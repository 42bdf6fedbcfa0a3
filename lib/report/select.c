/*
 * select.c - which objects a report shows, and the loops over everything of a kind.
 */
#include "writer.h"

const struct kda_etw_enable *kda_provider_enabled_for(const struct kda_etw_provider *provider,
                                                      const struct kda_etw_session *session)
{
    for (size_t i = 0; i < KDA_ETW_ENABLE_SLOTS; i++) {
        const struct kda_etw_enable *enable = &provider->enables[i];
        if (enable->readable && enable->enabled && enable->session == session)
            return enable;
    }
    return NULL;
}

bool kda_selects_session(const struct kda_selection *selection,
                         const struct kda_etw_session *session)
{
    if (!selection)
        return true;
    if (selection->silo && session->silo != selection->silo)
        return false;
    if (!selection->sessions)
        return true;
    for (size_t i = 0; i < selection->session_count; i++)
        if (selection->sessions[i] == session)
            return true;
    return false;
}

bool kda_selects_consumer(const struct kda_selection *selection,
                          const struct kda_etw_consumer *consumer)
{
    if (!selection)
        return true;
    if (selection->silo && consumer->silo != selection->silo)
        return false;
    return !selection->sessions ||
           (consumer->session && kda_selects_session(selection, consumer->session));
}

static bool in_use(const struct kda_etw_provider *provider)
{
    if (provider->registration_count > 0 || provider->combined.enabled || !provider->readable)
        return true;
    for (size_t i = 0; i < KDA_ETW_ENABLE_SLOTS; i++)
        if (provider->enables[i].enabled)
            return true;
    return false;
}

bool kda_selects_provider(const struct kda_selection *selection,
                          const struct kda_etw_provider *provider)
{
    if (!selection)
        return in_use(provider);
    if (selection->silo && provider->silo != selection->silo)
        return false;
    if (selection->providers) {
        bool named = false;
        for (size_t i = 0; i < selection->provider_count && !named; i++)
            named = selection->providers[i] == provider;
        if (!named)
            return false;
    }
    if (selection->sessions) {
        for (size_t i = 0; i < selection->session_count; i++)
            if (kda_provider_enabled_for(provider, selection->sessions[i]))
                return true;
        return false;
    }
    return selection->all || selection->providers || in_use(provider);
}

void kda_report_sessions(struct kda_report *report, const struct kda_etw *etw,
                         const struct kda_selection *selection)
{
    size_t count;
    const struct kda_etw_session *const *sessions = kda_etw_sessions(etw, &count);
    for (size_t i = 0; i < count && !kda_report_failed(report); i++)
        if (kda_selects_session(selection, sessions[i]))
            kda_report_session(report, sessions[i]);
}

void kda_report_consumers(struct kda_report *report, const struct kda_etw *etw,
                          const struct kda_selection *selection)
{
    size_t count;
    const struct kda_etw_consumer *const *consumers = kda_etw_consumers(etw, &count);
    for (size_t i = 0; i < count && !kda_report_failed(report); i++)
        if (kda_selects_consumer(selection, consumers[i]))
            kda_report_consumer(report, consumers[i]);
}

void kda_report_providers(struct kda_report *report, const struct kda_etw *etw,
                          const struct kda_selection *selection)
{
    size_t count;
    const struct kda_etw_provider *const *providers = kda_etw_providers(etw, &count);
    for (size_t i = 0; i < count && !kda_report_failed(report); i++)
        if (kda_selects_provider(selection, providers[i]))
            kda_report_provider(report, providers[i]);
}

void kda_report_processes(struct kda_report *report, const struct kda_process *processes,
                          size_t count, const struct kda_etw *etw,
                          const struct kda_selection *selection)
{
    for (size_t i = 0; i < count && !kda_report_failed(report); i++) {
        const struct kda_process *process = &processes[i];
        const struct kda_etw_silo *silo = etw ? kda_etw_silo_of_process(etw, process) : NULL;
        if (selection && selection->silo && silo != selection->silo)
            continue;
        kda_report_process(report, process, silo ? silo->label : NULL);
    }
}
