/* Random cases that are the same in every run. */
#ifndef TENON_TESTS_RANDOM_H
#define TENON_TESTS_RANDOM_H

#include <stdint.h>

static uint64_t seed = 88172645463325252u;

/* A number from 0 to limit - 1. */
static inline int below(int limit)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int)(seed % (uint64_t)limit);
}

#endif
