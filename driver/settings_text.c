/*
 * settings_text.c - what the text settings mean: lists of kinds, rules, rate limits.
 */
#include "driver.h"

const ULONG KdaDriverKinds = KDA_SETTINGS_KINDS;

KDA_INITCODE static BOOLEAN KdapIs(const KDA_TEXT *text, const CHAR *word)
{
    SIZE_T i = 0;

    for (; i < text->Count && word[i] != '\0'; i++) {
        if (text->At[i] != (WCHAR)word[i])
            return FALSE;
    }
    return i == text->Count && word[i] == '\0';
}

KDA_INITCODE static VOID KdapSkip(KDA_TEXT *text, SIZE_T units)
{
    text->At += units;
    text->Count -= units;
}

/* The next word; a part in quotes may hold spaces. FALSE at the end, or (`word` NULL) for a quote
 * that does not end. */
KDA_INITCODE static BOOLEAN KdapWord(KDA_TEXT *rest, KDA_TEXT *word)
{
    BOOLEAN quoted = FALSE;
    SIZE_T i = 0;

    while (rest->Count != 0 && (*rest->At == ' ' || *rest->At == '\t'))
        KdapSkip(rest, 1);
    word->At = rest->At;
    while (i < rest->Count && (quoted || (rest->At[i] != ' ' && rest->At[i] != '\t'))) {
        if (rest->At[i] == '"')
            quoted = !quoted;
        i++;
    }
    word->Count = i;
    if (quoted) {
        word->At = NULL;
        return FALSE;
    }
    KdapSkip(rest, i);
    return i != 0;
}

/* Splits `name=value` and takes the quotes off. */
KDA_INITCODE static BOOLEAN KdapSplit(const KDA_TEXT *word, const CHAR *name, KDA_TEXT *value)
{
    SIZE_T length = 0;
    KDA_TEXT head;

    while (name[length] != '\0')
        length++;
    if (word->Count <= length || word->At[length] != '=')
        return FALSE;
    head.At = word->At;
    head.Count = length;
    if (!KdapIs(&head, name))
        return FALSE;
    *value = *word;
    KdapSkip(value, length + 1);
    if (value->Count >= 2 && value->At[0] == '"' && value->At[value->Count - 1] == '"') {
        KdapSkip(value, 1);
        value->Count--;
    }
    return TRUE;
}

KDA_INITCODE static BOOLEAN KdapNumber(const KDA_TEXT *text, ULONG most, ULONG *number)
{
    ULONGLONG value = 0;

    if (text->Count == 0)
        return FALSE;
    for (SIZE_T i = 0; i < text->Count; i++) {
        if (text->At[i] < '0' || text->At[i] > '9')
            return FALSE;
        value = value * 10 + (ULONG)(text->At[i] - '0');
        if (value > most)
            return FALSE;
    }
    *number = (ULONG)value;
    return TRUE;
}

/* `registry.*` begins like the name up to the asterisk. */
KDA_INITCODE static BOOLEAN KdapKindMatches(const KDA_TEXT *pattern, const CHAR *name)
{
    SIZE_T units = pattern->Count;

    if (units == 0 || pattern->At[units - 1] != '*')
        return KdapIs(pattern, name);
    for (SIZE_T i = 0; i + 1 < units; i++) {
        if (name[i] == '\0' || pattern->At[i] != (WCHAR)name[i])
            return FALSE;
    }
    return TRUE;
}

/* Names or patterns, with commas between. */
_Use_decl_annotations_ KDA_INITCODE BOOLEAN KdaParseKinds(PCWCH text, SIZE_T count, ULONG *kinds)
{
    KDA_TEXT rest = {text, count};
    ULONG all = 0;

    while (rest.Count != 0) {
        KDA_TEXT pattern = {rest.At, 0};
        ULONG found = 0;
        while (pattern.Count < rest.Count && rest.At[pattern.Count] != ',')
            pattern.Count++;
        for (ULONG kind = 1; kind < KDA_KIND_COUNT; kind++) {
            if ((KdaDriverKinds >> kind & 1u) && KdapKindMatches(&pattern, kda_kinds[kind].name))
                found |= 1u << kind;
        }
        if (found == 0)
            return FALSE;
        all |= found;
        KdapSkip(&rest, pattern.Count < rest.Count ? pattern.Count + 1 : pattern.Count);
    }
    *kinds = all;
    return all != 0;
}

KDA_INITCODE static VOID KdapSetString(UNICODE_STRING *string, const KDA_TEXT *text)
{
    string->Buffer = (PWSTR)(ULONG_PTR)text->At;
    string->Length = string->MaximumLength = (USHORT)(text->Count * sizeof(WCHAR));
}

KDA_INITCODE static BOOLEAN KdapRuleItem(const KDA_TEXT *word, KDA_RULE *rule, const CHAR **why)
{
    KDA_TEXT value;

    if (KdapSplit(word, "kind", &value)) {
        *why = "unknown kind";
        return KdaParseKinds(value.At, value.Count, &rule->Kinds);
    }
    if (KdapSplit(word, "pid", &value)) {
        *why = "pid is no number";
        return KdapNumber(&value, KDA_NO_PID - 1, &rule->Pid);
    }
    if (KdapSplit(word, "image", &value))
        KdapSetString(&rule->Image, &value);
    else if (KdapSplit(word, "key", &value))
        KdapSetString(&rule->Key, &value);
    else if (KdapSplit(word, "module", &value))
        KdapSetString(&rule->Module, &value);
    else {
        *why = "unknown condition";
        return FALSE;
    }
    *why = "an empty condition";
    return value.Count != 0;
}

_Use_decl_annotations_ KDA_INITCODE BOOLEAN KdaParseRule(PCWCH text, SIZE_T count, KDA_RULE *rule,
                                                         const CHAR **why)
{
    KDA_TEXT whole = {text, count};
    KDA_TEXT rest = whole;
    KDA_TEXT word;

    RtlZeroMemory(rule, sizeof *rule);
    rule->Kinds = KdaDriverKinds;
    rule->Pid = KDA_NO_PID;
    *why = "longer than a string can be";
    if (count > KDA_STRING_MAX_UNITS)
        return FALSE;
    KdapSetString(&rule->Text, &whole);
    *why = "begins with neither include nor exclude";
    if (!KdapWord(&rest, &word))
        return FALSE;
    if (KdapIs(&word, "include"))
        rule->Include = TRUE;
    else if (!KdapIs(&word, "exclude"))
        return FALSE;
    while (KdapWord(&rest, &word)) {
        if (!KdapRuleItem(&word, rule, why))
            return FALSE;
    }
    *why = "a quote does not end";
    return word.At != NULL;
}

_Use_decl_annotations_ KDA_INITCODE BOOLEAN KdaParseRate(PCWCH text, SIZE_T count, KDA_RATE *rate,
                                                         const CHAR **why)
{
    KDA_TEXT whole = {text, count};
    KDA_TEXT rest = whole;
    KDA_TEXT word, value;

    RtlZeroMemory(rate, sizeof *rate);
    *why = "longer than a string can be";
    if (count > KDA_STRING_MAX_UNITS)
        return FALSE;
    KdapSetString(&rate->Text, &whole);
    *why = "not of the form kind=K rate=N burst=N";
    while (KdapWord(&rest, &word)) {
        BOOLEAN good = FALSE;
        if (KdapSplit(&word, "kind", &value))
            good = KdaParseKinds(value.At, value.Count, &rate->Kinds);
        else if (KdapSplit(&word, "rate", &value))
            good = KdapNumber(&value, 1000000, &rate->PerSecond);
        else if (KdapSplit(&word, "burst", &value))
            good = KdapNumber(&value, 10000000, &rate->Burst);
        if (!good)
            return FALSE;
    }
    return word.At != NULL && rate->Kinds != 0 && rate->PerSecond != 0 && rate->Burst != 0;
}
