#include "scenario.h"

/* Directives about what the audit reads: callbacks, code, user memory, values written over. */

static void *more(struct line *l, void *items, size_t *capacity, size_t count, size_t size)
{
    void *grown = items;
    if (kda_grow(&grown, capacity, count + 1, size, FORGE_MAX_ENTITIES)) {
        memset((char *)grown + count * size, 0, size);
        return grown;
    }
    line_fail(l, "too many of these, or out of memory");
    return NULL;
}

static const char *kind_of(struct line *l, const char *word)
{
    static const char *const kinds[] = {"process",  "thread",         "image",
                                        "registry", "object_process", "object_thread"};
    for (size_t i = 0; word && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i], word) == 0)
            return kinds[i];
    line_fail(l, "a callback is process, thread, image, registry, object_process or object_thread");
    return "";
}

static void on_callback(struct line *l)
{
    struct forge_truth *t = &l->f->truth;
    void *items =
        more(l, t->callbacks, &l->f->callback_cap, t->callback_count, sizeof(*t->callbacks));
    if (!items)
        return;
    t->callbacks = items;
    struct forge_callback *c = &t->callbacks[t->callback_count++];
    c->kind = kind_of(l, line_word(l, 0));
    bool list = c->kind[0] == 'r' || c->kind[0] == 'o';
    const char *slot = line_text(l, "slot", NULL);
    c->line = l->number;
    c->driver = line_text(l, "driver", "nt");
    c->altitude = line_text(l, "altitude", NULL);
    c->context = line_number(l, "context", 0, UINT64_MAX);
    c->has_slot = slot != NULL;
    c->slot = slot ? (uint32_t)parse_number(l, slot, 63) : 0;
    c->outside = line_flag(l, "outside");
    c->emptied = line_flag(l, "emptied");
    c->has_post = line_flag(l, "post");
    if ((list && slot) || (!list && (c->altitude || c->has_post)))
        line_fail(l, "slots are for arrays; altitude and post are for lists");
}

static void on_code(struct line *l)
{
    const char *name = line_word(l, 0), *hex = line_word(l, 1);
    if (!name || !hex || l->f->code_count == FORGE_MAX_CODES) {
        line_fail(l, "code needs a function of nt and its bytes; at most %u of them",
                  FORGE_MAX_CODES);
        return;
    }
    l->f->codes[l->f->code_count++] = (struct code_plan){name, hex, l->number};
}

static void on_user(struct line *l)
{
    struct forge *f = l->f;
    const char *pid = line_word(l, 0), *patch;
    void *items = more(l, f->users, &f->user_cap, f->user_count, sizeof(*f->users));
    if (!items)
        return;
    f->users = items;
    struct user_plan *plan = &f->users[f->user_count++];
    plan->line = l->number;
    plan->pid = pid ? parse_number(l, pid, UINT32_MAX) : 0;
    if (!forge_process_by_pid(f, plan->pid))
        line_fail(l, "user needs a process that is declared above");
    while (plan->patch_count < sizeof(plan->patches) / sizeof(plan->patches[0]) &&
           (patch = line_text(l, "patch", NULL)) != NULL)
        plan->patches[plan->patch_count++] = patch;
    plan->lacks = line_text(l, "lacks", NULL);
    plan->no_ntdll = line_flag(l, "nontdll");
    plan->no_loader = line_flag(l, "noldr");
}

static void on_poke(struct line *l)
{
    struct forge *f = l->f;
    const char *object = line_word(l, 0), *field = line_word(l, 1), *value = line_word(l, 2);
    void *items = more(l, f->pokes, &f->poke_cap, f->poke_count, sizeof(*f->pokes));
    if (!items)
        return;
    f->pokes = items;
    if (!object || !field || !value) {
        line_fail(l, "poke needs an object, a field and a value");
        return;
    }
    unsigned width = (unsigned)line_number(l, "width", 0, 8);
    enum forge_moment in = line_moment(l);
    f->pokes[f->poke_count++] = (struct poke){object, field, value, width, l->number, in};
}

static void on_block(struct line *l)
{
    struct forge *f = l->f;
    void *items = more(l, f->blocks, &f->block_cap, f->block_count, sizeof(*f->blocks));
    if (!items)
        return;
    f->blocks = items;
    struct block_plan *plan = &f->blocks[f->block_count++];
    plan->line = l->number;
    plan->object = line_word(l, 0);
    plan->freed = line_flag(l, "freed");
    plan->unlink = line_flag(l, "unlink");
    plan->tag = line_text(l, "tag", NULL);
    plan->copy = line_text(l, "copy", NULL);
    plan->size = line_number(l, "size", 0, 0xff0);
    plan->previous = line_number(l, "previous", 0, 0xff0);
    if (!plan->object || (plan->tag && strlen(plan->tag) != 4) ||
        (plan->copy && strcmp(plan->copy, "mapped") != 0 && strcmp(plan->copy, "unmapped") != 0 &&
         strcmp(plan->copy, "alias") != 0))
        line_fail(l, "block needs an object; tags have four letters, a copy is mapped, unmapped or "
                     "alias");
}

static void on_bigpages(struct line *l)
{
    const char *tag = line_word(l, 0);
    if (!tag || strlen(tag) != 4)
        line_fail(l, "bigpages needs a tag of four letters");
    l->f->opt.big_tag = tag;
}

const struct directive audit_directives[] = {
    {"callback", on_callback}, {"code", on_code},         {"user", on_user}, {"poke", on_poke},
    {"block", on_block},       {"bigpages", on_bigpages}, {NULL, NULL},
};
