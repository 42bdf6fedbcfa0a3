/*
 * audit_system.c - checks of what the silo state says about system loggers and the security
 * provider.
 */
#include "audit.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

#define SYSTEM_LOGGERS 8u
#define MASK_WORDS 8u
#define MASK_SIZE (MASK_WORDS * 4)
#define MODE_SYSTEM_LOGGER 0x02000000u
#define SECURITY_LOGGERS 8u

/* What is known of a silo's system loggers. */
struct settings {
    uint64_t va; /* of the block, or of the globals' first */
    uint64_t loggers_va, active_va, masks_va, global_va;
    uint8_t loggers[SYSTEM_LOGGERS];
    uint32_t active;
    uint32_t masks[SYSTEM_LOGGERS][MASK_WORDS];
    bool has_global;
    uint32_t global[MASK_WORDS];
};

static bool read_masks(struct kda_audit *audit, uint64_t va, uint32_t *words, size_t count)
{
    uint8_t bytes[SYSTEM_LOGGERS * MASK_SIZE];
    if (kda_read(audit->kernel, va, bytes, count * 4, NULL) != KDA_OK)
        return false;
    for (size_t i = 0; i < count; i++)
        words[i] = kda_le32(bytes + i * 4);
    return true;
}

/* From 17763 on: one block in the silo state, logger id and clock in a byte each. */
static const char *read_block(struct kda_audit *audit, const struct kda_etw_silo *silo,
                              struct settings *ret)
{
    uint8_t ids[SYSTEM_LOGGERS * 2];
    ret->va = kda_audit_member(audit, silo->state, KDA_F_ETW_SILODRIVERSTATE_SystemLoggerSettings);
    ret->loggers_va =
        kda_audit_member(audit, ret->va, KDA_F_ETW_SYSTEM_LOGGER_SETTINGS_EtwpSystemLogger);
    ret->active_va =
        kda_audit_member(audit, ret->va, KDA_F_ETW_SYSTEM_LOGGER_SETTINGS_EtwpActiveSystemLoggers);
    ret->global_va =
        kda_audit_member(audit, ret->va, KDA_F_ETW_SYSTEM_LOGGER_SETTINGS_SiloGlobalGroupMask);
    ret->masks_va =
        kda_audit_member(audit, ret->va, KDA_F_ETW_SYSTEM_LOGGER_SETTINGS_EtwpGroupMasks);
    if (!ret->loggers_va || !ret->active_va || !ret->global_va || !ret->masks_va)
        return "this build's layout lacks a part of the block";
    if (kda_read(audit->kernel, ret->loggers_va, ids, sizeof(ids), NULL) != KDA_OK ||
        !read_masks(audit, ret->active_va, &ret->active, 1) ||
        !read_masks(audit, ret->global_va, ret->global, MASK_WORDS) ||
        !read_masks(audit, ret->masks_va, &ret->masks[0][0], SYSTEM_LOGGERS * MASK_WORDS))
        return "the system logger settings are not in the image";
    for (unsigned i = 0; i < SYSTEM_LOGGERS; i++)
        ret->loggers[i] = ids[i * 2u];
    ret->has_global = true;
    return NULL;
}

/* 14393: globals, logger ids in a word each; the host only. */
static const char *read_globals(struct kda_audit *audit, struct settings *ret)
{
    uint32_t ids[SYSTEM_LOGGERS];
    ret->va = ret->loggers_va = kda_symbol_va(audit->kernel, KDA_SYM_EtwpSystemLogger);
    ret->active_va = kda_symbol_va(audit->kernel, KDA_SYM_EtwpActiveSystemLoggers);
    ret->masks_va = kda_symbol_va(audit->kernel, KDA_SYM_EtwpGroupMasks);
    if (!ret->loggers_va || !ret->active_va || !ret->masks_va)
        return "this build keeps its system loggers in a form that is not known";
    if (!read_masks(audit, ret->loggers_va, ids, SYSTEM_LOGGERS) ||
        !read_masks(audit, ret->active_va, &ret->active, 1) ||
        !read_masks(audit, ret->masks_va, &ret->masks[0][0], SYSTEM_LOGGERS * MASK_WORDS))
        return "the system logger globals are not in the image";
    for (unsigned i = 0; i < SYSTEM_LOGGERS; i++)
        ret->loggers[i] = (uint8_t)ids[i];
    return NULL;
}

static bool all_zero(const struct settings *settings)
{
    uint32_t any = settings->active;
    for (unsigned i = 0; i < SYSTEM_LOGGERS; i++) {
        any |= settings->loggers[i];
        for (unsigned w = 0; w < MASK_WORDS; w++)
            any |= settings->masks[i][w] | (settings->has_global ? settings->global[w] : 0);
    }
    return any == 0;
}

/* Sessions of the silo that call themselves system loggers. */
static size_t system_sessions(const struct kda_audit *audit, const struct kda_etw_silo *silo)
{
    size_t count, sum = 0;
    const struct kda_etw_session *const *sessions = kda_etw_sessions(audit->etw, &count);
    for (size_t i = 0; i < count; i++)
        sum += sessions[i]->silo == silo && KDA_ETW_HAS(sessions[i], S, MODE) &&
               (sessions[i]->mode & MODE_SYSTEM_LOGGER);
    return sum;
}

/* NULL, or why the silo's settings are not checked. *none: it has no system logger, and says so. */
static const char *read_settings(struct kda_audit *audit, const struct kda_etw_silo *silo,
                                 struct settings *ret, bool *none)
{
    memset(ret, 0, sizeof(*ret));
    *none = false;
    const char *why;
    if (kda_has_field(audit->kernel, KDA_F_ETW_SILODRIVERSTATE_SystemLoggerSettings))
        why = read_block(audit, silo, ret);
    else if (silo->host)
        why = read_globals(audit, ret);
    else
        return NULL; /* the globals are the host's */
    if (why || !all_zero(ret))
        return why;
    *none = true;
    return system_sessions(audit, silo) ? "the settings block is all zero in this image" : NULL;
}

typedef void (*settings_fn)(struct kda_audit *audit, const struct kda_etw_silo *silo,
                            const struct settings *settings, const struct kda_subject *subject);

static void each_silo(struct kda_audit *audit, settings_fn fn)
{
    size_t count;
    if (kda_audit_no_model(audit))
        return;
    const struct kda_etw_silo *silos = kda_etw_silos(audit->etw, &count);
    for (size_t i = 0; i < count; i++) {
        struct settings settings;
        struct kda_subject subject =
            kda_subject_of("silo", silos[i].label, silos[i].state, silos[i].label);
        bool none;
        kda_audit_examined(audit);
        const char *why = read_settings(audit, &silos[i], &settings, &none);
        if (why)
            kda_audit_open(audit, &subject, "%s", why);
        else if (!none && settings.va)
            fn(audit, &silos[i], &settings, &subject);
    }
}

static const struct kda_etw_session *session_at(const struct kda_audit *audit,
                                                const struct kda_etw_silo *silo, uint32_t slot)
{
    size_t count;
    const struct kda_etw_session *const *sessions = kda_etw_sessions(audit->etw, &count);
    for (size_t i = 0; i < count; i++)
        if (sessions[i]->silo == silo && sessions[i]->id == slot)
            return sessions[i];
    return NULL;
}

/* ---- loggers ---- */

static void active_logger(struct kda_audit *audit, const struct kda_etw_silo *silo,
                          const struct settings *settings, unsigned index)
{
    const struct kda_etw_session *session = session_at(audit, silo, settings->loggers[index]);
    struct kda_subject subject =
        kda_subject_of("system_logger", kda_audit_text(audit, "index %u", index),
                       settings->loggers_va, silo->label);
    if (!session) {
        if (kda_audit_has_gap(audit, "sessions") || kda_audit_has_gap(audit, "session_slot")) {
            kda_audit_open(audit, &subject, "the logger array is not whole");
            return;
        }
        kda_audit_finding(audit, KDA_SEVERITY_HIGH, &subject,
                          "system logger %u is active and names session %u, which does not exist",
                          index, settings->loggers[index]);
        kda_audit_about_slot(audit, silo, settings->loggers[index]);
    } else if (!KDA_ETW_HAS(session, S, MODE)) {
        kda_audit_open(audit, &subject, "the mode of its session (slot %u) cannot be read",
                       session->id);
        return;
    } else if (!(session->mode & MODE_SYSTEM_LOGGER)) {
        kda_audit_finding(audit, KDA_SEVERITY_HIGH, &subject,
                          "system logger %u is active and names session %u, which is none", index,
                          settings->loggers[index]);
        kda_audit_hex(audit, "LoggerMode",
                      kda_audit_member(audit, session->va, KDA_F_WMI_LOGGER_CONTEXT_LoggerMode),
                      session->mode, "bit 0x2000000 set");
    } else {
        return;
    }
    kda_audit_number(audit, "EtwpSystemLogger", settings->loggers_va, settings->loggers[index],
                     "a system logger session");
    kda_audit_hex(audit, "EtwpActiveSystemLoggers", settings->active_va, settings->active, NULL);
}

static void loggers(struct kda_audit *audit, const struct kda_etw_silo *silo,
                    const struct settings *settings, const struct kda_subject *subject)
{
    size_t count;
    const struct kda_etw_session *const *sessions = kda_etw_sessions(audit->etw, &count);
    (void)subject;
    for (unsigned i = 0; i < SYSTEM_LOGGERS; i++)
        if (settings->active >> i & 1u)
            active_logger(audit, silo, settings, i);
    for (size_t i = 0; i < count; i++) {
        bool named = false;
        struct kda_subject session = kda_subject_session(sessions[i]);
        if (sessions[i]->silo != silo)
            continue;
        if (!KDA_ETW_HAS(sessions[i], S, MODE)) {
            kda_audit_open(audit, &session, "slot %u: its mode cannot be read", sessions[i]->id);
            continue;
        }
        if (!(sessions[i]->mode & MODE_SYSTEM_LOGGER))
            continue;
        for (unsigned n = 0; n < SYSTEM_LOGGERS; n++)
            named =
                named || ((settings->active >> n & 1u) && settings->loggers[n] == sessions[i]->id);
        if (named)
            continue;
        kda_audit_finding(audit, KDA_SEVERITY_HIGH, &session,
                          "a system logger session that the kernel does not write to");
        kda_audit_hex(audit, "EtwpActiveSystemLoggers", settings->active_va, settings->active,
                      "a bit for this session");
    }
}

static void check_loggers(struct kda_audit *audit)
{
    each_silo(audit, loggers);
}

/* ---- group masks ---- */

static void masks(struct kda_audit *audit, const struct kda_etw_silo *silo,
                  const struct settings *settings, const struct kda_subject *subject)
{
    uint32_t sum[MASK_WORDS] = {0};
    (void)silo;
    for (unsigned i = 0; i < SYSTEM_LOGGERS; i++) {
        uint32_t any = 0;
        if (!(settings->active >> i & 1u))
            continue;
        for (unsigned w = 0; w < MASK_WORDS; w++) {
            sum[w] |= settings->masks[i][w];
            any |= settings->masks[i][w];
        }
        if (any)
            continue;
        kda_audit_finding(audit, KDA_SEVERITY_MEDIUM, subject,
                          "system logger %u is active and no kernel event group is on for it", i);
        kda_audit_hex(audit, "EtwpGroupMasks", settings->masks_va + (uint64_t)i * MASK_SIZE, 0,
                      "not 0");
    }
    for (unsigned w = 0; settings->has_global && w < MASK_WORDS; w++) {
        char expected[24];
        if (settings->global[w] == sum[w])
            continue;
        (void)snprintf(expected, sizeof(expected), "0x%x", sum[w]);
        kda_audit_finding(
            audit, sum[w] & ~settings->global[w] ? KDA_SEVERITY_HIGH : KDA_SEVERITY_LOW, subject,
            "the groups that the kernel traces (word %u) are not those that "
            "its system loggers ask for",
            w);
        kda_audit_hex(audit, "SiloGlobalGroupMask", settings->global_va + w * 4u,
                      settings->global[w], expected);
    }
}

static void check_masks(struct kda_audit *audit)
{
    each_silo(audit, masks);
}

/* ---- the security provider ---- */

/* EtwpSecurityLoggers names the sessions the mask's bits stand for. */
static void security_sessions(struct kda_audit *audit, const struct kda_etw_silo *silo,
                              const struct kda_subject *subject, uint64_t mask, uint64_t mask_va)
{
    uint8_t bytes[SECURITY_LOGGERS * 2];
    uint32_t any = 0;
    uint64_t va =
        kda_audit_member(audit, silo->state, KDA_F_ETW_SILODRIVERSTATE_EtwpSecurityLoggers);
    if (!va || kda_read(audit->kernel, va, bytes, sizeof(bytes), NULL) != KDA_OK) {
        kda_audit_open(audit, subject, "EtwpSecurityLoggers is not in the image");
        return;
    }
    for (unsigned i = 0; i < SECURITY_LOGGERS; i++)
        any |= kda_le16(bytes + i * 2u);
    if (any == 0 && mask != 0) {
        kda_audit_open(audit, subject, "EtwpSecurityLoggers is all zero in this image");
        return;
    }
    for (unsigned i = 0; i < SECURITY_LOGGERS; i++) {
        uint16_t id = kda_le16(bytes + i * 2u);
        if (!(mask >> i & 1u) || session_at(audit, silo, id))
            continue;
        if (kda_audit_has_gap(audit, "sessions") || kda_audit_has_gap(audit, "session_slot")) {
            kda_audit_open(audit, subject, "the logger array is not whole");
            continue;
        }
        kda_audit_finding(audit, KDA_SEVERITY_HIGH, subject,
                          "the security provider is enabled for session %u, which does not exist",
                          id);
        kda_audit_number(audit, "EtwpSecurityLoggers", va + i * 2u, id, "a session that exists");
        kda_audit_hex(audit, "EtwpSecurityProviderEnableMask", mask_va, mask, NULL);
        kda_audit_about_slot(audit, silo, id);
    }
}

static void security(struct kda_audit *audit, const struct kda_etw_silo *silo)
{
    struct kda_subject subject = kda_subject_of("silo", silo->label, silo->state, silo->label);
    uint64_t mask, pid;
    uint64_t mask_va = kda_audit_member(audit, silo->state,
                                        KDA_F_ETW_SILODRIVERSTATE_EtwpSecurityProviderEnableMask);
    kda_audit_examined(audit);
    if (kda_read_field(audit->kernel, silo->state,
                       KDA_F_ETW_SILODRIVERSTATE_EtwpSecurityProviderEnableMask, &mask,
                       NULL) != KDA_OK ||
        kda_read_field(audit->kernel, silo->state,
                       KDA_F_ETW_SILODRIVERSTATE_EtwpSecurityProviderPID, &pid, NULL) != KDA_OK) {
        kda_audit_open(audit, &subject, "the security provider's state is not in the image");
        return;
    }
    security_sessions(audit, silo, &subject, mask, mask_va);
    if (pid == 0 || kda_audit_live_pid(audit, pid))
        return;
    if (!kda_audit_processes_whole(audit)) {
        kda_audit_open(audit, &subject, "not every process of the image can be read");
        return;
    }
    kda_audit_finding(audit, KDA_SEVERITY_HIGH, &subject,
                      "the process that owns the security provider (%llu) does not run",
                      (unsigned long long)pid);
    kda_audit_number(
        audit, "EtwpSecurityProviderPID",
        kda_audit_member(audit, silo->state, KDA_F_ETW_SILODRIVERSTATE_EtwpSecurityProviderPID),
        pid, "a process that runs");
}

static void check_security(struct kda_audit *audit)
{
    size_t count;
    if (kda_audit_no_model(audit))
        return;
    if (!kda_has_field(audit->kernel, KDA_F_ETW_SILODRIVERSTATE_EtwpSecurityProviderEnableMask)) {
        kda_audit_open(audit, NULL,
                       "this build keeps no EtwpSecurityProviderEnableMask in its state");
        return;
    }
    const struct kda_etw_silo *silos = kda_etw_silos(audit->etw, &count);
    for (size_t i = 0; i < count; i++)
        security(audit, &silos[i]);
}

/* clang-format off */
const struct kda_check kda_checks_system[] = {
    {"system.loggers", KDA_SEVERITY_HIGH,
     "the kernel's system loggers are not its sessions",
     "Kernel events go to the sessions named here; a session that is missing receives none.",
     "silo states, the logger array",
     "a session that was being started or stopped when the image was taken",
     "T1562.006", check_loggers},
    {"system.group_masks", KDA_SEVERITY_HIGH,
     "the kernel traces other groups than its system loggers ask for",
     "Clearing a group in the global mask stops process, image or registry events of every kernel "
     "logger at once.",
     "silo states",
     "a session that was being changed when the image was taken",
     "T1562.006", check_masks},
    {"system.security_provider", KDA_SEVERITY_HIGH,
     "the security provider is enabled for sessions or a process that do not exist",
     "The Security log lives on one embedded entry; its mask and owner can be written over.",
     "silo states, the logger array, process list",
     "the event log service was restarting when the image was taken",
     "T1562.002", check_security},
    {0},
};
/* clang-format on */
