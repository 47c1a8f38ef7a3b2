// Exceptions through frames of functions that are traced: thrown, rethrown, with destructors, caught at several depths.
#include <pthread.h>
#include <stdexcept>
#include <string>

#define CALLED extern "C" __attribute__((noinline, noipa, visibility("default")))

static thread_local long destroyed;

struct Guard {
	~Guard() { destroyed++; }
};

CALLED long throws(long depth)
{
	Guard guard;

	if (!depth)
		throw std::runtime_error("thrown");
	return throws(depth - 1) + 1;
}

CALLED long rethrows(long depth)
{
	try {
		return throws(depth) + 1;
	} catch (const std::logic_error &) {
		return -1;
	} catch (...) {
		throw;
	}
}

CALLED long catches(long depth)
{
	try {
		return rethrows(depth);
	} catch (const std::exception &error) {
		return std::string(error.what()) == "thrown" ? depth : -1;
	}
}

CALLED long returns(long value)
{
	Guard guard;

	return value + 1;
}

// The number of right results: times rounds of a throw and of plain calls.
static void *rounds(void *argument)
{
	long times = (long)argument, right = 0;

	destroyed = 0;
	for (long at = 0; at < times; at++)
		right += catches(at % 6) == at % 6 && returns(at) == at + 1;
	long expected = 0;
	for (long at = 0; at < times; at++)
		expected += at % 6 + 2;
	return (void *)(destroyed == expected ? right : -1);
}

extern "C" long throw_often(long times, int count)
{
	pthread_t threads[16];
	long right = 0;

	for (int at = 0; at < count; at++)
		pthread_create(&threads[at], nullptr, rounds, (void *)times);
	for (int at = 0; at < count; at++) {
		void *found;
		pthread_join(threads[at], &found);
		right += (long)found;
	}
	return right;
}
