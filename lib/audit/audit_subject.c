/*
 * audit_subject.c - what findings are about: rows of the map and their names.
 */
#include "audit.h"

#include "base/text.h"

struct kda_subject kda_subject_session(const struct kda_etw_session *session)
{
    struct kda_subject subject = {
        .object = "session",
        .name = KDA_ETW_HAS(session, S, NAME) ? session->name : NULL,
        .va = session->va,
        .silo = session->silo ? session->silo->label : NULL,
    };
    return subject;
}

static const char *name_process(struct kda_audit *audit, const void *row, const void *of)
{
    const struct kda_process *process = row;
    (void)of;
    return process->has_pid
               ? kda_audit_text(audit, "%s (%llu)", process->name, (unsigned long long)process->pid)
               : NULL;
}

struct kda_subject kda_subject_process(const struct kda_process *process)
{
    struct kda_subject subject = {
        .object = "process", .va = process->va, .name_row = name_process, .row = process};
    return subject;
}

static const char *name_consumer(struct kda_audit *audit, const void *row, const void *of)
{
    const struct kda_etw_consumer *consumer = row;
    const char *session = consumer->session && KDA_ETW_HAS(consumer->session, S, NAME)
                              ? consumer->session->name
                              : "?";
    (void)of;
    return consumer->has_pid ? kda_audit_text(audit, "%s (%llu) of %s", consumer->process,
                                              (unsigned long long)consumer->pid, session)
                             : kda_audit_text(audit, "of %s", session);
}

struct kda_subject kda_subject_consumer(const struct kda_etw_consumer *consumer)
{
    struct kda_subject subject = {
        .object = "consumer",
        .va = consumer->va,
        .silo = consumer->silo ? consumer->silo->label : NULL,
        .name_row = name_consumer,
        .row = consumer,
    };
    return subject;
}

static const char *name_provider(struct kda_audit *audit, const void *row, const void *of)
{
    const struct kda_etw_provider *provider = row;
    char guid[KDA_GUID_TEXT];
    (void)of;
    if (!provider->has_guid)
        return provider->name;
    kda_guid_text(provider->guid, guid);
    return provider->name ? kda_audit_text(audit, "%s %s", provider->name, guid)
                          : kda_audit_text(audit, "%s", guid);
}

struct kda_subject kda_subject_provider(const struct kda_etw_provider *provider)
{
    struct kda_subject subject = {
        .object = "provider",
        .va = provider->va,
        .silo = provider->silo ? provider->silo->label : NULL,
        .name_row = name_provider,
        .row = provider,
    };
    return subject;
}

static const char *name_registration(struct kda_audit *audit, const void *row, const void *of)
{
    const struct kda_etw_registration *reg = row;
    const char *provider = name_provider(audit, of, NULL);
    provider = provider ? provider : "provider";
    if (reg->has_pid)
        return kda_audit_text(audit, "%s by %s (%llu)", provider, reg->process,
                              (unsigned long long)reg->pid);
    return kda_audit_text(audit, "%s by %s", provider, reg->module ? reg->module : "unknown");
}

struct kda_subject kda_subject_registration(const struct kda_etw_provider *provider,
                                            const struct kda_etw_registration *reg)
{
    struct kda_subject subject = {
        .object = "registration",
        .va = reg->va,
        .silo = provider->silo ? provider->silo->label : NULL,
        .name_row = name_registration,
        .row = reg,
        .of = provider,
    };
    return subject;
}
