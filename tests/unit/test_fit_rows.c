/* The known layouts as hypotheses: what one is lent by others, and each of them on a machine of its
 * own, tried alone and left out. What is true is what the generator put in. */
#include "fit_machine.h"

#include "fit/fit_int.h"

/* ---- lending: rows from symbols, made to know as little as rows of published headers ---- */

static struct kda_fit *rows_of_table(void)
{
    struct kda_fit *fit = kda_calloc(1, sizeof(*fit));
    assert_non_null(fit);
    assert_true(kda_fit_rows(fit));
    return fit;
}

/* "10.0.19041.329" and "10.0.19041.985" stand beside each other because they are nearly alike; no
 * such neighbour may lend here. */
static bool same_family(const char *a, const char *b)
{
    size_t length = 0;
    for (unsigned dots = 0; a[length] && dots < 3; length++)
        dots += a[length] == '.';
    return strncmp(a, b, length) == 0;
}

/* Layout `k` of the built-in table that comes from published headers; false past the end. */
static bool published(size_t k, struct kda_layout *ret)
{
    for (size_t i = 0; i < kda_profile_count(); i++) {
        struct kda_profile_info info;
        kda_profile_get(i, &info);
        if (info.has_rvas || !info.has_layout || k-- > 0)
            continue;
        kda_profile_layout(i, ret);
        return true;
    }
    return false;
}

struct lending {
    unsigned right, left_out, wrong;
};

static void compare_lent(const struct kda_layout *is, const struct kda_layout *was,
                         const struct kda_layout *knew, const char *version, struct lending *sum)
{
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        const struct kda_field *a = &is->field[i], *b = &was->field[i];
        bool place = knew->field[i].offset == KDA_NONE;
        if (place && a->offset == KDA_NONE) {
            sum->left_out += b->offset != KDA_NONE;
        } else if (a->offset != b->offset ||
                   (a->size != 0 &&
                    (a->size != b->size || a->bit != b->bit || a->bits != b->bits))) {
            sum->wrong++;
            print_message("%s: %s is lent 0x%x:%u.%u/%u, not 0x%x:%u.%u/%u\n", version,
                          kda_field_name((enum kda_field_id)i), a->offset, a->size, a->bit, a->bits,
                          b->offset, b->size, b->bit, b->bits);
        } else {
            sum->right++;
        }
    }
}

/* Takes from a row of symbols what the published layout does not know either. */
static void forget(struct fit_row *row, const struct kda_layout *pattern)
{
    row->full = false;
    for (size_t i = 0; i < KDA_STRUCT_COUNT; i++)
        if (pattern->size[i] == KDA_NONE)
            row->layout.size[i] = KDA_NONE;
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        struct kda_field *f = &row->layout.field[i];
        bool known = pattern->field[i].offset != KDA_NONE && f->offset != KDA_NONE;
        *f = (struct kda_field){.offset = known ? f->offset : KDA_NONE};
    }
}

static void lend_again(const struct kda_fit *fit, size_t row, const struct kda_layout *pattern,
                       struct lending *sum)
{
    struct fit_row *items = calloc(FIT_MAX_ROWS, sizeof(*items));
    assert_non_null(items);
    struct fit_rows rows = {.items = items};
    size_t at = 0;
    for (size_t i = 0; i < fit->rows.count; i++) {
        const struct fit_row *from = &fit->rows.items[i];
        if (i != row && same_family(from->version, fit->rows.items[row].version))
            continue;
        if (i == row)
            at = rows.count;
        items[rows.count++] = *from;
    }
    forget(&items[at], pattern);
    struct kda_layout *knew = calloc(1, sizeof(*knew));
    assert_non_null(knew);
    *knew = items[at].layout;
    kda_fit_lend(&rows, at);
    compare_lent(&items[at].layout, &fit->rows.items[row].layout, knew, items[at].version, sum);
    free(knew);
    free(items);
}

static void lending(void **state)
{
    struct kda_fit *fit = rows_of_table();
    struct kda_layout *pattern = calloc(1, sizeof(*pattern));
    struct lending sum = {0};
    (void)state;
    assert_non_null(pattern);
    /* Windows 7 stands first: what was added later would be carried back into it. */
    for (size_t row = 2; row < fit->rows.count; row++)
        for (size_t k = 0; fit->rows.items[row].full && published(k, pattern); k++)
            lend_again(fit, row, pattern, &sum);
    print_message("lent: %u right, %u left out, %u wrong\n", sum.right, sum.left_out, sum.wrong);
    assert_int_equal(sum.wrong, 0);
    assert_true(sum.right > sum.left_out * 8);
    free(pattern);
    kda_fit_free(fit);
}

/* ---- each layout on a machine of its own ---- */

struct answer {
    const struct forge_truth *truth;
    const struct kda_layout *layout; /* the generator writes nothing where it has no place */
    const struct view *view;
    bool alone; /* by its own layout: nothing may be missing */
};

#define SAME(what, x, y)                                                                           \
    do {                                                                                           \
        if ((uint64_t)(x) != (uint64_t)(y))                                                        \
            fail_msg("%s: %s is 0x%llx, not 0x%llx", current, what, (unsigned long long)(y),       \
                     (unsigned long long)(x));                                                     \
    } while (0)

static void same_text(const char *what, const char *x, const char *y)
{
    if (strcmp(x ? x : "", y ? y : "") != 0)
        fail_msg("%s: %s is \"%s\", not \"%s\"", current, what, y ? y : "", x ? x : "");
}

/* A value that a bit of `have` speaks for: right, or left out where it may be. */
#define KNOWN(answer, row, id, what, x, y)                                                         \
    do {                                                                                           \
        if (KDA_ETW_HAS(row, S, id))                                                               \
            SAME(what, x, y);                                                                      \
        else if ((answer)->alone)                                                                  \
            fail_msg("%s: %s is left out", current, what);                                         \
    } while (0)

static void number_of(const struct answer *a, const char *what, size_t is, size_t found)
{
    if (found > is || (a->alone && found < is))
        fail_msg("%s: %zu %s, not %zu", current, found, what, is);
}

static void check_session(const struct answer *a, const struct kda_etw_session *row)
{
    const struct forge_session *s = NULL;
    for (size_t i = 0; i < a->truth->session_count; i++)
        s = a->truth->sessions[i].va == row->va ? &a->truth->sessions[i] : s;
    if (!s)
        fail_msg("%s: 0x%llx is no session", current, (unsigned long long)row->va);
    SAME("slot", s->id, row->id);
    KNOWN(a, row, LOGGER_ID, "LoggerId", s->logger_id, row->logger_id);
    KNOWN(a, row, MODE, "mode", s->mode, row->mode);
    KNOWN(a, row, COLLECTING, "CollectionOn", s->collecting, row->collecting);
    KNOWN(a, row, ACCEPT, "AcceptNewEvents", s->accept, row->accept_new_events);
    KNOWN(a, row, CLOCK, "clock", s->clock, row->clock);
    if (a->layout->field[F(WMI_LOGGER_CONTEXT, GetCpuClock)].offset != KDA_NONE)
        KNOWN(a, row, GET_CPU_CLOCK, "GetCpuClock", s->get_cpu_clock, row->get_cpu_clock);
    KNOWN(a, row, BUFFER_SIZE, "buffer size", s->buffer_size, row->buffer_size);
    KNOWN(a, row, BUFFERS, "buffers", s->buffers, row->buffers);
    KNOWN(a, row, MAX_BUFFERS, "max buffers", s->max_buffers, row->max_buffers);
    KNOWN(a, row, EVENTS_LOST, "events lost", s->events_lost, row->events_lost);
    KNOWN(a, row, BUFFERS_LOST, "buffers lost", s->buffers_lost, row->buffers_lost);
    KNOWN(a, row, RT_BUFFERS_LOST, "buffers lost", s->realtime_lost, row->realtime_buffers_lost);
    KNOWN(a, row, BUFFERS_WRITTEN, "buffers written", s->written, row->buffers_written);
    KNOWN(a, row, START_TIME, "start time", s->start_time, row->start_time_100ns);
    KNOWN(a, row, NUM_CONSUMERS, "consumers", s->num_consumers, row->num_consumers);
    if (KDA_ETW_HAS(row, S, NAME) || a->alone)
        same_text("name", s->name, row->name);
    if (KDA_ETW_HAS(row, S, LOG_FILE) || a->alone)
        same_text("file", s->file, row->log_file);
    if (KDA_ETW_HAS(row, S, SECURITY) || a->alone)
        same_text("security", s->sddl, row->security);
    if (KDA_ETW_HAS(row, S, INSTANCE_GUID) || a->alone)
        assert_memory_equal(row->instance_guid, s->instance, 16);
}

static void check_consumer(const struct answer *a, const struct kda_etw_consumer *row)
{
    const struct forge_consumer *c = NULL;
    for (size_t i = 0; i < a->truth->consumer_count; i++)
        c = a->truth->consumers[i].va == row->va ? &a->truth->consumers[i] : c;
    if (!c)
        fail_msg("%s: 0x%llx is no consumer", current, (unsigned long long)row->va);
    assert_true(!a->alone || (row->has_session_id && row->has_pid && row->has_flags &&
                              row->has_buffers_lost && row->has_handle));
    SAME("consumer's session", c->session, row->has_session_id ? row->session_id : c->session);
    SAME("consumer's pid", c->pid, row->has_pid ? row->pid : c->pid);
    SAME("consumer's flags", c->flags, row->has_flags ? row->flags : c->flags);
    SAME("buffers lost", c->buffers_lost,
         row->has_buffers_lost ? row->buffers_lost : c->buffers_lost);
    SAME("consumer's handle", c->handle, row->has_handle ? row->handle : c->handle);
}

static void check_registration(const struct answer *a, size_t provider,
                               const struct kda_etw_registration *row)
{
    const struct forge_reg *r = NULL;
    for (size_t i = 0; i < a->truth->reg_count; i++)
        r = a->truth->regs[i].va == row->va ? &a->truth->regs[i] : r;
    if (!r)
        fail_msg("%s: 0x%llx is no registration", current, (unsigned long long)row->va);
    SAME("registration's provider", r->provider, provider);
    assert_true(!a->alone || (row->has_kind && row->has_enable_mask && row->has_flags));
    SAME("kind", r->kernel, row->has_kind ? row->kernel : r->kernel);
    SAME("mask", r->enable_mask, row->has_enable_mask ? row->enable_mask : r->enable_mask);
    SAME("flags", r->flags & 0xff, row->has_flags ? row->flags & 0xff : r->flags & 0xff);
    SAME("callback", r->callback, row->callback || a->alone ? row->callback : r->callback);
    if (!r->kernel)
        SAME("registration's pid", r->pid, row->has_pid || a->alone ? row->pid : r->pid);
}

static void check_provider(const struct answer *a, const struct kda_etw_provider *row)
{
    size_t p = 0, count = 0;
    while (p < a->truth->provider_count && a->truth->providers[p].va != row->va)
        p++;
    if (p == a->truth->provider_count)
        fail_msg("%s: 0x%llx is no provider", current, (unsigned long long)row->va);
    const struct forge_provider *is = &a->truth->providers[p];
    assert_true(row->has_guid || !a->alone);
    if (row->has_guid)
        assert_memory_equal(row->guid, is->guid, 16);
    SAME("type", is->type, row->has_type || a->alone ? (unsigned)row->type : is->type);
    for (size_t k = 0; k < KDA_ETW_ENABLE_SLOTS; k++) {
        if (!row->enables[k].readable && !a->alone)
            continue;
        SAME("enabled", is->enables[k].enabled, row->enables[k].enabled);
        if (is->enables[k].used) {
            SAME("level", is->enables[k].level, row->enables[k].level);
            SAME("enabled for", is->enables[k].session, row->enables[k].logger_id);
            SAME("match any", is->enables[k].any, row->enables[k].match_any);
        }
    }
    for (size_t i = 0; i < a->truth->reg_count; i++)
        count += a->truth->regs[i].provider == p;
    number_of(a, "registrations", count, row->registration_count);
    for (size_t i = 0; i < row->registration_count; i++)
        check_registration(a, p, row->registrations[i]);
}

static void check_process(const struct answer *a, const struct kda_process *row)
{
    const struct forge_process *p = NULL;
    for (size_t i = 0; i < a->truth->process_count; i++)
        p = a->truth->processes[i].va == row->va ? &a->truth->processes[i] : p;
    if (!p)
        fail_msg("%s: 0x%llx is no process", current, (unsigned long long)row->va);
    SAME("pid", p->pid, row->has_pid || a->alone ? row->pid : p->pid);
    SAME("ppid", p->ppid, row->has_ppid || a->alone ? row->ppid : p->ppid);
    SAME("dtb", p->dtb, row->dtb || a->alone ? row->dtb : p->dtb);
    SAME("created", p->create_time,
         row->create_time_100ns || a->alone ? row->create_time_100ns : p->create_time);
    SAME("protection", p->protection, row->has_protection ? row->protection : p->protection);
    if (row->name[0] || a->alone)
        same_text("process name", p->name, row->name);
    if (row->image || a->alone)
        same_text("image", p->path, row->image);
}

static void check_answer(const struct answer *a)
{
    const struct kda_process *processes;
    size_t n;
    const struct kda_etw_session *const *sessions = kda_etw_sessions(a->view->etw, &n);
    number_of(a, "sessions", a->truth->session_count, n);
    for (size_t i = 0; i < n; i++)
        check_session(a, sessions[i]);
    const struct kda_etw_consumer *const *consumers = kda_etw_consumers(a->view->etw, &n);
    number_of(a, "consumers", a->truth->consumer_count, n);
    for (size_t i = 0; i < n; i++)
        check_consumer(a, consumers[i]);
    const struct kda_etw_provider *const *providers = kda_etw_providers(a->view->etw, &n);
    number_of(a, "providers", a->truth->provider_count, n);
    for (size_t i = 0; i < n; i++)
        check_provider(a, providers[i]);
    assert_int_equal(kda_processes(a->view->kernel, &processes, &n, NULL), KDA_OK);
    number_of(a, "processes", a->truth->process_count, n);
    for (size_t i = 0; i < n; i++)
        check_process(a, &processes[i]);
}

/* Everything that the layout itself knows is found. */
static void check_fields(const struct fit_row *row, const struct kda_fit *fit)
{
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
        if (row->layout.field[i].offset != KDA_NONE && !row->lent[i] &&
            kda_fit_layout(fit)->field[i].offset == KDA_NONE)
            fail_msg("%s: no %s", current, kda_field_name((enum kda_field_id)i));
}

static bool try_layout(const struct machine *m, const struct fit_row *row,
                       const struct kda_fit_options *options)
{
    struct view v;
    struct kda_error err = {0};
    struct answer a = {forge_truth(m->forge), forge_layout(m->forge), &v, options->only != 0};
    enum kda_status status = look_fitted(&v, m, options, &err);
    if (status == KDA_OK) {
        compare_layout(m, v.fit);
        check_answer(&a);
        if (a.alone)
            check_fields(row, v.fit);
    } else {
        assert_int_equal(status, KDA_NO_SYMBOL);
        print_message("%s: %s\n", current, err.text);
    }
    close_view(&v);
    return status == KDA_OK;
}

static void each_layout(void **state)
{
    struct kda_fit *fit = rows_of_table();
    unsigned others = 0, tried = 0;
    (void)state;
    for (unsigned r = 0; r < fit->rows.count; r++) {
        const struct fit_row *row = &fit->rows.items[r];
        bool silos =
            row->layout.field[F(ETW_SILODRIVERSTATE, EtwpGuidHashTable)].offset != KDA_NONE;
        struct kda_fit_options alone = {.no_profile = true, .only = r + 1};
        struct kda_fit_options without = {.no_profile = true, .without = r + 1};
        struct machine m = {0};
        char label[64];
        (void)snprintf(label, sizeof(label), "%s", row->version);
        current = label;
        /* Containers came with the globals that hold their state. */
        bool containers =
            row->layout.field[F(ESERVERSILO_GLOBALS, EtwSiloState)].offset != KDA_NONE;
        make(&m, containers ? "references" : "fit", row->version, "rvas invented\ncompact off",
             FORGE_RAW);
        /* Before 1607 nothing says where the globals are, with or without a layout. */
        assert_int_equal(try_layout(&m, row, &alone), silos);
        (void)snprintf(label, sizeof(label), "%s by all others", row->version);
        others += try_layout(&m, row, &without);
        tried += silos;
        unmake(&m);
    }
    print_message("%zu layouts; %u of %u machines were read without theirs\n", fit->rows.count,
                  others, tried);
    assert_true(others * 10 >= tried * 9);
    kda_fit_free(fit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lending),
        cmocka_unit_test(each_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
