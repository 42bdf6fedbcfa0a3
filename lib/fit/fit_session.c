/*
 * fit_session.c - votes from the loggers of the accepted state and from their consumers.
 */
#include <string.h>

#include "fit_int.h"

#define MAX_BUFFER_SIZE 0x4000000u /* 64 MiB; Windows allows 16 */
#define MAX_BUFFERS 0x100000u
#define FIXED_SLOTS 64u
#define TAIL_FIRST 0x300u /* the search for SiloState */
#define TAIL_LAST 0x1000u

static void collect(struct kda_fit *fit)
{
    uint64_t array = 0, state = fit->info.state;
    uint32_t slots = FIXED_SLOTS;
    bool known = !fit->form.ambiguous && fit->form.max_loggers == KDA_NONE;
    if (!fit->form.ambiguous && fit->form.max_loggers != KDA_NONE)
        known = kda_fit_u32(fit, state + fit->form.max_loggers, &slots) == FIT_YES && slots >= 32 &&
                slots <= FIT_MAX_LOGGERS;
    slots = known ? slots : FIXED_SLOTS;
    fit->slots = known ? slots : FIT_MAX_LOGGERS;
    if (fit->form.ambiguous)
        array = fit->array_hint;
    else if (fit->form.inline_array != KDA_NONE)
        array = state + fit->form.inline_array;
    else if (kda_fit_u64(fit, state + fit->form.array, &array) != FIT_YES)
        array = fit->array_hint;
    if (array == 0)
        return;
    for (uint32_t i = 0; i < slots; i++) {
        uint64_t value;
        if (kda_fit_u64(fit, array + i * 8u, &value) != FIT_YES || value <= 1 ||
            !kda_fit_is_pool(fit, value & ~(uint64_t)1))
            continue;
        void *items = fit->loggers;
        if (!kda_grow(&items, &fit->logger_capacity, fit->logger_count + 1, sizeof(*fit->loggers),
                      FIT_MAX_LOGGERS)) {
            fit->out_of_memory = true;
            return;
        }
        fit->loggers = items;
        fit->loggers[fit->logger_count++] =
            (struct fit_logger){.va = value & ~(uint64_t)1, .slot = i};
    }
}

/* What a 32-bit member of a logger may hold; zero is told nothing by. */
static enum fit_answer check_number(const struct fit_logger *logger, enum kda_field_id field,
                                    uint32_t value)
{
    switch (field) {
    case F(WMI_LOGGER_CONTEXT, LoggerId):
        return value == logger->slot ? FIT_YES : FIT_NO;
    case F(WMI_LOGGER_CONTEXT, BufferSize):
        return value != 0 && value % 0x400 == 0 && value <= MAX_BUFFER_SIZE ? FIT_YES : FIT_NO;
    case F(WMI_LOGGER_CONTEXT, CollectionOn):
        return value <= 1 ? FIT_UNKNOWN : FIT_NO;
    case F(WMI_LOGGER_CONTEXT, ClockType):
        return value <= 3 ? FIT_UNKNOWN : FIT_NO;
    case F(WMI_LOGGER_CONTEXT, LoggerMode):
        return value != 0 ? FIT_UNKNOWN : FIT_NO;
    default: /* counts of buffers */
        return value <= MAX_BUFFERS ? FIT_UNKNOWN : FIT_NO;
    }
}

static const enum kda_field_id numbers[] = {
    F(WMI_LOGGER_CONTEXT, LoggerId),         F(WMI_LOGGER_CONTEXT, BufferSize),
    F(WMI_LOGGER_CONTEXT, CollectionOn),     F(WMI_LOGGER_CONTEXT, ClockType),
    F(WMI_LOGGER_CONTEXT, LoggerMode),       F(WMI_LOGGER_CONTEXT, NumberOfBuffers),
    F(WMI_LOGGER_CONTEXT, MaximumBuffers),   F(WMI_LOGGER_CONTEXT, MinimumBuffers),
    F(WMI_LOGGER_CONTEXT, BuffersAvailable),
};

/* The list of a logger's buffers: each starts with its size, which is the logger's. Other lists
 * stand near, so a closed ring alone proves nothing. GlobalEntry stands at 0x38 of
 * _WMI_BUFFER_HEADER in all surveyed builds. */
static enum fit_answer check_buffers(const struct kda_fit *fit, const struct fit_logger *logger,
                                     uint64_t at)
{
    const struct fit_votes *size_at = &fit->votes[F(WMI_LOGGER_CONTEXT, BufferSize)];
    const struct fit_votes *entry_at = &fit->votes[F(WMI_BUFFER_HEADER, GlobalEntry)];
    uint64_t first;
    uint32_t mine, theirs;
    if (kda_fit_ring(fit, at) == FIT_NO)
        return FIT_NO;
    if (kda_fit_u64(fit, at, &first) != FIT_YES || first == at || size_at->count == 0 ||
        entry_at->count == 0 ||
        kda_fit_u32(fit, logger->va + size_at->place[0].offset, &mine) != FIT_YES ||
        kda_fit_u32(fit, first - entry_at->place[0].offset, &theirs) != FIT_YES)
        return FIT_UNKNOWN;
    return mine == theirs && mine != 0 ? FIT_YES : FIT_UNKNOWN;
}

static enum fit_answer check_place(struct kda_fit *fit, const struct fit_logger *logger,
                                   enum kda_field_id field, uint64_t at)
{
    uint64_t value;
    uint32_t number;
    switch (field) {
    case F(WMI_LOGGER_CONTEXT, LoggerName):
        return kda_fit_string(fit, at, false);
    case F(WMI_LOGGER_CONTEXT, LogFileName):
        return kda_fit_string(fit, at, true);
    case F(WMI_LOGGER_CONTEXT, GlobalList):
        return check_buffers(fit, logger, at);
    case F(WMI_LOGGER_CONTEXT, Consumers):
        return kda_fit_ring(fit, at);
    case F(WMI_LOGGER_CONTEXT, SecurityDescriptor):
        return kda_fit_security(fit, at);
    case F(WMI_LOGGER_CONTEXT, StartTime):
        return kda_fit_u64(fit, at, &value) == FIT_YES ? kda_fit_time(value, true) : FIT_UNKNOWN;
    case F(WMI_LOGGER_CONTEXT, SiloState):
        if (kda_fit_u64(fit, at, &value) != FIT_YES)
            return FIT_UNKNOWN;
        return value == fit->info.state ? FIT_YES : FIT_NO;
    case F(WMI_LOGGER_CONTEXT, GetCpuClock):
        if (kda_fit_u64(fit, at, &value) != FIT_YES)
            return FIT_UNKNOWN;
        return value <= 3 || kda_is_kernel_va(fit->kernel, value) ? FIT_UNKNOWN : FIT_NO;
    default:
        return kda_fit_u32(fit, at, &number) == FIT_YES ? check_number(logger, field, number)
                                                        : FIT_UNKNOWN;
    }
}

static void vote_field(struct kda_fit *fit, const struct fit_logger *logger,
                       enum kda_field_id field)
{
    struct fit_votes *votes = &fit->votes[field];
    for (size_t i = 0; i < votes->count; i++)
        kda_fit_vote(&votes->place[i],
                     check_place(fit, logger, field, logger->va + votes->place[i].offset));
}

static void vote_logger(struct kda_fit *fit, const struct fit_logger *logger)
{
    static const enum kda_field_id others[] = {
        F(WMI_LOGGER_CONTEXT, LoggerName), F(WMI_LOGGER_CONTEXT, LogFileName),
        F(WMI_LOGGER_CONTEXT, GlobalList), F(WMI_LOGGER_CONTEXT, Consumers),
        F(WMI_LOGGER_CONTEXT, StartTime),  F(WMI_LOGGER_CONTEXT, SecurityDescriptor),
        F(WMI_LOGGER_CONTEXT, SiloState),  F(WMI_LOGGER_CONTEXT, GetCpuClock),
    };
    uint32_t id;
    /* A slot whose context is gone or is something else says nothing about layouts. */
    if (kda_fit_u32(fit, logger->va, &id) == FIT_YES && id != logger->slot)
        return;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        vote_field(fit, logger, numbers[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        vote_field(fit, logger, others[i]);
}

/* A build that no row describes may keep SiloState elsewhere: the one place where (nearly) all
 * loggers hold the state. */
static void find_silo_member(struct kda_fit *fit)
{
    struct fit_votes *votes = &fit->votes[F(WMI_LOGGER_CONTEXT, SiloState)];
    if (kda_fit_best(fit, F(WMI_LOGGER_CONTEXT, SiloState)) != KDA_NONE ||
        votes->count == FIT_MAX_PLACES || fit->form.globals == KDA_NONE)
        return;
    struct fit_place best = {KDA_NONE, 0, 0};
    for (uint32_t at = TAIL_FIRST; at < TAIL_LAST; at += 8) {
        struct fit_place place = {at, 0, 0};
        for (size_t i = 0; i < fit->logger_count; i++)
            kda_fit_vote(&place,
                         check_place(fit, &fit->loggers[i], F(WMI_LOGGER_CONTEXT, SiloState),
                                     fit->loggers[i].va + at));
        if (kda_fit_holds(&place) && place.yes > best.yes)
            best = place;
    }
    if (best.yes >= 3)
        votes->place[votes->count++] = best;
}

/* ---- consumers ---- */

struct consumer_walk {
    const struct fit_logger *logger;
    uint32_t nodes;
};

static void on_consumer(struct kda_fit *fit, void *context, uint64_t link)
{
    struct consumer_walk *walk = context;
    struct fit_votes *links = &fit->votes[F(ETW_REALTIME_CONSUMER, Links)];
    struct fit_votes *process = &fit->votes[F(ETW_REALTIME_CONSUMER, ProcessObject)];
    struct fit_votes *logger = &fit->votes[F(ETW_REALTIME_CONSUMER, LoggerId)];
    struct fit_votes *state = &fit->votes[F(ETW_REALTIME_CONSUMER, SiloState)];
    uint64_t value;
    uint32_t number;
    walk->nodes++;
    for (size_t l = 0; l < links->count; l++) {
        uint64_t va = link - links->place[l].offset;
        enum fit_answer owner = FIT_UNKNOWN;
        kda_fit_meet(fit, FIT_KIND_CONSUMER, va);
        for (size_t i = 0; i < process->count; i++) {
            if (kda_fit_u64(fit, va + process->place[i].offset, &value) != FIT_YES)
                continue;
            owner = kda_fit_is_process(fit, value) ? FIT_YES
                    : kda_fit_is_pool(fit, value)  ? FIT_UNKNOWN /* its lists may be broken */
                                                   : FIT_NO;
            kda_fit_vote(&process->place[i], owner);
        }
        kda_fit_vote(&links->place[l], owner);
        for (size_t i = 0; i < logger->count; i++)
            if (kda_fit_u32(fit, va + logger->place[i].offset, &number) == FIT_YES)
                kda_fit_vote(&logger->place[i],
                             (number & 0xffff) == walk->logger->slot ? FIT_YES : FIT_NO);
        for (size_t i = 0; i < state->count; i++)
            if (kda_fit_u64(fit, va + state->place[i].offset, &value) == FIT_YES)
                kda_fit_vote(&state->place[i], value == fit->info.state ? FIT_YES : FIT_NO);
    }
}

static void vote_count(struct kda_fit *fit, const struct fit_logger *logger, uint32_t nodes)
{
    struct fit_votes *votes = &fit->votes[F(WMI_LOGGER_CONTEXT, NumConsumers)];
    for (size_t i = 0; i < votes->count; i++) {
        uint32_t count;
        /* Zero equals zero nearly everywhere: only a list with something in it is evidence. */
        if (nodes > 0 && kda_fit_u32(fit, logger->va + votes->place[i].offset, &count) == FIT_YES)
            kda_fit_vote(&votes->place[i], count == nodes ? FIT_YES : FIT_NO);
    }
}

void kda_fit_sessions(struct kda_fit *fit)
{
    collect(fit);
    for (size_t i = 0; i < fit->logger_count; i++)
        vote_logger(fit, &fit->loggers[i]);
    find_silo_member(fit);
    /* Other rings stand near: the name's place tells which front of the context this is, where
     * the votes for the list alone would not. */
    uint32_t list_at =
        kda_fit_beside(fit, F(WMI_LOGGER_CONTEXT, LoggerName), F(WMI_LOGGER_CONTEXT, Consumers));
    for (size_t i = 0; list_at != KDA_NONE && i < fit->logger_count; i++) {
        struct consumer_walk walk = {&fit->loggers[i], 0};
        if (kda_fit_ring(fit, fit->loggers[i].va + list_at) != FIT_YES)
            continue;
        if (kda_fit_walk(fit, fit->loggers[i].va + list_at, FIT_MAX_PROCESSES, on_consumer, &walk))
            vote_count(fit, &fit->loggers[i], walk.nodes);
    }
    fit->left_out[FIT_CONSUMER] = kda_fit_astray(fit, FIT_KIND_CONSUMER);
}
