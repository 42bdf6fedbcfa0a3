/*
 * filter.c - which lines somebody wants to see.
 */
#include "internal.h"

#include <string.h>

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The needle is compared with the text as it stands in the JSON, where a backslash is two: one in
 * the needle matches both. */
static bool match_here(const char *text, size_t left, const char *needle)
{
    size_t at = 0;
    for (; *needle; needle++) {
        if (at >= left || lower(text[at]) != lower(*needle))
            return false;
        at += *needle == '\\' && at + 1 < left && text[at + 1] == '\\' ? 2 : 1;
    }
    return true;
}

static bool contains(const struct kda_log_member *member, const char *needle)
{
    if (!member || member->type != '"')
        return false;
    for (size_t at = 0; at < member->size; at++)
        if (match_here(member->value + at, member->size - at, needle))
            return true;
    return *needle == '\0';
}

static bool pid_matches(const struct kda_log_line *line, uint64_t pid)
{
    static const char *const others[] = {"target_pid", "parent_pid", "creator_pid"};
    if (line->has_pid && line->pid == pid)
        return true;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const struct kda_log_member *member = kda_log_find(line, others[i]);
        uint64_t value;
        if (member && kda_log_number(member, &value) && value == pid)
            return true;
    }
    return false;
}

bool kda_log_matches(const struct kda_log_filter *filter, const struct kda_log_line *line)
{
    if (filter->kinds && !(filter->kinds >> line->kind & 1))
        return false;
    if (filter->since && (!line->has_time || line->time < filter->since))
        return false;
    if (filter->until && (!line->has_time || line->time >= filter->until))
        return false;
    if (filter->has_pid && !pid_matches(line, filter->pid))
        return false;
    return !filter->image || contains(kda_log_find(line, "image"), filter->image) ||
           contains(kda_log_find(line, "module"), filter->image) ||
           contains(kda_log_find(line, "command_line"), filter->image);
}
