"""Host time of a launch, and the bare driver, called through ctypes, as a peer of the launch rows.

A round is a burst of launches of an empty kernel, begun with an idle device and timed until the
last call returns. A burst is shorter than the driver's queue (1,024 launches), so that no call
waits for the GPU. The time of a round is that of one launch.
"""

import ctypes
import time
from collections.abc import Callable

from server import Absent, Peer

BURST = 500
_WARM_UP_BURSTS = 4

# What every driver since CUDA 11 accepts; the kernel takes a pointer and a number, as the other
# side's does.
_EMPTY_PTX = b""".version 7.0
.target sm_80
.address_size 64
.visible .entry empty(.param .u64 data, .param .u64 count)
{
    ret;
}
"""


def bursts(launch: Callable[[], object], synchronize: Callable[[], object]) -> Callable[[int], list[float]]:
    """Warms up; the function returned times so many bursts, in microseconds a launch."""

    def burst() -> float:
        synchronize()
        start = time.perf_counter_ns()
        for _ in range(BURST):
            launch()
        elapsed = time.perf_counter_ns() - start
        synchronize()
        return elapsed / 1e3 / BURST

    for _ in range(_WARM_UP_BURSTS):
        burst()
    return lambda rounds: [burst() for _ in range(rounds)]


class DriverPeer(Peer):
    """cuLaunchKernel through ctypes, for information: Python's own calling cost is part of it."""

    name = "driver (ctypes)"

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        self._gpu = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._gpu), 0)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._gpu)
        self._call("cuCtxSetCurrent", context)

    def _call(self, function: str, *arguments) -> None:
        code = getattr(self._cuda, function)(*arguments)
        if code != 0:
            raise Absent(f"{function} failed with CUDA error {code}")

    @property
    def version(self) -> str:
        version = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(version))
        return f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"

    @property
    def device(self) -> str:
        name = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", name, 256, self._gpu)
        return name.value.decode()

    def rows(self) -> list[str]:
        return ["launch_empty"]

    def prepare(self, row: str) -> Callable[[int], list[float]]:
        module, function, data = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        self._call("cuModuleLoadData", ctypes.byref(module), _EMPTY_PTX)
        self._call("cuModuleGetFunction", ctypes.byref(function), module, b"empty")
        self._call("cuMemAlloc_v2", ctypes.byref(data), ctypes.c_size_t(4096))
        count = ctypes.c_uint64(1024)
        parameters = (ctypes.c_void_p * 2)(ctypes.addressof(data), ctypes.addressof(count))
        launch, one, zero, none = self._cuda.cuLaunchKernel, ctypes.c_uint(1), ctypes.c_uint(0), ctypes.c_void_p()

        def launch_one() -> None:
            if launch(function, one, one, one, one, one, one, zero, none, parameters, none) != 0:
                raise RuntimeError("cuLaunchKernel failed")

        return bursts(launch_one, lambda: self._call("cuCtxSynchronize"))
