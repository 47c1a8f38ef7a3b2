/* Calls a function of the library as often as it is told. */
#include <stdlib.h>

long by_lea(long a, long b);

int main(int count, char **words)
{
	long calls = count > 1 ? atoi(words[1]) : 0, right = 0;

	for (long at = 0; at < calls; at++)
		right += by_lea(at, 1) == at + 1;
	return right != calls;
}
