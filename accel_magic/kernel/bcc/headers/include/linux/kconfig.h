/* The few options that BCC's own headers test. */
#define CONFIG_64BIT 1
#define CONFIG_X86 1
#define CONFIG_X86_64 1
#define CONFIG_BPF_SYSCALL 1
#define CONFIG_TRACEPOINTS 1
#define CONFIG_FUNCTION_TRACER 1
