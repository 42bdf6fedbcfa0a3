/*
 * cmd_driver_filter.c - kda driver filter: the rules of the driver, in the registry.
 *
 * Where none are set, the driver has rules of its own; a change begins with those, so that adding
 * one does not silently lift the others.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "advice.h"
#include "control.h"

static int refuse(const struct cli *cli, uint32_t error, const char *what)
{
    advice_say(cli->host, ADVICE_SETTINGS, error, what);
    return CLI_INPUT;
}

static bool add_text(struct host_texts *texts, size_t at, const char *text)
{
    char **items = realloc(texts->items, (texts->count + 1) * sizeof(*items));
    if (!items)
        return false;
    texts->items = items;
    char *copy = malloc(strlen(text) + 1);
    if (!copy)
        return false;
    memcpy(copy, text, strlen(text) + 1);
    memmove(items + at + 1, items + at, (texts->count - at) * sizeof(*items));
    items[at] = copy;
    texts->count++;
    return true;
}

/* What is set, or else what the driver has. */
static uint32_t read_rules(const struct cli *cli, struct host_texts *rules, bool *defaults)
{
    uint32_t error = cli->host->texts_read(cli->host->context, "Rules", rules);
    const char *text;
    *defaults = error == HOST_NOT_FOUND;
    if (error != HOST_NOT_FOUND)
        return error;
    for (size_t i = 0; (text = control_default_rule(i)) != NULL; i++)
        if (!add_text(rules, i, text))
            return HOST_NO_MEMORY;
    return HOST_OK;
}

static int write_rules(const struct cli *cli, const struct host_texts *rules)
{
    struct host_service service;
    uint32_t error = cli->host->texts_write(cli->host->context, "Rules", rules);
    if (error != HOST_OK)
        return refuse(cli, error, "change the rules of the driver");
    if (driver_query(cli, &service) == HOST_OK && service.state != HOST_STOPPED)
        cli_note(cli, "in force when the driver starts the next time: kda driver stop, kda driver "
                      "start");
    free(service.image);
    return CLI_DONE;
}

static void put_rules(FILE *to, const void *what)
{
    const struct host_texts *rules = what;
    char shown[4096];
    for (size_t i = 0; i < rules->count; i++)
        (void)fprintf(to, "%3zu  %s\n", i + 1,
                      kda_printable(rules->items[i], shown, sizeof(shown)));
}

static int run_list(struct cli *cli, const struct host_texts *rules, bool defaults)
{
    int code = driver_print(cli, put_rules, rules);
    size_t wrong = 0;
    for (size_t i = 0; i < rules->count; i++) {
        const char *problem = control_rule_problem(rules->items[i]);
        if (problem)
            cli_error("the driver will not take rule %zu: %s", i + 1, problem);
        wrong += problem != NULL;
    }
    if (wrong > 0 && wrong == rules->count)
        cli_error("no rule is left: the driver has its own instead");
    if (rules->count == 0)
        cli_note(cli, "no rules: everything is recorded");
    else if (defaults)
        cli_note(cli, "these are the driver's own; none are set");
    return code;
}

/* In front of the others: the first rule that fits decides, and the new one is meant. */
static int run_add(struct cli *cli, struct host_texts *rules)
{
    char *rule = control_join_rule(cli->options.words + 2, cli->options.positional_count - 2);
    if (!rule) {
        cli_error("out of memory");
        return CLI_INTERNAL;
    }
    const char *problem = control_rule_problem(rule);
    int code = CLI_USAGE;
    if (problem)
        cli_error("the rule is not understood: %s", problem);
    else if (rules->count >= CONTROL_MAX_RULES)
        cli_error("there are %zu rules already, and no more are allowed", rules->count);
    else if (!add_text(rules, 0, rule))
        code = CLI_INTERNAL;
    else
        code = write_rules(cli, rules);
    free(rule);
    return code;
}

static int run_remove(struct cli *cli, struct host_texts *rules)
{
    const char *word = cli->options.positional[2];
    uint64_t number;
    if (!cli_parse_number(word, 10, &number) || number == 0 || number > rules->count) {
        cli_error("there is no rule '%s'; 'kda driver filter list' numbers them", word);
        return CLI_USAGE;
    }
    size_t at = (size_t)number - 1;
    free(rules->items[at]);
    rules->count--;
    memmove(rules->items + at, rules->items + at + 1, (rules->count - at) * sizeof(*rules->items));
    return write_rules(cli, rules);
}

int driver_run_filter(struct cli *cli)
{
    const char *verb = cli->options.positional[1];
    const size_t count = cli->options.positional_count;
    const bool list = strcmp(verb, "list") == 0, add = strcmp(verb, "add") == 0;
    if (!(list && count == 2) && !(add && count > 2) &&
        !(strcmp(verb, "remove") == 0 && count == 3)) {
        cli_error("usage: kda driver filter list, filter add RULE, or filter remove NUMBER");
        return CLI_USAGE;
    }
    struct host_texts rules = {NULL, 0};
    struct host_service service;
    bool defaults = false;
    uint32_t error = driver_query(cli, &service);
    free(service.image);
    if (error == HOST_OK)
        error = read_rules(cli, &rules, &defaults);
    int code;
    if (error != HOST_OK)
        code = refuse(cli, error, "read the rules of the driver");
    else if (list)
        code = run_list(cli, &rules, defaults);
    else
        code = add ? run_add(cli, &rules) : run_remove(cli, &rules);
    host_texts_free(&rules);
    return code;
}
