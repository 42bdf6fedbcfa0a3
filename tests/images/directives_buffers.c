#include "scenario.h"

/* The directive about trace buffers. */

static uint32_t state_of(struct line *l)
{
    static const char *const names[] = {"free",    "logging",    "cswitch",    "flush",
                                        "pending", "compressed", "placeholder"};
    const char *text = line_text(l, "state", "logging");
    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    line_fail(l, "state= takes free, logging, cswitch, flush, pending, compressed or placeholder");
    return 0;
}

static uint64_t pid_of(struct line *l, const char *key)
{
    uint64_t pid = line_number(l, key, 0, UINT32_MAX);
    if (pid != 0 && !forge_process_by_pid(l->f, pid))
        line_fail(l, "process %llu is not declared above", (unsigned long long)pid);
    return pid;
}

void on_buffer(struct line *l)
{
    struct forge_truth *t = &l->f->truth;
    void *items = t->buffers;
    if (!kda_grow(&items, &l->f->buffer_cap, t->buffer_count + 1, sizeof(*t->buffers),
                  FORGE_MAX_ENTITIES)) {
        line_fail(l, "too many buffers, or out of memory");
        return;
    }
    t->buffers = items;
    struct forge_buffer *b = &t->buffers[t->buffer_count];
    memset(b, 0, sizeof(*b));
    b->line = l->number;
    b->silo = line_silo(l);
    b->session = (uint32_t)line_number(l, "session", 0, 1023);
    b->cpu = (uint32_t)line_number(l, "cpu", 0, 255);
    b->state = state_of(l);
    b->count = (unsigned)line_number(l, "events", 4, 1000);
    b->overflow = line_flag(l, "overflow");
    b->slot = line_flag(l, "slot");
    b->current = line_flag(l, "current");
    b->compression = line_flag(l, "compression");
    b->placeholder = b->state == 6;
    b->unlinked = line_flag(l, "unlinked");
    b->unwritten = line_flag(l, "unwritten");
    b->leftover = line_flag(l, "leftover");
    b->overfull = line_flag(l, "overfull");
    b->reset = line_flag(l, "reset");
    b->lost = line_flag(l, "lost");
    b->story = line_flag(l, "story");
    b->space = line_flag(l, "space");
    b->user = pid_of(l, "user");
    b->undelivered = pid_of(l, "undelivered");
    b->copy_of = (size_t)line_number(l, "copyof", 0, t->buffer_count);
    t->buffer_count++;
}
