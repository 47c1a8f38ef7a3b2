#include "driver.h"

#include "../preload/preload.h"

struct driver driver;

int driver_find(void)
{
	int complete = 1;

#define FIND(name, symbol, arguments) \
	if (!driver.name)             \
		driver.name = (CUresult(*) arguments)preload_function(#symbol);
#define REQUIRE(name, symbol, arguments) complete &= driver.name != NULL;
	DRIVER_CALLS(FIND)
	OPTIONAL_CALLS(FIND)
	DRIVER_CALLS(REQUIRE)
#undef FIND
#undef REQUIRE
	return complete;
}
