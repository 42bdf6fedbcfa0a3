/*
 * clock.c - what gives a session's raw times their meaning.
 */
#include "kda/buffers.h"

#include <string.h>

#include "base/bytes.h"

/* KUSER_SHARED_DATA stands at a fixed address. Source: ntddk.h, KI_USER_SHARED_DATA; QpcFrequency
 * at 0x300 from Windows 8 on (older ones have a flag there, which is no frequency). */
#define SHARED_DATA_VA 0xfffff78000000000u
#define SHARED_QPC_FREQUENCY 0x300u
#define QPC_MIN 100000u
#define QPC_MAX 100000000000u
/* KPRCB.MHz by the form of the ETW state, since no table carries it. Source: PDB tables 6.1.7601 to
 * 10.0.14393 and 10.0.17763 to 10.0.22000. */
#define MHZ_OLD 0x5f4u
#define MHZ_NEW 0x44u
#define MHZ_MIN 100u
#define MHZ_MAX 20000u

/* 0 = none, or not readable, which is a gap. An address that nothing maps is no page of this
 * kernel. */
static uint64_t number(struct kda_kernel *kernel, uint64_t va, size_t size)
{
    uint8_t bytes[8] = {0};
    struct kda_error why;
    enum kda_status status = va != 0 ? kda_read(kernel, va, bytes, size, &why) : KDA_UNMAPPED;
    if (status == KDA_OK)
        return kda_le64(bytes);
    if (status != KDA_UNMAPPED && !kda_kernel_exhausted(kernel))
        kda_gaps_add(kda_kernel_gaps(kernel), "clock", va, status, "clock of the session: %s",
                     why.text);
    return 0;
}

static uint64_t qword(struct kda_kernel *kernel, uint64_t va)
{
    return number(kernel, va, 8);
}

static uint64_t qpc_frequency(struct kda_kernel *kernel)
{
    uint64_t frequency = qword(kernel, kda_symbol_va(kernel, KDA_SYM_EtwPerfFreq));
    uint32_t at = kda_field_offset(kernel, KDA_F_KUSER_SHARED_DATA_QpcFrequency);
    if (frequency == 0)
        frequency = qword(kernel, SHARED_DATA_VA + (at != KDA_NONE ? at : SHARED_QPC_FREQUENCY));
    return frequency >= QPC_MIN && frequency <= QPC_MAX ? frequency : 0;
}

static uint32_t cpu_mhz(struct kda_kernel *kernel)
{
    uint64_t prcb = qword(kernel, kda_symbol_va(kernel, KDA_SYM_KiProcessorBlock));
    bool newer = kda_has_field(kernel, KDA_F_ETW_SILODRIVERSTATE_EtwpLoggerContext);
    if (!kda_is_kernel_va(kernel, prcb))
        return 0;
    uint64_t mhz = number(kernel, prcb + (newer ? MHZ_NEW : MHZ_OLD), 4);
    return mhz >= MHZ_MIN && mhz <= MHZ_MAX ? (uint32_t)mhz : 0;
}

void kda_etw_session_clock(struct kda_kernel *kernel, const struct kda_etw_session *session,
                           struct kda_etw_clock *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (KDA_ETW_HAS(session, S, CLOCK))
        ret->type = session->clock;
    ret->qpc_frequency = qpc_frequency(kernel);
    ret->cpu_mhz = cpu_mhz(kernel);
    if (ret->type == 1)
        ret->frequency = ret->qpc_frequency;
    else if (ret->type == 2)
        ret->frequency = 10000000;
    else if (ret->type == 3)
        ret->frequency = (uint64_t)ret->cpu_mhz * 1000000u;
    uint32_t reference = kda_field_offset(kernel, KDA_F_WMI_LOGGER_CONTEXT_ReferenceTime);
    uint32_t time = kda_field_offset(kernel, KDA_F_ETW_REF_CLOCK_StartTime);
    uint32_t raw = kda_field_offset(kernel, KDA_F_ETW_REF_CLOCK_StartPerfClock);
    if (reference == KDA_NONE || time == KDA_NONE || raw == KDA_NONE)
        return;
    ret->time_100ns = qword(kernel, session->va + reference + time);
    ret->raw = qword(kernel, session->va + reference + raw);
}
