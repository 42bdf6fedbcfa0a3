/*
 * Sleeping: whoever fills the ring to the watermark while the consumer naps, wakes it; nobody
 * wakes twice; a consumer does not fall asleep over a filled ring. The timeout is only for what is
 * below the watermark. The tail by which a producer counts first is an old one.
 *
 * run: flag_then_heads => ok
 * run: urgent MARK=1 => ok
 * run: heads_then_flag HEADS_FIRST => error
 * run: two_wake_ups NO_SWAP => error
 */
#ifndef MARK
#define MARK 2
#endif
#define EACH 2

byte head, pos, tail, cached, finished, wakes, naps;
bool sleeping, event, waiting, gave_up;

proctype producer()
{
    byte n, used, mine;
    bool was;
    do
    :: n == EACH -> break
    :: else ->
        atomic { head++; mine = head; used = mine - cached };
        if
        :: used >= MARK ->
            if
            :: sleeping ->
                /* What was read since the shard was last looked at does not count. */
                used = tail;
                cached = used;
                if
                :: used >= mine -> used = 0     /* ours is read already */
                :: else -> used = mine - used
                fi
            :: else -> used = 0
            fi
        :: else
        fi;
        if
        :: used >= MARK ->
            if
            :: sleeping ->
#ifdef NO_SWAP
                was = true;
                sleeping = false;
#else
                atomic { was = sleeping; sleeping = false };
#endif
                if
                :: was -> atomic { event = true; wakes++ }
                :: else
                fi
            :: else
            fi
        :: else
        fi;
        n++
    od;
    atomic { finished++ }
}

proctype consumer()
{
    byte seen;
    do
    :: pos = head;
        tail = pos;
#ifdef HEADS_FIRST
        seen = head;
        atomic { sleeping = true; naps++ };
#else
        atomic { sleeping = true; naps++ };
        seen = head;
#endif
        if
        :: seen - pos >= MARK -> sleeping = false
        :: else ->
            /* The timeout comes only where nothing else can happen. */
            if
            :: event -> event = false
            :: timeout ->
                assert(head - pos < MARK);
                gave_up = true
            fi;
            sleeping = false;
            assert(wakes <= naps)
        fi;
        if
        :: gave_up && finished == 2 && pos == head -> break
        :: else -> gave_up = false
        fi
    od
}

init
{
    atomic { run producer(); run producer(); run consumer() }
}
