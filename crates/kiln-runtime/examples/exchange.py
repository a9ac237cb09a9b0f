"""Memory that Kiln and PyTorch share: `exchange.rs` says how to run this."""

import ctypes
import sys

import torch

lib = ctypes.CDLL(sys.argv[1])
for name in ["exchange_open", "exchange_stream", "exchange_make", "exchange_released"]:
    getattr(lib, name).restype = ctypes.c_uint64
address, number = ctypes.c_uint64, ctypes.c_size_t
session = address(lib.exchange_open(b"cuda:0"))
assert session.value


def check(what, right):
    print(("ok: " if right else "WRONG: ") + what)


# PyTorch's memory in a kernel of Kiln's.
for count in [1, 1000, 1_000_003]:
    x = torch.randn(count, device="cuda")
    y = torch.empty_like(x)
    torch.cuda.synchronize()
    done = lib.exchange_affine(session, address(x.data_ptr()), address(y.data_ptr()), number(count))
    check(f"{count} elements of PyTorch's", done == 0 and torch.equal(y, x * 2 + 1))
check("memory was given back", lib.exchange_released() == 6)
x = torch.randn(1003, device="cuda")
y = torch.empty_like(x)
torch.cuda.synchronize()
# An address that is a multiple of 4 alone.
done = lib.exchange_affine(session, address(x.data_ptr() + 12), address(y.data_ptr() + 4), number(999))
check("a part", done == 0 and torch.equal(y[1:1000], x[3:1002] * 2 + 1))
host = torch.zeros(16)
refused = lib.exchange_affine(session, address(host.data_ptr()), address(y.data_ptr()), number(16))
check("memory of the host is refused", refused == 1)


# Kiln's memory in PyTorch, in a stream of Kiln's.
class Memory:
    def __init__(self, pointer, count):
        self.__cuda_array_interface__ = {
            "shape": (count,), "typestr": "<f4", "data": (pointer, False), "version": 2,
        }


count = 4_000_037
with torch.cuda.stream(torch.cuda.ExternalStream(lib.exchange_stream(session))):
    memory = torch.as_tensor(Memory(lib.exchange_make(session, number(count)), count), device="cuda")
    for _ in range(50):
        memory.mul_(-1.0).add_(0.5)  # nothing waits for this but what reads the tensor
into = (ctypes.c_float * count)()
done = lib.exchange_read(session, into)
expected = torch.arange(count, dtype=torch.float32)
for _ in range(50):
    expected = expected * -1.0 + 0.5
check("PyTorch in a stream of Kiln's", done == 0 and torch.equal(torch.tensor(into), expected))

sys.stdout.flush()
lib.exchange_count(session, number(40))
lib.exchange_measure(session, number(256 << 20))
if hasattr(torch, "version"):
    # The same by PyTorch.
    pinned = torch.empty(64 << 20, dtype=torch.float32, pin_memory=True)
    device = torch.empty(64 << 20, dtype=torch.float32, device="cuda")

    def best(copy):
        times = []
        for _ in range(8):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            copy()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        return (256 << 20) / min(times) / 1e6

    up = best(lambda: device.copy_(pinned, non_blocking=True))
    down = best(lambda: pinned.copy_(device, non_blocking=True))
    print(f"PyTorch {torch.__version__}, pinned: to the device {up:.1f} GB/s, from it {down:.1f} GB/s")
