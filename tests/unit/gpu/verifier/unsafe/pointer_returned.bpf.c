#include "programs.h"

SEC("gpu/exit")
long judged(struct gpu_ctx *ctx)
{
	return (long)ctx; // refuse: pointer-leak at this line
}
