"""Relate a GPU's clock to the host's: a small kernel reports its time on request, and the host brackets the request.

In one exchange the host reads its clock, sends a request through shared memory, waits for the answer, and reads its
clock again. The GPU's clock was read between the two. The narrowest of many exchanges is used: its midpoint is the host
time, and half its width plus one step of the GPU's timer is the error. The launch itself makes the first request.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Final

from accel_magic.devices.device import DeviceClock
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.cuda.driver import CudaDriver

ROUNDS: Final = 64
"""Exchanges in one launch."""
LAUNCHES: Final = 4
_ASKED, _STEP, _ANSWERS = 0, 1, 2
BYTES: Final = 8 * (_ANSWERS + ROUNDS)
"""Size of the mailbox."""
TIMEOUT_NS: Final = 2_000_000_000
"""How long to wait for a launch to begin."""
_LIMIT_NS: Final = 50_000_000  # for all rounds of a launch
_SPIN_NS: Final = 100_000
_SLEEP_S: Final = 50e-6
_ALL: Final = (1 << 64) - 1


@dataclass(frozen=True)
class GpuClockExchange:
    """The host's time before and after an exchange, and the GPU's time between them; ns."""

    before: int
    device: int
    after: int


class ClockKernel:
    """The kernel that reports the GPU's time, loaded into the current context.

    Args:
        driver: The driver. The context must be current in every call of this class.
        stream: The stream it runs in; no other stream waits for it.
        mailbox: Device address of BYTES bytes that the host can access too.
        words: The same bytes on the host, as u64.
        rounds: Most exchanges in one launch.

    """

    def __init__(
        self, driver: CudaDriver, stream: int, mailbox: int, words: memoryview[int], *, rounds: int = ROUNDS
    ) -> None:
        self._driver, self._stream, self._mailbox, self._words, self._rounds = driver, stream, mailbox, words, rounds
        text = resources.files("accel_magic.devices.cuda").joinpath("clock.ptx").read_bytes()
        self._module = driver.handle("cuModuleLoadData", text)
        self._function = driver.handle("cuModuleGetFunction", self._module, b"accel_magic_clock")

    def unload(self) -> None:
        """Unload the kernel from the context. Raises DriverError."""
        self._driver.call("cuModuleUnload", self._module)

    def measure(self) -> DeviceClock:
        """Compare the clocks; takes about a millisecond on an idle GPU.

        Raises:
            MachineError: The GPU does not answer, for example because other kernels occupy it.

        """
        exchanges = [exchange for _ in range(LAUNCHES) for exchange in self._launch()]
        return narrowest(exchanges, self._words[_STEP])

    def _launch(self) -> list[GpuClockExchange]:
        """Run the kernel once; gives fewer exchanges than rounds if the host was delayed too long."""
        words = self._words
        words[:] = memoryview(bytes(BYTES)).cast("Q")
        words[_ASKED] = 1
        asks: list[Callable[[], None]] = [self._start, *(partial(self._ask, one) for one in range(1, self._rounds))]
        exchanges: list[GpuClockExchange] = []
        try:
            for ask in asks:
                exchange = self._exchange(len(exchanges), ask, _LIMIT_NS if exchanges else TIMEOUT_NS)
                if exchange is None:
                    # Launches may block until their kernel ends (CUDA_LAUNCH_BLOCKING, debuggers): from now on the
                    # kernel must not wait for further requests.
                    self._rounds = 1
                    break
                exchanges.append(exchange)
        finally:
            words[_ASKED] = _ALL  # lets the kernel end, whatever happened
        if not exchanges:
            raise MachineError(
                "the GPU's clock cannot be compared with the host's",
                why=f"the GPU did not answer within {TIMEOUT_NS / 1e9:g} s; other kernels may occupy it",
                fix="wait for them before the cell (for example torch.cuda.synchronize()), or use --gpu N",
                code="cuda.no-answer",
            )
        self._driver.call("cuStreamSynchronize", self._stream)
        return exchanges

    def _start(self) -> None:
        parameters = (
            ctypes.c_uint64(self._mailbox),
            ctypes.c_uint32(self._rounds),
            ctypes.c_uint64(_LIMIT_NS),
        )
        places = (ctypes.c_void_p * len(parameters))(*(ctypes.addressof(each) for each in parameters))
        self._driver.call("cuLaunchKernel", self._function, *(1,) * 6, 0, self._stream, places, None)

    def _ask(self, number: int) -> None:
        self._words[_ASKED] = number + 1

    def _exchange(self, number: int, ask: Callable[[], None], patience_ns: int) -> GpuClockExchange | None:
        words, place, now = self._words, _ANSWERS + number, time.monotonic_ns
        before = now()
        ask()
        while not words[place]:
            waited = now() - before
            if waited > patience_ns:
                return None
            if waited > _SPIN_NS:
                time.sleep(_SLEEP_S)
        return GpuClockExchange(before, words[place], now())


def narrowest(exchanges: list[GpuClockExchange], step_ns: int) -> DeviceClock:
    """Make a clock from the narrowest exchange.

    Args:
        exchanges: At least one.
        step_ns: Resolution of the GPU's timer.

    """
    best = min(exchanges, key=lambda exchange: exchange.after - exchange.before)
    width = best.after - best.before
    return DeviceClock(best.device, best.before + width // 2, error_ns=-(-width // 2) + step_ns)
