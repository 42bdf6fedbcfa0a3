/*
 * Stopping: sensors off, callbacks in flight waited for, everything drained. After that no push
 * comes, nothing is reserved, nothing is lost.
 *
 * run: rundown => ok
 * run: without_rundown NO_RUNDOWN => error
 * run: drain_before_waiting DRAIN_FIRST => error
 */
#define ROOM 6
#define EACH 2
byte head, pos, in_flight, pushed;
bool committed[ROOM];
bool stopping, drained;

proctype callback()
{
    byte n, p;
    bool in;
    do
    :: n == EACH -> break
    :: else ->
        atomic {
            in = !stopping;
            if
            :: in -> in_flight++
            :: else
            fi
        };
        if
        :: in ->
            assert(!drained);
            atomic { p = head; head++ };
            committed[p] = true;
            assert(!drained);
            atomic { pushed++; in_flight-- }
        :: else
        fi;
        n++
    od
}

inline drain()
{
    do
    :: pos < head ->
        (committed[pos]);
        pos++
    :: else -> break
    od
}

proctype stopper()
{
    stopping = true;
#ifdef DRAIN_FIRST
    drain();
    (in_flight == 0);
#else
#ifndef NO_RUNDOWN
    (in_flight == 0);
#endif
    drain();
#endif
    drained = true;
    assert(pos == head && pos == pushed)
}

init
{
    atomic { run callback(); run callback(); run stopper() }
}
