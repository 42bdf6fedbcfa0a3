/*
 * One shard: reserving, pads, committing last, clearing, tail_cached, thresholds, refusing. Every
 * payload cell is written with the most harmful value: one that reads as a committed record.
 * Positions are counted in cells and do not wrap here.
 *
 * run: two_producers => ok
 * run: nested NESTED => ok
 * run: storm STORM => ok
 * run: without_clearing NO_CLEAR => error
 * run: commit_first COMMIT_FIRST => error
 * run: tail_before_clearing TAIL_FIRST => error
 * run: waits_for_the_other NESTED WAIT => error
 * run: same_threshold STORM ONE_LIMIT => error
 */
#define SIZE 6
#define CELLS 64
#define NOTHING 255
#define COMMITTED 16
#define PAD 32
#define HOSTILE (COMMITTED + 1)

byte cell[SIZE];
byte head, tail, tail_cached, pos;
byte latest = NOTHING;  /* position of the record reserved last */
byte real[CELLS];       /* ghost: length of the record that was reserved at a position */
bool complete[CELLS];   /* ghost: all of it was written */
byte accepted, refused, popped, pushes;
bool busy;              /* a nested producer runs: the one below it does not */
byte finished;
bool process_refused;

inline push(length, limit, is_process)
{
    h = head;
    t = tail_cached;
    done = false;
    do
    :: done -> break
    :: else ->
        need = (SIZE - h % SIZE >= length -> length : (SIZE - h % SIZE) + length);
        if
        :: h - t + need > limit ->
            t = tail;
            if
            :: h - t + need > limit && h - t <= SIZE ->
                atomic {
                    refused++;
                    process_refused = process_refused || is_process;
                    done = true
                }
            :: h - t > SIZE -> h = head          /* a head older than the tail */
            :: else -> tail_cached = t
            fi
        :: else ->
            atomic {
                if
                :: head == h ->
                    head = h + need;
                    p = h + need - length;
                    real[p] = length;
                    before_p = latest;
                    latest = p;
                    accepted++;
                    done = true
                :: else -> h = head; need = 0
                fi
            };
            if
            :: need > length -> cell[h % SIZE] = PAD + (need - length)
            :: else
            fi;
            if
            :: done ->
#ifdef COMMIT_FIRST
                cell[p % SIZE] = COMMITTED + length;
#endif
                i = 1;
                do
                :: i < length -> cell[(p + i) % SIZE] = HOSTILE; i++
                :: else -> break
                od;
#ifdef WAIT
                /* As rings do that publish in the order of reservation. */
                /* The producer below cannot run now, so this would wait for ever. */
                assert(!busy || before_p == NOTHING || complete[before_p]);
#endif
#ifndef COMMIT_FIRST
                atomic { complete[p] = true; cell[p % SIZE] = COMMITTED + length }
#endif
            :: else
            fi
        fi
    od;
    pushes++
}

proctype below() provided (!busy)
{
    byte h, t, need, p, before_p, i;
    bool done;
#ifdef STORM
    push(2, 4, false);
    push(2, 4, false);
#endif
    push(2, 6, false);
    push(1, 6, false);
    atomic { finished++ }
}

proctype above()
{
    byte h, t, need, p, before_p, i;
    bool done;
#ifdef NESTED
    busy = true;
#endif
#ifdef STORM
#ifdef ONE_LIMIT
    push(2, 4, true);
#else
    push(2, 6, true);
#endif
#else
    push(3, 6, true);
    push(2, 6, true);
#endif
    atomic { busy = false; finished++ }
}

#ifdef STORM
/* A storm that respects its threshold: any number of its records never takes the last two cells. */
proctype storm()
{
    byte h, t, need, p, before_p, i;
    bool done;
    push(2, 4, false);
    push(2, 4, false);
    push(2, 4, false);
    atomic { finished++ }
}
#endif

proctype consumer()
{
    byte lim, word, i;
    do
    :: lim = head;
        if
        :: pos == lim && finished == 2 ->
            lim = head;
            if
            :: pos == lim -> break
            :: else
            fi
        :: else
        fi;
        do
        :: pos < lim ->
            word = cell[pos % SIZE];
            if
            :: word == 0 -> break
            :: word >= PAD -> cell[pos % SIZE] = 0; pos = pos + word - PAD
            :: else ->
                assert(complete[pos] && real[pos] == word - COMMITTED);
                i = 1;
                do
                :: i < word - COMMITTED ->
                    assert(cell[(pos + i) % SIZE] == HOSTILE);
                    i++
                :: else -> break
                od;
                popped++;
#ifdef TAIL_FIRST
                tail = pos + word - COMMITTED;
#endif
                i = 0;
                do
                :: i < word - COMMITTED ->
#ifdef NO_CLEAR
                    if
                    :: i == 0 -> cell[pos % SIZE] = 0
                    :: else
                    fi;
#else
                    cell[(pos + i) % SIZE] = 0;
#endif
                    i++
                :: else -> break
                od;
                pos = pos + word - COMMITTED
            fi
        :: else -> break
        od;
        tail = pos
    od;
    assert(popped == accepted && accepted + refused == pushes && pos == head);
#ifdef STORM
    assert(!process_refused)
#endif
}

init
{
    atomic {
#ifdef STORM
        run storm();
#else
        run below();
#endif
        run above();
        run consumer()
    }
}
