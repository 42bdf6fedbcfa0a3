/* audited.h - the healthy machine with some lines changed, and what the audit says about it. */
#ifndef KDA_TESTS_AUDITED_H
#define KDA_TESTS_AUDITED_H

#include "forged.h"
#include "kda/audit.h"

struct audited {
    struct forged forged;
    struct kda_audit *audit;
};

/* `drop` and `add` as forged_text takes them; fails the test when the audit cannot run. */
void audited_start(struct audited *run, const char *drop, const char *add,
                   const struct kda_audit_options *options);
/* The same, looking for objects in pool memory too if `carve`. */
void audited_carve(struct audited *run, const char *drop, const char *add,
                   const struct kda_audit_options *options, bool carve);
void audited_stop(struct audited *run);
const struct kda_check_result *audited_result(const struct audited *run, const char *check);
/* Everything it says, as messages of the test. */
void audited_print(const struct audited *run);

#endif
