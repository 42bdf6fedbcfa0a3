/*
 * Loss counters of one shard and reason: the sums are exact, and no loss that a take counts is
 * outside the times it tells.
 *
 * run: exact => ok
 * run: without_carry NO_CARRY => error
 * run: count_first COUNT_FIRST => error
 */
#define EACH 2
byte clock = 1;
byte begun, first, last, count;
byte time_of[5];        /* ghost: time of the n-th counted loss */
byte finished, told, carried;

proctype producer()
{
    byte n, t, seen;
    do
    :: n == EACH -> break
    :: else ->
        atomic { t = clock; clock++ };
#ifdef COUNT_FIRST
        atomic { time_of[count] = t; count++ };
#endif
        begun++;
        seen = first;
        do
        :: seen == 0 || t < seen ->
            atomic {
                if
                :: first == seen -> first = t; seen = 1
                :: else -> seen = first
                fi
            };
            if
            :: first == t -> break
            :: seen == 1 -> break
            :: else
            fi
        :: else -> break
        od;
        seen = last;
        do
        :: t > seen ->
            atomic {
                if
                :: last == seen -> last = t; seen = t
                :: else -> seen = last
                fi
            }
        :: else -> break
        od;
#ifndef COUNT_FIRST
        atomic { time_of[count] = t; count++ };
#endif
        n++
    od;
    atomic { finished++ }
}

proctype consumer()
{
    byte c, f, l, b, i;
    bool final;
    do
    :: final = (finished == 2);
        c = count;
        atomic { f = first; first = 0 };
        l = last;
        b = begun;
        atomic {
            if
            :: f == 0 || (carried != 0 && carried < f) -> f = carried
            :: else
            fi;
            carried = f;
            if
            :: c > told ->
                i = told;
                do
                :: i < c ->
                    assert(f != 0 && f <= time_of[i] && time_of[i] <= l);
                    i++
                :: else -> break
                od;
                told = c;
                i = 0;
                if
                :: b == c -> carried = 0
                :: else
                fi
            :: else
            fi;
#ifdef NO_CARRY
            carried = 0;
#endif
            f = 0; l = 0; b = 0; c = 0
        };
        if
        :: final -> break
        :: else
        fi
    od;
    assert(told == 2 * EACH)
}

init
{
    atomic { run producer(); run producer(); run consumer() }
}
