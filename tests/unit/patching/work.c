/* Functions with different first instructions, called by threads that count their calls. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#define CALLED __attribute__((noinline, noipa, visibility("default")))

CALLED long by_lea(long a, long b)
{
	__asm__ volatile("");
	return a + b;
}

CALLED long by_memory(long a, long b)
{
	volatile long values[4] = {a, b};

	return values[0] + values[1];
}

CALLED __attribute__((optimize("no-omit-frame-pointer"))) long by_push(long a, long b)
{
	volatile long value = a;

	__asm__ volatile("" ::: "rbx", "r12", "r13");
	return value + b;
}

CALLED __attribute__((patchable_function_entry(5, 0))) long by_nops(long a, long b)
{
	return a + b;
}

static long constant = 1;

CALLED long by_global(long a, long b)
{
	return a + b * *(volatile long *)&constant;
}

CALLED long by_branch(long a, long b)
{
	if (a < 0)
		return by_lea(a, b);
	return a + b;
}

CALLED long by_call(long a, long b)
{
	__asm__ volatile("" ::: "memory");
	return by_memory(a, b) + 0 * by_lea(a, b);
}

/* Begins with a call, whose return address is within the function. */
__asm__(".globl begins_with_call\n"
	".type begins_with_call,@function\n"
	".p2align 4\n"
	"begins_with_call:\n"
	".cfi_startproc\n"
	"	call local_sum\n"
	"	ret\n"
	".cfi_endproc\n"
	".size begins_with_call,.-begins_with_call\n"
	".type local_sum,@function\n"
	"local_sum:\n"
	".cfi_startproc\n"
	"	lea (%rdi,%rsi),%rax\n"
	"	ret\n"
	".cfi_endproc\n"
	".size local_sum,.-local_sum\n");
extern long begins_with_call(long a, long b);

/* Shorter than a jump; padding follows. */
__asm__(".globl tiny\n"
	".type tiny,@function\n"
	".p2align 4\n"
	"tiny:\n"
	"	xor %eax,%eax\n"
	"	ret\n"
	".size tiny,.-tiny\n"
	".p2align 4\n");

/* Every register and flag goes through, and ten arguments. */
__asm__(".globl keeps_registers\n"
	".type keeps_registers,@function\n"
	".p2align 4\n"
	"keeps_registers:\n"
	".cfi_startproc\n"
	"	nop\n"
	"	nop\n"
	"	nop\n"
	"	nop\n"
	"	nop\n"
	"	mov $0x1234,%eax\n"
	"	ret\n"
	".cfi_endproc\n"
	".size keeps_registers,.-keeps_registers\n");

struct registers {
	uint64_t general[14]; /* rcx rdx rsi rdi r8-r15 rbx rbp */
	unsigned char vectors[16][32];
};

/* Calls a function with these registers, and stores what they are afterwards. */
__attribute__((target("avx"))) CALLED void call_with(void (*function)(void), const struct registers *before, struct registers *after)
{
	__asm__ volatile(
		"push %%rbp\n push %%rbx\n push %%r12\n push %%r13\n push %%r14\n push %%r15\n push %[after]\n push %[function]\n"
		"vmovdqu 112(%[before]),%%ymm0\n vmovdqu 144(%[before]),%%ymm1\n vmovdqu 176(%[before]),%%ymm2\n"
		"vmovdqu 208(%[before]),%%ymm3\n vmovdqu 240(%[before]),%%ymm4\n vmovdqu 592(%[before]),%%ymm15\n"
		"mov 0(%[before]),%%rcx\n mov 8(%[before]),%%rdx\n mov 16(%[before]),%%rsi\n mov 32(%[before]),%%r8\n"
		"mov 40(%[before]),%%r9\n mov 48(%[before]),%%r10\n mov 56(%[before]),%%r11\n mov 64(%[before]),%%r12\n"
		"mov 72(%[before]),%%r13\n mov 80(%[before]),%%r14\n mov 88(%[before]),%%r15\n mov 96(%[before]),%%rbx\n"
		"mov 104(%[before]),%%rbp\n mov 24(%[before]),%%rdi\n"
		"call *(%%rsp)\n"
		"mov 8(%%rsp),%%rax\n"
		"mov %%rcx,0(%%rax)\n mov %%rdx,8(%%rax)\n mov %%rsi,16(%%rax)\n mov %%rdi,24(%%rax)\n mov %%r8,32(%%rax)\n"
		"mov %%r9,40(%%rax)\n mov %%r10,48(%%rax)\n mov %%r11,56(%%rax)\n mov %%r12,64(%%rax)\n mov %%r13,72(%%rax)\n"
		"mov %%r14,80(%%rax)\n mov %%r15,88(%%rax)\n mov %%rbx,96(%%rax)\n mov %%rbp,104(%%rax)\n"
		"vmovdqu %%ymm0,112(%%rax)\n vmovdqu %%ymm1,144(%%rax)\n vmovdqu %%ymm2,176(%%rax)\n vmovdqu %%ymm3,208(%%rax)\n"
		"vmovdqu %%ymm4,240(%%rax)\n vmovdqu %%ymm15,592(%%rax)\n"
		"add $16,%%rsp\n pop %%r15\n pop %%r14\n pop %%r13\n pop %%r12\n pop %%rbx\n pop %%rbp\n"
		:
		: [function] "a"(function), [before] "D"(before), [after] "S"(after)
		: "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm15");
}

CALLED double many(long a, long b, long c, long d, long e, long f, long g, double h, long double i, long j)
{
	return (double)(a + b + c + d + e + f + g + j) + h + (double)i;
}

double call_many(void)
{
	return many(1, 2, 3, 4, 5, 6, 7, 0.5, 0.25L, 8);
}

/* Threads */

struct job {
	long (*function)(long, long);
	long calls;
	volatile int *stop;
	long wrong;
};

static void *run(void *argument)
{
	struct job *job = argument;
	long at = 0;

	for (; job->stop ? !*job->stop : at < job->calls; at++)
		job->wrong += job->function(at, 1) != at + 1;
	job->calls = at;
	return NULL;
}

static pthread_t threads[64];
static struct job jobs[64];
static volatile int stop;

/* Calls a function so often in each thread, or until they are ended if `calls` is 0. */
void begin_threads(long (*function)(long, long), int count, long calls)
{
	stop = 0;
	for (int at = 0; at < count; at++) {
		jobs[at] = (struct job){function, calls, calls ? NULL : &stop, 0};
		pthread_create(&threads[at], NULL, run, &jobs[at]);
	}
}

/* Returns the number of calls, or -1 if a result was wrong. */
long end_threads(int count)
{
	long calls = 0, wrong = 0;

	stop = 1;
	for (int at = 0; at < count; at++) {
		pthread_join(threads[at], NULL);
		calls += jobs[at].calls;
		wrong += jobs[at].wrong;
	}
	return wrong ? -1 : calls;
}

/* Frames that are left otherwise than by returning */

static jmp_buf place;

CALLED long jumps(long depth)
{
	long result;

	if (!depth)
		longjmp(place, 1);
	result = jumps(depth - 1);
	__asm__ volatile("" : "+r"(result));
	return result;
}

long jump_often(long times)
{
	volatile long done = 0;

	for (volatile long at = 0; at < times; at++)
		if (!setjmp(place))
			jumps(3);
		else
			done++;
	return done;
}

CALLED void *waits(void *unused)
{
	for (;;)
		pause();
	return unused;
}

CALLED void *leaves(void *value)
{
	pthread_exit(value);
}

static void *through_waits(void *argument)
{
	return waits(argument);
}

static void *through_leaves(void *argument)
{
	return leaves(argument);
}

long cancel_and_exit(void)
{
	pthread_t thread;
	void *value;
	long right = 0;

	pthread_create(&thread, NULL, through_waits, NULL);
	usleep(10000);
	pthread_cancel(thread);
	pthread_join(thread, &value);
	right += value == PTHREAD_CANCELED;
	pthread_create(&thread, NULL, through_leaves, (void *)5);
	pthread_join(thread, &value);
	return right + (value == (void *)5);
}

/* Coroutines that return in another order than they were called */

enum { COROUTINES = 20 };
static ucontext_t main_context, contexts[COROUTINES];
static long yielded;

CALLED long yields(long number)
{
	swapcontext(&contexts[number], &main_context);
	return number + 1;
}

static void coroutine(int number)
{
	yielded += yields(number);
}

long coroutines(long rounds)
{
	static char stacks[COROUTINES][1 << 16];

	yielded = 0;
	for (long round = 0; round < rounds; round++) {
		for (int at = 0; at < COROUTINES; at++) {
			getcontext(&contexts[at]);
			contexts[at].uc_stack.ss_sp = stacks[at];
			contexts[at].uc_stack.ss_size = sizeof stacks[at];
			contexts[at].uc_link = &main_context;
			makecontext(&contexts[at], (void (*)(void))coroutine, 1, at);
			swapcontext(&main_context, &contexts[at]);
		}
		for (int at = 0; at < COROUTINES; at++)
			swapcontext(&main_context, &contexts[(at * 7) % COROUTINES]);
	}
	return yielded;
}

/* Signals */

static volatile long handled;

CALLED long in_handler(long a, long b)
{
	return a + b;
}

static void on_alarm(int number)
{
	handled += in_handler(number, 0) != 0;
}

/* Calls a function while a timer's handler calls another; returns how often that ran. */
long with_timer(long (*function)(long, long), long calls)
{
	struct sigaction action = {.sa_handler = on_alarm}, before;
	struct itimerval timer = {{0, 50}, {0, 50}}, off = {{0, 0}, {0, 0}};

	handled = 0;
	sigaction(SIGPROF, &action, &before);
	setitimer(ITIMER_PROF, &timer, NULL);
	for (long at = 0; at < calls; at++)
		if (function(at, 1) != at + 1)
			return -1;
	setitimer(ITIMER_PROF, &off, NULL);
	sigaction(SIGPROF, &before, NULL);
	return handled;
}

static jmp_buf outside;

static void leave_handler(int number)
{
	in_handler(number, 0);
	longjmp(outside, 1);
}

/* Handlers leave by longjmp, wherever they have interrupted: also probes. Returns the calls that returned. */
long left_by_handlers(long (*function)(long, long), long times)
{
	struct sigaction action = {.sa_handler = leave_handler, .sa_flags = SA_NODEFER}, before;
	struct itimerval timer = {{0, 0}, {0, 20}};
	volatile long done = 0, round = 0;

	sigaction(SIGPROF, &action, &before);
	while (round < times) {
		round++;
		if (setjmp(outside))
			continue;
		setitimer(ITIMER_PROF, &timer, NULL);
		for (volatile long at = 0; at < 1000000000; at++)
			done += function(at, 1) != 0;
	}
	sigaction(SIGPROF, &before, NULL);
	return done;
}

/* Begins with an instruction that is so slow that interrupts arrive behind it. */
__asm__(".globl by_slow\n"
	".type by_slow,@function\n"
	".p2align 4\n"
	"by_slow:\n"
	".cfi_startproc\n"
	"	push %rbx\n"
	".cfi_adjust_cfa_offset 8\n"
	"	cpuid\n"
	"	nop\n"
	"	nop\n"
	"	lea (%rdi,%rsi),%rax\n"
	"	pop %rbx\n"
	".cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size by_slow,.-by_slow\n");
extern long by_slow(long a, long b);

/* Unwinds at each instruction of a call, by the trap flag. */

static unsigned long stepped_start, stepped_end;
static long steps, unwound;
static void *called_from;

static void on_step(int number, siginfo_t *info, void *context)
{
	unsigned long at = (unsigned long)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	void *found[64];
	int count;

	(void)number, (void)info;
	if (at < stepped_start || at >= stepped_end)
		return;
	steps++;
	count = backtrace(found, 64);
	for (int frame = 0; frame < count; frame++)
		if (found[frame] == called_from) {
			unwound++;
			return;
		}
}

CALLED __attribute__((optimize("no-omit-frame-pointer"))) long stepped(long (*function)(long, long))
{
	long result;

	called_from = __builtin_return_address(0);
	__asm__ volatile("sub $128,%%rsp\n pushf\n orl $0x100,(%%rsp)\n popf\n call *%[function]\n pushf\n andl $~0x100,(%%rsp)\n"
			 "popf\n add $128,%%rsp\n"
			 : "=a"(result)
			 : "D"(5l), "S"(1l), [function] "r"(function)
			 : "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
	return result;
}

/* Steps through a call; counts steps in a range of addresses, and those from which the caller was found. */
long step(long (*function)(long, long), unsigned long start, unsigned long end, long *in_range, long *found)
{
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, before;
	void *warm[1];
	long result;

	backtrace(warm, 1);
	stepped_start = start;
	stepped_end = end;
	steps = unwound = 0;
	sigaction(SIGTRAP, &action, &before);
	result = stepped(function);
	sigaction(SIGTRAP, &before, NULL);
	*in_range = steps;
	*found = unwound;
	return result;
}

/* Memory that functions are given */

CALLED long reads(const char *text, const int32_t *values)
{
	return (text && values) ? values[1] : -1;
}

CALLED long recurses(long depth)
{
	long result = depth ? recurses(depth - 1) + 1 : 0;

	__asm__ volatile("" : "+r"(result));
	return result;
}

/* What an unwinder finds that is called by three functions */

struct walk {
	void **found;
	int most, count;
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *argument)
{
	struct walk *walk = argument;

	if (walk->count < walk->most)
		walk->found[walk->count++] = (void *)_Unwind_GetIP(context);
	return _URC_NO_REASON;
}

CALLED long unwinds(void **found, int most)
{
	struct walk walk = {found, most, 0};
	long count;

	_Unwind_Backtrace(add_frame, &walk);
	count = walk.count;

	__asm__ volatile("" : "+r"(count));
	return count;
}

CALLED long calls_unwinds(void **found, int most)
{
	long count = unwinds(found, most);

	__asm__ volatile("" : "+r"(count));
	return count;
}

CALLED long begins_unwinds(void **found, int most)
{
	long count = calls_unwinds(found, most);

	__asm__ volatile("" : "+r"(count));
	return count;
}

CALLED long calls_back(void (*function)(void))
{
	long one = 1;

	function();
	__asm__ volatile("" : "+r"(one));
	return one;
}

CALLED long calls_calls_back(void (*function)(void))
{
	long one = calls_back(function);

	__asm__ volatile("" : "+r"(one));
	return one;
}
