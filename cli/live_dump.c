#include "live_dump.h"

#include <stdlib.h>
#include <string.h>

#include "advice.h"
#include "term.h"

#define POLL_MS 100u
#define MIB ((uint64_t)1 << 20)

/* LIVE_SYSTEM_DUMP: the code that Task Manager's dumps carry. The first parameter tells readers who
 * asked, as its name in ASCII. */
#define BUGCHECK_LIVE_DUMP 0x161u
#define ASKED_BY 0x61646bu /* "kda" */
#define FLAG_USER_PAGES 4u
#define PAGES_HYPERVISOR 1u

static void put32(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

void live_dump_control(bool user_pages, bool hypervisor, uint8_t control[LIVE_DUMP_CONTROL_SIZE])
{
    memset(control, 0, LIVE_DUMP_CONTROL_SIZE);
    put32(control, 1); /* version */
    put32(control + 0x04, BUGCHECK_LIVE_DUMP);
    put32(control + 0x08, ASKED_BY);
    put32(control + 0x38, user_pages ? FLAG_USER_PAGES : 0);
    put32(control + 0x3c, hypervisor ? PAGES_HYPERVISOR : 0);
}

uint64_t live_dump_estimate(const struct host_memory *memory, bool user_pages, bool hypervisor)
{
    /* Pools grow while the dump is taken; a 32nd holds the page-frame database (48 of 4096 bytes),
     * page tables (8 of 4096) and as much again for stacks and system views. */
    uint64_t bytes = memory->pools + memory->pools / 4 + memory->physical / 32 + 512 * MIB;
    if (hypervisor)
        bytes += memory->physical / 64 + 256 * MIB;
    if (user_pages || bytes > memory->physical + 64 * MIB)
        bytes = memory->physical + 64 * MIB; /* never more than all memory and a header */
    return bytes;
}

/* Is there room? Prints the figures. */
static int check_room(const struct cli *cli, const char *path)
{
    const struct host_ops *host = cli->host;
    struct host_memory memory = {0, 0};
    uint64_t room = 0;
    uint32_t error = host->memory(host->context, &memory);
    if (error != HOST_OK) {
        advice_say(host, ADVICE_DUMP, error, "measure the memory of this machine");
        return CLI_INPUT;
    }
    error = host->disk_free(host->context, path, &room);
    if (error != HOST_OK) {
        advice_say(host, ADVICE_DUMP, error, "look at the disk of the dump");
        return CLI_INPUT;
    }
    uint64_t need = live_dump_estimate(&memory, cli->options.user_pages, cli->options.hypervisor);
    cli_note(cli, "up to %llu MiB are needed (an estimate), %llu MiB are free",
             (unsigned long long)(need / MIB), (unsigned long long)(room / MIB));
    if (room >= need || cli->options.force)
        return CLI_DONE;
    cli_error("the disk of '%s' has too little room; name a file on another one, or say --force to "
              "try it",
              path);
    return CLI_INPUT;
}

/* Waits for the end. */
static uint32_t follow(struct cli *cli, uint64_t expected)
{
    const struct host_ops *host = cli->host;
    bool done = false, cancelled = false;
    uint32_t ntstatus = 0;
    cli_progress_begin(cli, "taking a live dump");
    for (;;) {
        uint64_t size = 0;
        host->dump_poll(host->context, &size, &done, &ntstatus);
        if (done)
            break;
        (void)cli_progress(&cli->progress, size, size <= expected ? expected : 0);
        if (!cancelled && host->interrupted(host->context)) {
            cancelled = true;
            host->dump_cancel(host->context);
        }
        term_sleep_ms(POLL_MS);
    }
    cli_progress_end(cli);
    return ntstatus;
}

static int explain(const struct cli *cli, uint32_t ntstatus)
{
    const char *advice = advice_for_dump(ntstatus);
    cli_error("Windows did not make the dump: status 0x%08x%s%s", ntstatus, advice ? ": " : "",
              advice ? advice : "");
    return cli->host->interrupted(cli->host->context) ? CLI_INTERNAL : CLI_INPUT;
}

/* A partial file is worth nothing to who does not know that it is one. */
static int end_partial(const struct cli *cli, const char *partial, int code)
{
    if (cli->options.keep)
        cli_note(cli, "what there is of it is in '%s'", partial);
    else
        (void)cli->host->file_delete(cli->host->context, partial);
    return code;
}

static int take(struct cli *cli, const char *path, const char *partial)
{
    const struct host_ops *host = cli->host;
    struct host_memory memory = {0, 0};
    uint8_t control[LIVE_DUMP_CONTROL_SIZE];
    live_dump_control(cli->options.user_pages, cli->options.hypervisor, control);
    const struct host_dump dump = {partial, control, sizeof(control), LIVE_DUMP_FILE_AT,
                                   LIVE_DUMP_CANCEL_AT};
    (void)host->memory(host->context, &memory);
    host->interrupt_catch(host->context);
    uint32_t error = host->dump_start(host->context, &dump);
    if (error != HOST_OK) {
        advice_say(host, ADVICE_DUMP, error, "take a live dump");
        return CLI_INPUT;
    }
    uint32_t ntstatus =
        follow(cli, live_dump_estimate(&memory, cli->options.user_pages, cli->options.hypervisor));
    host->dump_end(host->context);
    if (ntstatus != 0)
        return end_partial(cli, partial, explain(cli, ntstatus));
    error = host->file_rename(host->context, partial, path);
    if (error != HOST_OK) {
        char text[300];
        cli_error("the dump is complete and cannot be named '%s': %s; it is in '%s'", path,
                  host->error_text(error, text, sizeof(text)), partial);
        return CLI_INTERNAL;
    }
    cli_note(cli, "wrote '%s'", path);
    return CLI_DONE;
}

int live_dump_take(struct cli *cli, const char *path)
{
    /* Evidence is never replaced. */
    if (term_same_file(path, path)) {
        cli_error("'%s' exists already; name a new file", path);
        return CLI_USAGE;
    }
    int code = check_room(cli, path);
    if (code != CLI_DONE)
        return code;
    static const char ending[] = ".partial";
    size_t size = strlen(path) + sizeof(ending);
    char *partial = malloc(size);
    if (!partial) {
        cli_error("out of memory");
        return CLI_INTERNAL;
    }
    (void)snprintf(partial, size, "%s%s", path, ending);
    code = take(cli, path, partial);
    free(partial);
    return code;
}
