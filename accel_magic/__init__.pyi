# The public names, each with its module; `__init__.py` loads each on first use.
from typing import Any

from accel_magic._version import __version__ as __version__
from accel_magic.api.driver_policy import DriverPolicy as DriverPolicy
from accel_magic.api.driver_policy import attach_policy as attach_policy
from accel_magic.api.flame_options import FlameOptions as FlameOptions
from accel_magic.api.flame_trace import FlameTrace as FlameTrace
from accel_magic.api.gpupolicy import gpupolicy as gpupolicy
from accel_magic.api.gpupolicy import gpuschedule as gpuschedule
from accel_magic.api.gputrace import GpuTrace as GpuTrace
from accel_magic.api.lab import trace_lab as trace_lab
from accel_magic.api.open import open as open  # noqa: A004 - meant to be used as accel_magic.open
from accel_magic.api.probe_trace import Trace as Trace
from accel_magic.api.program_trace import ProgramTrace as ProgramTrace
from accel_magic.api.program_trace import trace_program as trace_program
from accel_magic.api.replay import replay as replay
from accel_magic.api.tasks import collect_tasks as collect_tasks
from accel_magic.api.trace_options import Options as Options
from accel_magic.api.tracing import flame as flame
from accel_magic.api.tracing import gputrace as gputrace
from accel_magic.api.tracing import trace as trace
from accel_magic.errors import AccelMagicError as AccelMagicError
from accel_magic.errors import MachineError as MachineError
from accel_magic.errors import ProbeError as ProbeError
from accel_magic.errors import ProgramError as ProgramError
from accel_magic.errors import RecordingError as RecordingError
from accel_magic.errors import ResultError as ResultError
from accel_magic.errors import TraceStateError as TraceStateError
from accel_magic.itt.marking import task as task
from accel_magic.result_bases.base import Result as Result
from accel_magic.result_bases.comparison import GpuComparison as GpuComparison
from accel_magic.result_bases.comparison import PolicyComparison as PolicyComparison
from accel_magic.result_bases.comparison import ProfileComparison as ProfileComparison
from accel_magic.result_bases.comparison import TraceComparison as TraceComparison
from accel_magic.result_bases.profile import ProfileResult as ProfileResult
from accel_magic.results.driver_result import DriverResult as DriverResult
from accel_magic.results.flame_result import FlameResult as FlameResult
from accel_magic.results.flame_result import SampledResult as SampledResult
from accel_magic.results.gpu_result import GpuResult as GpuResult
from accel_magic.results.policy_result import PolicyResult as PolicyResult
from accel_magic.results.program_result import ProgramResult as ProgramResult
from accel_magic.results.scheduling_result import ScheduleResult as ScheduleResult
from accel_magic.results.trace_result import TraceResult as TraceResult
from accel_magic.steps.marking import step as step
from accel_magic.subsystems.iaprof.result import IaprofResult as IaprofResult

last: Any

def load_ipython_extension(shell: Any) -> None: ...
def unload_ipython_extension(shell: Any) -> None: ...
