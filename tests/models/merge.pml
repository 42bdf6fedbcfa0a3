/*
 * Two shards merged by time. A thread's records never overtake each other, whichever shards they go
 * to: it may change its CPU before each push (MIGRATE), or stay and be refused by its own shard and
 * spill, while the clock stands still (default) or moves now and then (TICKS).
 *
 * run: migration MIGRATE => ok
 * run: one_pass MIGRATE ONE_PASS => error
 * run: spill => ok
 * run: spill_same_home SAME_HOME => ok
 * run: spill_ticks TICKS SECOND=1 => ok
 * run: spill_ticks_same_home TICKS SECOND=1 SAME_HOME => ok
 * run: spill_without_rule NO_RULE => error
 * run: spill_to_each_other CROSSED => ok
 * run: spill_by_refusal_only CROSSED RESERVED=refused => error
 * run: busy_between BUSY_IGNORED => error
 * run: stops_too_early SAME_HOME STOP=reserved => error
 * run: forgets_what_it_passed SAME_HOME FORGETFUL => error
 * run: busy_passed_over MIGRATE PASS_BUSY => error
 */
#ifndef RESERVED
#define RESERVED reserved
#endif
#ifndef STOP
#define STOP refused
#endif
#ifdef CROSSED
#define THREADS 4       /* one push each; of each home one that spills and one that stays */
#define ALL 4
#else
#define THREADS 2
#ifndef SECOND
#define SECOND 2        /* pushes of the second producer */
#endif
#define ALL (2 + SECOND)
#endif
#define ROOM 4

typedef shard_t {
    byte head;
    bool committed[ROOM];
    byte time[ROOM];
    byte owner[ROOM];
    byte number[ROOM];
    bool spilled[ROOM];
    byte home[ROOM];
    byte refused[ROOM];
    byte reserved[ROOM];
};
shard_t shard[2];
byte clock = 1;
byte finished;

proctype producer(byte me; byte mine; byte each)
{
    byte n, s, t, p, h;
    bool spill;
    do
    :: n == each -> break
    :: else ->
        s = mine;
        spill = false;
        h = 0;
#ifdef MIGRATE
        if
        :: s = 0
        :: s = 1
        fi;
        atomic { clock++; t = clock };
#else
#ifdef TICKS
        atomic {
            if
            :: clock++
            :: skip
            fi;
            t = clock
        };
#else
        t = 1;
#endif
#ifdef CROSSED
        if
        :: me >= 2
        :: else -> h = shard[mine].head; spill = true; s = 1 - mine
        fi;
#else
        if
        :: skip
        :: h = shard[mine].head; spill = true; s = 1 - mine
        fi;
#endif
#endif
        atomic {
            p = shard[s].head;
            shard[s].head++;
            shard[s].owner[p] = me;
            shard[s].number[p] = n;
            shard[s].time[p] = t;
            shard[s].spilled[p] = spill;
            shard[s].home[p] = mine;
            shard[s].refused[p] = h
        };
        if
        :: spill -> shard[s].reserved[p] = shard[mine].head
        :: else
        fi;
        /* What is used no more is set to 0, so that fewer states differ. */
        atomic { shard[s].committed[p] = true; n++; s = 0; t = 0; p = 0; h = 0; spill = false }
    od;
    atomic { finished++ }
}

byte pos[2], lim[2], lim2[2], next[THREADS];

/* How far the other shard was looked through for older records than the front of this one: by
 * spilled fronts, by others; smallest head among the spilled records that the latter passed. */
byte seen_own[2], seen_spilled[2], least[2];

/* may = the front of shard s may go before an equal front of the other shard. */
inline may_go_first(s)
{
    may = true;
    if
    :: shard[s].spilled[pos[s]] ->
        q = (seen_own[s] < pos[1 - s] -> pos[1 - s] : seen_own[s])
    :: else ->
        q = seen_spilled[s];
        if
        :: q < pos[1 - s] || (least[s] != 0 && pos[s] >= least[s]) -> q = pos[1 - s]; least[s] = 0
        :: else
        fi
    fi;
    do
    :: q >= lim2[1 - s] -> break
    :: q < lim2[1 - s] && !shard[1 - s].committed[q] ->
#ifndef BUSY_IGNORED
        if
        :: shard[s].spilled[pos[s]] && q >= shard[s].refused[pos[s]]
        :: else -> may = false; unsure = true
        fi;
#endif
        break
    :: q < lim2[1 - s] && shard[1 - s].committed[q] &&
       shard[1 - s].time[q] > shard[s].time[pos[s]] -> break
    :: q < lim2[1 - s] && shard[1 - s].committed[q] &&
       shard[1 - s].time[q] <= shard[s].time[pos[s]] ->
        if
        :: shard[s].spilled[pos[s]] && !shard[1 - s].spilled[q] ->
            may = q >= shard[s].refused[pos[s]];
            break
        :: !shard[s].spilled[pos[s]] && shard[1 - s].spilled[q] && shard[1 - s].home[q] == s ->
            if
            :: pos[s] >= shard[1 - s].RESERVED[q] -> may = false; break
            :: pos[s] < shard[1 - s].RESERVED[q] && pos[s] < shard[1 - s].STOP[q] -> break
            :: else ->
#ifndef FORGETFUL
                if
                :: least[s] == 0 || shard[1 - s].RESERVED[q] < least[s] ->
                    least[s] = shard[1 - s].RESERVED[q]
                :: else
                fi
#else
                skip
#endif
            fi
        :: else
        fi;
        q++
    od;
    if
    :: shard[s].spilled[pos[s]] -> seen_own[s] = q
    :: else -> seen_spilled[s] = q
    fi;
    q = 0
}

proctype consumer()
{
    byte s, best, out, q;
    bool held, may, unsure;
    do
    :: out == ALL -> break
    :: else ->
        /* Looking again is of use only when there is something new. */
        (shard[0].head != lim[0] || shard[1].head != lim[1] || held);
        atomic { held = false; may = false; unsure = false; best = 0; lim[0] = shard[0].head };
        lim[1] = shard[1].head;
#ifdef ONE_PASS
        atomic { lim2[0] = lim[0]; lim2[1] = lim[1] };
#else
        lim2[0] = shard[0].head;
        lim2[1] = shard[1].head;
#endif
        do
        :: atomic {
            held = false;
            best = 2;
            s = 0;
            do
            :: s == 2 -> break
            :: else ->
                if
                :: pos[s] < lim2[s] && !shard[s].committed[pos[s]] ->
#ifndef PASS_BUSY
                    held = true
#else
                    skip
#endif
                :: pos[s] < lim2[s] && shard[s].committed[pos[s]] ->
                    if
                    :: best == 2 -> best = s
                    :: best != 2 && shard[s].time[pos[s]] < shard[best].time[pos[best]] -> best = s
#ifndef NO_RULE
                    :: best != 2 && shard[s].time[pos[s]] == shard[best].time[pos[best]] ->
                        unsure = false;
                        may_go_first(best);
                        if
                        :: may
                        :: else ->
                            best = s;
                            may_go_first(best);
                            assert(may || unsure);      /* there is no circle */
                            held = held || !may
                        fi
#endif
                    :: else
                    fi
                :: else
                fi;
                s++
            od;
            s = 0;
            if
            :: !held && best != 2 && pos[best] < lim[best] ->
                assert(shard[best].number[pos[best]] == next[shard[best].owner[pos[best]]]);
                next[shard[best].owner[pos[best]]]++;
                shard[best].time[pos[best]] = 0;
                shard[best].owner[pos[best]] = 0;
                shard[best].number[pos[best]] = 0;
                shard[best].spilled[pos[best]] = false;
                shard[best].home[pos[best]] = 0;
                shard[best].refused[pos[best]] = 0;
                shard[best].reserved[pos[best]] = 0;
                pos[best]++;
                out++;
                best = 0
            :: else -> break
            fi
            }
        od;
        atomic { held = held || pos[0] < lim2[0] || pos[1] < lim2[1]; best = 0; may = false;
                 unsure = false }
    od
}

init
{
    atomic {
#ifdef CROSSED
        run producer(0, 0, 1);
        run producer(1, 1, 1);
        run producer(2, 0, 1);
        run producer(3, 1, 1);
#else
        run producer(0, 0, 2);
#ifdef SAME_HOME
        run producer(1, 0, SECOND);
#else
        run producer(1, 1, SECOND);
#endif
#endif
        run consumer()
    }
}
