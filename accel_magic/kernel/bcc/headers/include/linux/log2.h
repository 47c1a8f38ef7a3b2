/* Used by BCC's BPF_STACK_TRACE: a constant expression if `n` is constant. */
#define roundup_pow_of_two(n) ((n) <= 1 ? 1UL : 1UL << (64 - __builtin_clzll((n) - 1ULL)))
