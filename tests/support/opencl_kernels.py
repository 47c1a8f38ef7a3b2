"""Random OpenCL C kernels whose results are defined, and which count their own accesses to global memory."""

import random

ITEMS = 256
GROUP = 32
HEAD = """
#pragma OPENCL FP_CONTRACT OFF
// Each load is one access: the compiler must not remove or join any.
#define READ(i) (counted++, from[(i) & 255])
#define WRITE(i, value) (counted++, to[(get_global_id(0) + 256 * ((i) & 3))] = (value))
"""


class _Kernel:
    """One kernel, made of statements over the variables v0, v1, ... (int) and f0, f1, ... (float)."""

    def __init__(self, rng):
        self.rng = rng
        self.depth = 0

    def source(self, name):
        rng = self.rng
        uniform = rng.random() < 0.4
        body = "\n".join(self.statement(barriers=uniform) for _ in range(rng.randint(2, 6)))
        helper = f"int {name}_help(int x, int y)\n{{\n\treturn {self.leafless('x', 'y')};\n}}\n"
        return f"""
{helper}
kernel void {name}(volatile global const int *from, volatile global int *to, global uint *counts, local int *shared)
{{
	int me = get_global_id(0), item = get_local_id(0), v0 = me, v1 = me * 7 + 3, v2 = 1;
	float f0 = me * 0.5f, f1 = 1.25f;
	int kept[8] = {{me, 1, 2, 3, 4, 5, 6, 7}};
	uint counted = 0;
	shared[item] = me;
	barrier(CLK_LOCAL_MEM_FENCE);
{body.replace("HELP", name + "_help")}
	WRITE(0, v0 ^ v1);
	WRITE(1, v2 + kept[me & 7]);
	WRITE(2, as_int(f0) ^ as_int(f1));
	counts[me] = counted;
}}
"""

    def leafless(self, *names):
        rng = self.rng
        first, second = rng.choice(names), rng.choice(names)
        return rng.choice(
            [f"{first} * 3 - {second}", f"({first} ^ {second}) + 5", f"{first} > {second} ? {first} : ~{second}"]
        )

    def integer(self, depth=0):
        rng = self.rng
        if depth > 2 or rng.random() < 0.3:
            return rng.choice(["v0", "v1", "v2", "me", "item", str(rng.randint(-50, 50)), "kept[v1 & 7]"])
        left, right = self.integer(depth + 1), self.integer(depth + 1)
        return rng.choice(
            [
                *(f"({left} {operator} {right})" for operator in ("+", "-", "*", "&", "|", "^")),
                f"({left} / (({right} & 15) + 1))",
                f"({left} % (({right} & 7) + 1))",
                f"({left} << ({right} & 7))",
                f"READ({left})",
                f"READ({left} + {right})",
                f"HELP({left}, {right})",
                f"(({left}) > ({right}) ? ({left}) : READ({right}))",
                f"popcount({left})",
                f"(int)abs_diff({left}, {right})",
                f"convert_int_sat(clamp((float)({left}), -1000.0f, 1000.0f))",
            ]
        )

    def condition(self):
        operator = self.rng.choice(["<", ">", "==", "!=", "<="])
        plain = f"({self.integer(1)}) {operator} ({self.integer(1)})"
        return self.rng.choice([plain, f"{plain} && READ(v0) > 3", "(me & 3) == 1", "v0 & 1"])

    def block(self):
        self.depth += 1
        inside = "\n".join(self.statement() for _ in range(self.rng.randint(1, 3)))
        self.depth -= 1
        return inside

    def statement(self, *, barriers=False):
        kinds = ["assign", "assign", "floating", "store", "array"]
        if self.depth < 2:
            kinds += ["branch", "branch", "counted_loop", "loop", "switch"]
        if barriers and not self.depth:
            kinds += ["exchange", "exchange"]
        return getattr(self, self.rng.choice(kinds))()

    def assign(self):
        return f"{self.rng.choice(['v0', 'v1', 'v2'])} = {self.integer()};"

    def floating(self):
        # Division and roots may be rounded differently in other code.
        return f"{self.rng.choice(['f0', 'f1'])} = f0 {self.rng.choice('+-*')} (float)({self.integer(1)} & 63);"

    def store(self):
        return f"WRITE(3, {self.integer()});"

    def array(self):
        return f"kept[{self.integer(1)} & 7] = {self.integer(1)};"

    def branch(self):
        otherwise = f" else {{ {self.block()} }}" if self.rng.random() < 0.5 else ""
        return f"if ({self.condition()}) {{ {self.block()} }}{otherwise}"

    def counted_loop(self):
        leave = self.rng.choice(["", f"if ({self.condition()}) break;", f"if ({self.condition()}) continue;"])
        name = f"i{self.depth}"
        return f"for (int {name} = 0; {name} < ({self.integer(2)} & 7); {name}++) {{ {leave} {self.block()} }}"

    def loop(self):
        name = f"w{self.depth}"
        return f"{{ int {name} = 5; do {{ {self.block()} }} while (--{name} > (({self.integer(2)}) & 3)); }}"

    def switch(self):
        cases = "".join(f"case {at}: {self.block()} {self.rng.choice(['break;', ''])} " for at in range(3))
        return f"switch (({self.integer(1)}) & 3) {{ {cases} default: {self.block()} }}"

    def exchange(self):
        return (
            "barrier(CLK_LOCAL_MEM_FENCE); shared[item] = v0; barrier(CLK_LOCAL_MEM_FENCE); "
            f"v1 += shared[(item + {self.rng.randint(1, 31)}) & 31]; barrier(CLK_LOCAL_MEM_FENCE);"
        )


def program(seed, count):
    """Return a program with kernels k0, k1, ..."""
    rng = random.Random(seed)
    return HEAD + "".join(_Kernel(rng).source(f"k{number}") for number in range(count))
