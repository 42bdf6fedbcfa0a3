/*
 * util.c - strings, and lists of registered routines.
 */
#include "machine.h"

#include <time.h>

/* --- strings --------------------------------------------------------------------------------- */

void sim_wide_set(struct sim_wide *to, struct sim_str from)
{
    SIM_CHECK(from.count <= SIM_MAX_UNITS, "a string of %zu units", from.count);
    to->count = from.count;
    to->units = from.count ? sim_alloc(from.count * 2) : NULL;
    if (from.count)
        memcpy(to->units, from.units, from.count * 2);
}

void sim_wide_free(struct sim_wide *wide)
{
    free(wide->units);
    wide->units = NULL;
    wide->count = 0;
}

/* Enough of the system's upper case for names that tests and recordings have. */
uint16_t sim_upper(uint16_t unit)
{
    if (unit >= 'a' && unit <= 'z')
        return (uint16_t)(unit - 32);
    if ((unit >= 0xE0 && unit <= 0xFE && unit != 0xF7) || (unit >= 0x3B1 && unit <= 0x3C9) ||
        (unit >= 0x430 && unit <= 0x44F))
        return (uint16_t)(unit - 32);
    return unit;
}

bool sim_wide_equal(const uint16_t *a, size_t a_count, const uint16_t *b, size_t b_count)
{
    if (a_count != b_count)
        return false;
    for (size_t i = 0; i < a_count; i++) {
        if (sim_upper(a[i]) != sim_upper(b[i]))
            return false;
    }
    return true;
}

uint32_t sim_wide_hash(const uint16_t *units, size_t count)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < count; i++)
        hash = (hash ^ sim_upper(units[i])) * 16777619u;
    return hash;
}

UNICODE_STRING sim_unicode(const struct sim_wide *wide)
{
    UNICODE_STRING string = {.Length = (USHORT)(wide->count * 2),
                             .MaximumLength = (USHORT)(wide->count * 2),
                             .Buffer = wide->units};
    return string;
}

struct sim_str sim_str_of(const UNICODE_STRING *string)
{
    struct sim_str text = {string ? string->Buffer : NULL, string ? string->Length / 2u : 0};

    return text;
}

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

char *sim_utf8(const uint16_t *units, size_t count)
{
    char *out = sim_alloc(count * 3 + 1);
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t c = units[i];
        if ((c & 0xFC00) == 0xD800 && i + 1 < count && (units[i + 1] & 0xFC00) == 0xDC00)
            c = 0x10000 + ((c & 0x3FF) << 10) + (units[++i] & 0x3FFu);
        used += put_utf8(out + used, c);
    }
    return out;
}

VOID RtlInitUnicodeString(PUNICODE_STRING string, PCWSTR text)
{
    size_t count = 0;

    SIM_DDI(DISPATCH_LEVEL, NULL);
    /* What a length in bytes cannot hold is cut. */
    while (text && count < 32766 && text[count])
        count++;
    string->Buffer = (PWSTR)(uintptr_t)text;
    string->Length = (USHORT)(count * 2);
    string->MaximumLength = (USHORT)(text ? count * 2 + 2 : 0);
}

/* --- registered routines --------------------------------------------------------------------- */

NTSTATUS sim_notify_add(struct sim_notify_list *list, const char *ddi, void *routine, void *context,
                        uint8_t flavour, unsigned most, struct sim_notify **made)
{
    struct sim_notify *node = sim_alloc(sizeof(*node));
    struct sim_notify **end = &list->first;

    node->routine = routine;
    node->context = context;
    node->what = ddi;
    node->flavour = flavour;
    pthread_mutex_lock(&list->lock);
    for (; *end; end = &(*end)->next) {
        if (!made && !list->many && !(*end)->removed && (*end)->routine == routine)
            break;
    }
    if (*end || list->count + list->foreign >= most) {
        NTSTATUS status = *end ? STATUS_INVALID_PARAMETER : list->full;
        pthread_mutex_unlock(&list->lock);
        free(node);
        return status;
    }
    *end = node;
    list->count++;
    node->item.rule = list->left;
    sim_item_add(&node->item, SIM_CALLBACK, routine, ddi, 0, __builtin_return_address(0));
    if (made)
        *made = node;
    pthread_mutex_unlock(&list->lock);
    return STATUS_SUCCESS;
}

static void unlink_node(struct sim_notify_list *list, struct sim_notify *node)
{
    struct sim_notify **at = &list->first;

    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    sim_wide_free(&node->text);
    free(node);
}

/* With the lock; waits for calls in flight. */
static void remove_node(struct sim_notify_list *list, const char *ddi, struct sim_notify *node)
{
    const struct sim_ctx *self = sim_self();
    struct timespec deadline;

    for (uint32_t i = 0; i < self->inside; i++) {
        if (self->running[i] == node->routine)
            sim_violation(list->itself, ddi,
                          "hang: a routine removes itself and waits for its own end");
    }
    node->removed = true;
    list->count--;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += (time_t)(sim.hang_ms / 1000 + 1);
    while (node->in_flight) {
        if (pthread_cond_timedwait(&list->idle, &list->lock, &deadline) && node->in_flight)
            sim_bugcheck(ddi, "hang: a call in flight does not end");
    }
    sim_item_remove(&node->item);
    unlink_node(list, node);
}

NTSTATUS sim_notify_remove(struct sim_notify_list *list, const char *ddi, void *routine)
{
    struct sim_notify *node;

    pthread_mutex_lock(&list->lock);
    node = list->first;
    while (node && (node->removed || node->routine != routine))
        node = node->next;
    if (node)
        remove_node(list, ddi, node);
    pthread_mutex_unlock(&list->lock);
    return node ? STATUS_SUCCESS : STATUS_PROCEDURE_NOT_FOUND;
}

bool sim_notify_remove_node(struct sim_notify_list *list, const char *ddi,
                            struct sim_notify *wanted)
{
    struct sim_notify *node;

    pthread_mutex_lock(&list->lock);
    node = list->first;
    while (node && (node->removed || node != wanted))
        node = node->next;
    if (node)
        remove_node(list, ddi, node);
    pthread_mutex_unlock(&list->lock);
    return node != NULL;
}

/* The node after this one, which is released; the first for NULL. A node in use stays linked, even
 * when it is removed meanwhile, so that its successor can be found. */
struct sim_notify *sim_notify_next(struct sim_notify_list *list, struct sim_notify *after)
{
    struct sim_notify *node;

    pthread_mutex_lock(&list->lock);
    node = after ? after->next : list->first;
    while (node && node->removed)
        node = node->next;
    if (node)
        node->in_flight++;
    if (after && --after->in_flight == 0 && after->removed)
        pthread_cond_broadcast(&list->idle);
    pthread_mutex_unlock(&list->lock);
    return node;
}

void sim_notify_release(struct sim_notify_list *list, struct sim_notify *node)
{
    pthread_mutex_lock(&list->lock);
    if (--node->in_flight == 0 && node->removed)
        pthread_cond_broadcast(&list->idle);
    pthread_mutex_unlock(&list->lock);
}

bool sim_notify_hold(struct sim_notify_list *list, struct sim_notify *wanted)
{
    struct sim_notify *node;

    pthread_mutex_lock(&list->lock);
    node = list->first;
    while (node && node != wanted)
        node = node->next;
    if (node && node->removed)
        node = NULL;
    if (node)
        node->in_flight++;
    pthread_mutex_unlock(&list->lock);
    return node != NULL;
}

/* Decimal numbers of any length: the longer whole part is higher, then the digits decide. */
static int altitude_compare(const struct sim_wide *a, const struct sim_wide *b)
{
    size_t a_whole = 0;
    size_t b_whole = 0;

    while (a_whole < a->count && a->units[a_whole] != '.')
        a_whole++;
    while (b_whole < b->count && b->units[b_whole] != '.')
        b_whole++;
    if (a_whole != b_whole)
        return a_whole > b_whole ? 1 : -1;
    for (size_t i = 0; i < a->count || i < b->count; i++) {
        uint16_t none = i == a_whole ? '.' : '0';
        uint16_t left = i < a->count ? a->units[i] : none;
        uint16_t right = i < b->count ? b->units[i] : none;
        if (left != right)
            return left > right ? 1 : -1;
    }
    return 0;
}

void sim_notify_place(struct sim_notify_list *list, struct sim_notify *node,
                      struct sim_str altitude)
{
    struct sim_notify **at = &list->first;

    pthread_mutex_lock(&list->lock);
    sim_wide_set(&node->text, altitude);
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    at = &list->first;
    while (*at && altitude_compare(&(*at)->text, &node->text) > 0)
        at = &(*at)->next;
    node->next = *at;
    *at = node;
    pthread_mutex_unlock(&list->lock);
}

bool sim_notify_has_text(struct sim_notify_list *list, struct sim_str text)
{
    bool found = false;

    pthread_mutex_lock(&list->lock);
    for (const struct sim_notify *n = list->first; n && !found; n = n->next)
        found = !n->removed && sim_wide_equal(n->text.units, n->text.count, text.units, text.count);
    pthread_mutex_unlock(&list->lock);
    return found;
}

void sim_notify_clear(struct sim_notify_list *list)
{
    while (list->first) {
        sim_item_remove(&list->first->item);
        unlink_node(list, list->first);
    }
    list->count = list->foreign = 0;
}
