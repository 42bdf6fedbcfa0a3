/*
 * script.c - scripted activity: one action a line, so that what a sensor shows can be seen, and
 * tested, for anything that a recording does not have.
 *
 *   # comment
 *   setting NAME=VALUE              before start
 *   existing PID image=PATH         a process that runs before the sensor
 *   start                           loads the driver; done by itself before the first action
 *   process PID image=PATH [command=TEXT] [parent=PID] [session=N] [integrity=N]
 *   exit PID [CODE]
 *   as PID                          who acts from now on
 *   thread PID [address=N] [tid=N]  a thread in that process
 *   image PATH [base=N] [size=N]    loaded by who acts
 *   driver PATH [base=N] [size=N]
 *   create-key KEY | delete-key KEY | rename-key KEY NAME | delete-value KEY NAME
 *   set-value KEY NAME TYPE DATA...     REG_SZ, REG_EXPAND_SZ, REG_MULTI_SZ (a word each),
 *                                       REG_DWORD, REG_QWORD, REG_BINARY (hex digits)
 *                                   all of them: [refused=STATUS], denied by another filter
 *   connect|accept PROTOCOL LOCAL:PORT REMOTE:PORT     [::1]:80 for version 6
 *   listen PROTOCOL LOCAL:PORT
 *   wait SECONDS                    on the simulated clock
 *   suspend SECONDS | shutdown | stop
 *
 * Words are separated by blanks; "..." keeps blanks together and "" inside of it is a quote.
 * {x*300} is x 300 times, {u+D800} is one UTF-16 unit.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "script.h"

/* ---- processes ---- */

static bool read_process(struct script *script, struct sim_process *process)
{
    uint64_t pid, parent = 0, session = 0, integrity = 0x2000;
    *process = (struct sim_process){0};
    if (!script_number_at(script, 1, SCRIPT_MAX_PID, &pid) ||
        !script_option_string(script, "image", &process->image) ||
        !script_option_string(script, "command", &process->command_line) ||
        !script_option_number(script, "parent", SCRIPT_MAX_PID, &parent) ||
        !script_option_number(script, "session", UINT32_MAX, &session) ||
        !script_option_number(script, "integrity", UINT32_MAX, &integrity))
        return false;
    process->pid = (uint32_t)pid;
    process->parent_pid = (uint32_t)parent;
    process->session = (uint32_t)session;
    process->integrity = (uint32_t)integrity;
    return process->image.count == 0 || script_real_name(script, &process->image, false);
}

static bool do_existing(struct script *script)
{
    struct sim_process process;
    uint32_t pid;
    if (script->loaded)
        return script_wrong(script, "'existing' comes before the start");
    return read_process(script, &process) && (sim_process_existing(&process, &pid) == 0 ||
                                              script_wrong(script, "the machine refused"));
}

static bool do_process(struct script *script)
{
    struct sim_process process;
    uint32_t pid;
    if (!read_process(script, &process))
        return false;
    if (process.parent_pid != 0 && !sim_enter(process.parent_pid, 0))
        return script_wrong(script, "the parent does not run");
    bool good = sim_process_create(&process, &pid) == 0;
    if (!sim_enter(script->actor, 0))
        script->actor = 4;
    return good || script_wrong(script, "the machine refused");
}

static bool do_exit(struct script *script)
{
    uint64_t pid, code = 0;
    if (!script_number_at(script, 1, SCRIPT_MAX_PID, &pid) ||
        (script->word_count > 2 && !script_number_at(script, 2, UINT32_MAX, &code)))
        return false;
    if (pid == 4)
        return script_wrong(script, "the System process does not end");
    return sim_process_exit((uint32_t)pid, (uint32_t)code) ||
           script_wrong(script, "no such process");
}

static bool do_as(struct script *script)
{
    uint64_t pid;
    if (!script_number_at(script, 1, SCRIPT_MAX_PID, &pid))
        return false;
    if (!sim_enter((uint32_t)pid, 0))
        return script_wrong(script, "no such process");
    script->actor = (uint32_t)pid;
    return true;
}

static bool do_thread(struct script *script)
{
    uint64_t pid, address = 0x7ff800001000u, tid = 0;
    uint32_t made;
    if (!script_number_at(script, 1, SCRIPT_MAX_PID, &pid) ||
        !script_option_number(script, "address", UINT64_MAX, &address) ||
        !script_option_number(script, "tid", SCRIPT_MAX_PID, &tid))
        return false;
    const struct sim_thread thread = {
        .pid = (uint32_t)pid, .tid = (uint32_t)tid, .start_address = address};
    return sim_thread_create(&thread, &made) == 0 || script_wrong(script, "the machine refused");
}

static bool load_image(struct script *script, bool kernel)
{
    struct sim_image image = {.kernel = kernel};
    image.base = kernel ? 0xfffff80012340000u : 0x7ff800000000u;
    image.size = 0x20000;
    if (!script_string_at(script, 1, &image.path) ||
        !script_option_number(script, "base", UINT64_MAX, &image.base) ||
        !script_option_number(script, "size", UINT64_MAX, &image.size) ||
        !script_real_name(script, &image.path, false))
        return false;
    sim_image_load(&image);
    return true;
}

static bool do_image(struct script *script)
{
    return load_image(script, false);
}

static bool do_driver(struct script *script)
{
    return load_image(script, true);
}

/* ---- registry ---- */

static bool read_op(struct script *script, struct sim_registry *op, bool name)
{
    uint64_t refused = 0;
    *op = (struct sim_registry){0};
    if (!script_string_at(script, 1, &op->key) || !script_real_name(script, &op->key, true) ||
        (name && !script_string_at(script, 2, &op->name)) ||
        !script_option_number(script, "refused", UINT32_MAX, &refused))
        return false;
    if (refused != 0) {
        op->refusal = SIM_REFUSE_AFTER;
        op->status = (int32_t)(uint32_t)refused;
    }
    return true;
}

static bool do_create_key(struct script *script)
{
    struct sim_registry op;
    if (!read_op(script, &op, false))
        return false;
    (void)sim_registry_create_key(&op);
    return true;
}

static bool do_delete_key(struct script *script)
{
    struct sim_registry op;
    if (!read_op(script, &op, false))
        return false;
    (void)sim_registry_delete_key(&op);
    return true;
}

static bool do_rename_key(struct script *script)
{
    struct sim_registry op;
    if (!read_op(script, &op, true))
        return false;
    (void)sim_registry_rename_key(&op);
    return true;
}

static bool do_delete_value(struct script *script)
{
    struct sim_registry op;
    if (!read_op(script, &op, true))
        return false;
    (void)sim_registry_delete_value(&op);
    return true;
}

static bool hex_data(struct script *script, const char *text, struct sim_registry *op)
{
    size_t size = strlen(text) / 2;
    uint8_t *bytes = recording_alloc(&script->memory, size + 1);
    if (!bytes || strlen(text) % 2 != 0)
        return script_wrong(script, "hex digits come in pairs");
    for (size_t i = 0; i < size; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
        char *end;
        bytes[i] = (uint8_t)strtoul(pair, &end, 16);
        if (*end != '\0')
            return script_wrong(script, "no hex digit");
    }
    op->data = bytes;
    op->size = size;
    return true;
}

static bool number_data(struct script *script, const char *text, size_t size,
                        struct sim_registry *op)
{
    uint64_t value;
    uint8_t *bytes = recording_alloc(&script->memory, 8);
    if (!bytes || !script_number(text, &value))
        return script_wrong(script, "a number was expected");
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    op->data = bytes;
    op->size = size;
    return true;
}

/* Words from `first` on, each with its terminator; a list has one more. */
static bool text_data(struct script *script, size_t first, bool list, struct sim_registry *op)
{
    size_t units = 1, used = 0;
    size_t end = list ? script->word_count : first + 1;
    for (size_t i = first; i < end; i++)
        units += script->words[i].count + 1;
    uint16_t *data = recording_alloc(&script->memory, units * sizeof(*data));
    if (!data)
        return script_wrong(script, "out of memory");
    for (size_t i = first; i < end; i++) {
        memcpy(data + used, script->words[i].units, script->words[i].count * sizeof(*data));
        used += script->words[i].count;
        data[used++] = 0;
    }
    if (list)
        data[used++] = 0;
    op->data = data;
    op->size = used * sizeof(*data);
    return true;
}

static bool do_set_value(struct script *script)
{
    static const struct {
        const char *name;
        uint32_t type;
    } types[] = {{"REG_SZ", 1},    {"REG_EXPAND_SZ", 2}, {"REG_BINARY", 3},
                 {"REG_DWORD", 4}, {"REG_MULTI_SZ", 7},  {"REG_QWORD", 11}};
    struct sim_registry op;
    bool good;
    if (!read_op(script, &op, true))
        return false;
    if (script->word_count < 5)
        return script_wrong(script, "set-value wants KEY NAME TYPE DATA");
    op.type = UINT32_MAX;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(script->words[3].text, types[i].name) == 0)
            op.type = types[i].type;
    const char *text = script->words[4].text;
    if (op.type == 3)
        good = hex_data(script, text, &op);
    else if (op.type == 4 || op.type == 11)
        good = number_data(script, text, op.type == 4 ? 4 : 8, &op);
    else if (op.type == UINT32_MAX)
        good = script_wrong(script, "unknown type of value");
    else
        good = text_data(script, 4, op.type == 7, &op);
    if (good)
        (void)sim_registry_set_value(&op);
    return good;
}

/* ---- network ---- */

static bool read_end(struct script *script, size_t index, uint8_t address[16], uint16_t *port,
                     uint8_t *version)
{
    char host[64];
    uint64_t number;
    const char *text = index < script->word_count ? script->words[index].text : "";
    const char *colon = strrchr(text, ':');
    size_t size = colon ? (size_t)(colon - text) : 0;
    if (size == 0 || size >= sizeof(host) || !script_number(colon + 1, &number) || number > 0xffff)
        return script_wrong(script, "ADDRESS:PORT was expected");
    bool brackets = text[0] == '[' && text[size - 1] == ']';
    memcpy(host, text + brackets, size - 2u * brackets);
    host[size - 2u * brackets] = '\0';
    *port = (uint16_t)number;
    return recording_address(host, address, version) || script_wrong(script, "no address");
}

static bool read_flow(struct script *script, struct sim_flow *flow, bool remote)
{
    static const struct {
        const char *name;
        uint8_t number;
    } protocols[] = {{"tcp", 6}, {"udp", 17}, {"icmp", 1}, {"icmpv6", 58}, {"sctp", 132}};
    uint64_t number = 0;
    uint8_t other;
    *flow = (struct sim_flow){0};
    const char *name = script->word_count > 1 ? script->words[1].text : "";
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++)
        if (strcmp(name, protocols[i].name) == 0)
            number = protocols[i].number;
    if (number == 0 && (!script_number(name, &number) || number > 255))
        return script_wrong(script, "unknown protocol");
    flow->protocol = (uint8_t)number;
    if (!read_end(script, 2, flow->local, &flow->local_port, &flow->version))
        return false;
    if (!remote)
        return true;
    return read_end(script, 3, flow->remote, &flow->remote_port, &other) &&
           (other == flow->version || script_wrong(script, "the ends are of different versions"));
}

static bool do_flow(struct script *script)
{
    struct sim_flow flow;
    uint64_t id = 0;
    bool accept = strcmp(script->words[0].text, "accept") == 0;
    if (!read_flow(script, &flow, true))
        return false;
    if (accept)
        sim_net_accept(&flow, &id);
    else
        sim_net_connect(&flow, &id);
    if (id != 0)
        sim_net_close(id);
    return true;
}

static bool do_listen(struct script *script)
{
    struct sim_flow flow;
    if (!read_flow(script, &flow, false))
        return false;
    sim_net_listen(&flow);
    return true;
}

/* ---- the machine ---- */

static bool do_wait(struct script *script)
{
    uint64_t seconds;
    if (!script_number_at(script, 1, SCRIPT_MAX_SECONDS, &seconds))
        return false;
    sim_clock_advance(seconds * 10000000);
    return true;
}

static bool do_suspend(struct script *script)
{
    uint64_t seconds;
    if (!script_number_at(script, 1, SCRIPT_MAX_SECONDS, &seconds))
        return false;
    sim_power_suspend();
    sim_power_resume(seconds * 10000000, true);
    return true;
}

static bool do_shutdown(struct script *script)
{
    (void)script;
    sim_system_shutdown();
    return true;
}

static bool do_start(struct script *script)
{
    if (script->loaded)
        return script_wrong(script, "already started");
    script->loaded = run_load(&script->load);
    return script->loaded;
}

static bool do_stop(struct script *script)
{
    script->loaded = false;
    script->stopped = true;
    return run_end();
}

static bool do_setting(struct script *script)
{
    struct run_options *load = &script->load;
    if (script->loaded || script->word_count < 2 || load->setting_count == RUN_MAX_SETTINGS)
        return script_wrong(script, "'setting NAME=VALUE' comes before the start");
    size_t size = strlen(script->words[1].text) + 1;
    char *copy = recording_alloc(&script->memory, size);
    if (!copy)
        return script_wrong(script, "out of memory");
    memcpy(copy, script->words[1].text, size);
    load->settings[load->setting_count++] = copy;
    return true;
}

static const struct action {
    const char *name;
    bool before; /* does not need the sensor */
    bool (*run)(struct script *script);
} actions[] = {
    {"setting", true, do_setting},
    {"existing", true, do_existing},
    {"start", true, do_start},
    {"process", false, do_process},
    {"exit", false, do_exit},
    {"as", false, do_as},
    {"thread", false, do_thread},
    {"image", false, do_image},
    {"driver", false, do_driver},
    {"create-key", false, do_create_key},
    {"delete-key", false, do_delete_key},
    {"rename-key", false, do_rename_key},
    {"set-value", false, do_set_value},
    {"delete-value", false, do_delete_value},
    {"connect", false, do_flow},
    {"accept", false, do_flow},
    {"listen", false, do_listen},
    {"wait", false, do_wait},
    {"suspend", false, do_suspend},
    {"shutdown", false, do_shutdown},
    {"stop", false, do_stop},
};

static bool run_line(struct script *script)
{
    const char *name = script->words[0].text;
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (strcmp(actions[i].name, name) != 0)
            continue;
        if (script->stopped)
            return script_wrong(script, "nothing comes after 'stop'");
        if (!actions[i].before && !script->loaded && !do_start(script))
            return false;
        script->actions++;
        /* Each action has its own moment. */
        sim_clock_advance(10000);
        return actions[i].run(script);
    }
    return script_wrong(script, "unknown action");
}

static bool run_lines(struct script *script, FILE *file)
{
    char *line = malloc(SCRIPT_MAX_LINE);
    bool good = line != NULL;
    while (good && fgets(line, SCRIPT_MAX_LINE, file)) {
        script->line++;
        size_t size = strcspn(line, "\r\n");
        if (line[size] == '\0' && !feof(file)) {
            good = script_wrong(script, size == SCRIPT_MAX_LINE - 1 ? "the line is too long"
                                                                    : "a line with a NUL");
            break;
        }
        line[size] = '\0';
        if (line[strspn(line, " \t")] != '#')
            good = script_split(script, line) && (script->word_count == 0 || run_line(script));
        script_free_words(script);
    }
    if (good && ferror(file))
        good = script_wrong(script, "it cannot be read");
    free(line);
    return good;
}

int run_script(const struct run_options *options)
{
    struct script *script = calloc(1, sizeof(*script));
    FILE *file = fopen(options->files[0], "rb");
    int code = RUN_INPUT;
    if (!file)
        (void)fprintf(stderr, "kda-sim: cannot open '%s'\n", options->files[0]);
    if (script && file && run_boot(options, options->output, "script", SCRIPT_UTC_START)) {
        script->actor = 4;
        script->load = *options;
        script->file = options->files[0];
        recording_init(&script->memory, NULL);
        bool good = run_lines(script, file);
        if (script->loaded)
            good = run_end() && good;
        else if (!script->stopped)
            sim_shutdown_machine();
        if (good) {
            (void)printf("%" PRIu64 " actions; log in %s/log\n", script->actions, options->output);
            code = RUN_DONE;
        }
        recording_deinit(&script->memory);
    }
    if (file)
        (void)fclose(file);
    free(script);
    return code;
}
