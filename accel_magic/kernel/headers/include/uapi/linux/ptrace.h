#include <linux/ptrace.h>
