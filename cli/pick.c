/*
 * pick.c - what people type (session id or name, provider GUID or name, silo) to objects of the
 * model. A name that fits nothing is a usage error that lists what there is; where memory is
 * missing, what it names may be there, and the answer is incomplete.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#define LISTED_MAX 64u

static bool has_name(const struct kda_etw_session *session)
{
    return KDA_ETW_HAS(session, S, NAME) && session->name;
}

static int not_found(const struct cli *cli)
{
    const struct kda_gaps *gaps = kda_kernel_gaps(cli->kernel);
    size_t count = gaps->count + gaps->dropped;
    if (!kda_gaps_any(gaps))
        return CLI_USAGE;
    cli_error("it may be in memory that is missing: %zu gap%s ('kda map -v' lists %s)", count,
              count == 1 ? "" : "s", count == 1 ? "it" : "them");
    return CLI_INCOMPLETE;
}

/* ---- silo ---- */

static int pick_silo(struct cli *cli, const char *word, struct kda_selection *selection)
{
    size_t count;
    uint64_t va = 0;
    const struct kda_etw_silo *silos = kda_etw_silos(cli->etw, &count);
    bool number = cli_parse_number(word, 16, &va);
    for (size_t i = 0; i < count; i++) {
        const struct kda_etw_silo *silo = &silos[i];
        bool hit = cli_same_text(word, silo->label) ||
                   (silo->host && cli_same_text(word, "host")) ||
                   (number && va != 0 && (va == silo->state || va == silo->job));
        if (hit) {
            selection->silo = silo;
            return CLI_DONE;
        }
    }
    cli_error("no silo '%s' in this image; there %s:", word, count == 1 ? "is" : "are");
    for (size_t i = 0; i < count && i < LISTED_MAX; i++)
        cli_error("  %s", silos[i].label);
    return not_found(cli);
}

/* ---- sessions ---- */

static void list_session(const struct kda_etw_session *session)
{
    cli_error("  [%u] %s%s%s", session->id, has_name(session) ? session->name : "?",
              session->silo && !session->silo->host ? "  silo " : "",
              session->silo && !session->silo->host ? session->silo->label : "");
}

static int no_session(struct cli *cli, const char *word, const struct kda_selection *selection)
{
    size_t count, listed = 0;
    struct cli_suggestion suggestion = {0};
    const struct kda_etw_session *const *sessions = kda_etw_sessions(cli->etw, &count);
    for (size_t i = 0; i < count; i++)
        if (has_name(sessions[i]))
            cli_suggest(&suggestion, word, sessions[i]->name);
    if (suggestion.best)
        cli_error("no session '%s'; did you mean '%s'? Sessions are:", word, suggestion.best);
    else
        cli_error("no session '%s'; sessions are:", word);
    for (size_t i = 0; i < count && listed < LISTED_MAX; i++) {
        if (selection->silo && sessions[i]->silo != selection->silo)
            continue;
        list_session(sessions[i]);
        listed++;
    }
    return not_found(cli);
}

/* Two sessions of one silo: an id and a name that fit different ones, or one name used twice. */
static bool ambiguous(const struct kda_etw_session *const *hits, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count; k++)
            if (hits[i]->silo == hits[k]->silo)
                return true;
    return false;
}

static int pick_sessions(struct cli *cli, const char *word, struct kda_selection *selection)
{
    size_t count, used = 0;
    uint64_t id = 0;
    const struct kda_etw_session *const *sessions = kda_etw_sessions(cli->etw, &count);
    bool number = cli_parse_number(word, 10, &id);
    const struct kda_etw_session **hits = calloc(count ? count : 1, sizeof(*hits));
    if (!hits) {
        cli_error("out of memory");
        return CLI_INTERNAL;
    }
    for (size_t i = 0; i < count; i++) {
        const struct kda_etw_session *session = sessions[i];
        if (selection->silo && session->silo != selection->silo)
            continue;
        if ((number && session->id == id) ||
            (has_name(session) && cli_same_text(word, session->name)))
            hits[used++] = session;
    }
    if (used > 0 && !ambiguous(hits, used)) {
        selection->sessions = hits;
        selection->session_count = used;
        return CLI_DONE;
    }
    int code = CLI_USAGE;
    if (used > 0) {
        cli_error("'%s' fits more than one session; name one by its id:", word);
        for (size_t i = 0; i < used && i < LISTED_MAX; i++)
            list_session(hits[i]);
    } else {
        code = no_session(cli, word, selection);
    }
    free(hits);
    return code;
}

/* ---- providers ---- */

/* 32 hex digits with or without braces and dashes, in memory order of a GUID. */
static bool parse_guid(const char *text, uint8_t guid[16])
{
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    uint8_t bytes[16] = {0};
    size_t digits = 0;
    for (; *text; text++) {
        if (strchr("{}-", *text))
            continue;
        int value = cli_hex_digit(*text);
        if (value < 0 || digits == 32)
            return false;
        bytes[digits / 2] = (uint8_t)(bytes[digits / 2] << 4 | value);
        digits++;
    }
    for (size_t i = 0; i < 16; i++)
        guid[order[i]] = bytes[i];
    return digits == 32;
}

static int pick_providers(struct cli *cli, const char *word, struct kda_selection *selection)
{
    size_t count, used = 0;
    uint8_t guid[16];
    const struct kda_etw_provider *const *providers = kda_etw_providers(cli->etw, &count);
    bool is_guid = parse_guid(word, guid);
    const struct kda_etw_provider **hits = calloc(count ? count : 1, sizeof(*hits));
    if (!hits) {
        cli_error("out of memory");
        return CLI_INTERNAL;
    }
    struct cli_suggestion suggestion = {0};
    for (size_t i = 0; i < count; i++) {
        const struct kda_etw_provider *p = providers[i];
        if (is_guid ? p->has_guid && memcmp(p->guid, guid, sizeof(guid)) == 0
                    : p->name && cli_same_text(word, p->name))
            hits[used++] = p;
        else if (!is_guid && p->name)
            cli_suggest(&suggestion, word, p->name);
    }
    if (used > 0) {
        selection->providers = hits;
        selection->provider_count = used;
        return CLI_DONE;
    }
    if (suggestion.best)
        cli_error("no provider '%s' in this image; did you mean '%s'?", word, suggestion.best);
    else
        cli_error("no provider '%s' in this image; --grep TEXT searches every value", word);
    free(hits);
    return not_found(cli);
}

int cli_pick(struct cli *cli, const char *session, const char *provider,
             struct kda_selection *selection)
{
    int code = CLI_DONE;
    memset(selection, 0, sizeof(*selection));
    selection->all = cli->options.all;
    if (cli->options.silo)
        code = pick_silo(cli, cli->options.silo, selection);
    if (code == CLI_DONE && session)
        code = pick_sessions(cli, session, selection);
    if (code == CLI_DONE && provider)
        code = pick_providers(cli, provider, selection);
    if (code != CLI_DONE)
        cli_unpick(selection);
    return code;
}

void cli_unpick(struct kda_selection *selection)
{
    free((void *)selection->sessions);
    free((void *)selection->providers);
    memset(selection, 0, sizeof(*selection));
}
