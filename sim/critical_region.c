/*
 * critical_region.c - in between, no normal kernel APC is delivered to the thread.
 */
#include "machine.h"

VOID KeEnterCriticalRegion(VOID)
{
    SIM_DDI(APC_LEVEL);
    sim_self()->critical++;
}

VOID KeLeaveCriticalRegion(VOID)
{
    SIM_DDI(APC_LEVEL);
    SIM_CHECK(sim_self()->critical > 0, "no critical region was entered");
    sim_self()->critical--;
}
