/* Executes the first instructions of functions, one by one, on registers that are given. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

enum { GENERAL = 16, TRAP = 0x100, ARITHMETIC = 0x8d5, DATA = 1 << 14, WORDS = 32 };

struct range {
	uint64_t start, end;
};

struct state {
	uint64_t registers[GENERAL]; /* in the order of gregs, the last one is rsp */
	uint64_t flags, place, signal, data;
	uint64_t stack[2 * WORDS]; /* below and above the rsp that was given */
};

static uint8_t data[2 * DATA], stack[2 * DATA], handlers[1 << 16];
static const struct range *ranges;
static struct state *state;
static sigjmp_buf back;
static int range_count, steps;
static uint64_t first;

static void begin(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)number, (void)info;
	memcpy(registers, state->registers, sizeof state->registers);
	registers[REG_RIP] = (greg_t)first;
	registers[REG_EFL] = (greg_t)(state->flags | TRAP);
}

static void step(int number, siginfo_t *info, void *context)
{
	const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t place = (uint64_t)registers[REG_RIP];

	(void)info;
	if (number == SIGTRAP && steps-- > 0)
		for (int at = 0; at < range_count; at++)
			if (place >= ranges[at].start && place < ranges[at].end)
				return;
	memcpy(state->registers, registers, sizeof state->registers);
	state->flags = (uint64_t)registers[REG_EFL] & ARITHMETIC;
	state->place = number == SIGTRAP ? place : 0;
	state->signal = (uint64_t)number;
	siglongjmp(back, 1);
}

static uint64_t sum(const uint8_t *from, const uint8_t *to)
{
	uint64_t found = 14695981039346656037u;

	while (from < to)
		found = (found ^ *from++) * 1099511628211u;
	return found;
}

static void fill(uint8_t *memory)
{
	for (int at = 0; at < 2 * DATA; at++)
		memory[at] = (uint8_t)(at * 7 + (at >> 8));
}

static void copy_stack(struct state *found)
{
	memcpy(found->stack, stack + DATA - WORDS * 8, sizeof found->stack);
}

/* A state before, with the middles of the memory that registers may point to, and of the stack. */
void executes_begin(struct state *before)
{
	before->registers[0] = (uint64_t)data + DATA;
	before->registers[GENERAL - 1] = (uint64_t)stack + DATA;
	fill(stack);
	copy_stack(before);
}

/* Executes from an address until another one than those of the ranges is reached; replaces the state by that found. */
long executes(uint64_t from, const struct range *where, int count, int most, struct state *registers)
{
	static const int numbers[] = {SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
	struct sigaction before[5], action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER}, start = action;
	stack_t own = {.ss_sp = handlers, .ss_size = sizeof handlers}, old;

	start.sa_sigaction = begin;
	fill(data);
	fill(stack);
	first = from, ranges = where, range_count = count, steps = most, state = registers;
	sigaltstack(&own, &old);
	for (int at = 0; at < 5; at++)
		sigaction(numbers[at], &action, &before[at]);
	sigaction(SIGUSR1, &start, NULL);
	if (!sigsetjmp(back, 1))
		raise(SIGUSR1);
	for (int at = 0; at < 5; at++)
		sigaction(numbers[at], &before[at], NULL);
	sigaltstack(&old, NULL);
	registers->data = sum(data, data + sizeof data);
	copy_stack(registers);
	return steps >= 0;
}
