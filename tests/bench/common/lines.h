/*
 * lines.h - what the machine allows at most between two CPUs.
 */
#ifndef BENCH_LINES_H
#define BENCH_LINES_H

/* Nanoseconds in which CPU 1 reads one line of many that CPU 0 has just written; median. No queue
 * from one CPU to the other can be faster. */
double bench_read_line(void);

#endif
