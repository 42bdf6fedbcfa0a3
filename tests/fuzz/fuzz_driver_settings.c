/* Rules, rates and lists of kinds from the registry: any text, any length. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static void inside(const UNICODE_STRING *part, const uint16_t *text, size_t units)
{
    if (part->Length == 0)
        return;
    if (part->Buffer < text || part->Buffer + part->Length / 2 > text + units)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t units = size / 2;
    uint16_t *text = malloc(units * 2 + 1);
    const CHAR *why;
    KDA_RULE rule;
    KDA_RATE rate;
    ULONG kinds;

    if (!text)
        return 0;
    memcpy(text, data, units * 2);
    if (KdaParseKinds(text, units, &kinds) && (kinds == 0 || (kinds & ~KdaDriverKinds) != 0))
        abort();
    if (KdaParseRule(text, units, &rule, &why)) {
        inside(&rule.Image, text, units);
        inside(&rule.Key, text, units);
        inside(&rule.Module, text, units);
        if (rule.Kinds == 0)
            abort();
        KdaHasSuffix(&rule.Text, &rule.Image);
        KdaHasPrefix(&rule.Text, &rule.Key);
    } else if (why == NULL) {
        abort();
    }
    if (KdaParseRate(text, units, &rate, &why) && (rate.PerSecond == 0 || rate.Burst == 0))
        abort();
    free(text);
    return 0;
}
