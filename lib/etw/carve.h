/*
 * carve.h - private to lib/etw: objects out of pool blocks.
 */
#ifndef KDA_ETW_CARVE_H
#define KDA_ETW_CARVE_H

#include "internal.h"

#define KDA_CARVER_NEEDS 8u
#define KDA_CARVER_END KDA_FIELD_COUNT
#define KDA_CARVERS 4u

/* What speaks for and against an object. */
struct kda_carve_proof {
    struct kda_etw *etw;
    unsigned ties; /* places outside that agree */
    bool refuted;
    enum kda_status open;    /* why the object itself could not be read; KDA_OK = it was */
    enum kda_status missing; /* the same of something outside */
    struct kda_etw_silo *silo;
};

struct kda_carver {
    enum kda_pool_kind kind;
    const char *what;
    const char *type; /* of the object; NULL = no object */
    bool bare;        /* also without object header: registrations of drivers */
    enum kda_struct_id structure;
    void (*prove)(struct kda_carve_proof *proof, uint64_t va);
    void (*add)(struct kda_carve_proof *proof, uint64_t va);
    /* Is it a copy of an object that a list names? Are two of them one and its copy? NULL where
     * `prove` settles that: the object holds its own address. */
    bool (*copied)(const struct kda_etw *etw, uint64_t va);
    bool (*same)(const struct kda_etw *etw, uint64_t a, uint64_t b);
    enum kda_field_id needs[KDA_CARVER_NEEDS]; /* ends with KDA_CARVER_END */
};

extern const struct kda_carver kda_carvers[KDA_CARVERS];

#endif
