"""What is measured: the work, its size, and how many bytes and operations it is counted as.

Bytes count each input read once and each output written once. Operations count one for each
arithmetic or transcendental operation of the definition. Both sides of a comparison are judged by
these counts, whatever they really move or execute.
"""

from typing import NamedTuple

GPU_N = 1 << 28
CPU_N = 1 << 25
GPU_MATRIX = (16384, 4096)
CPU_MATRIX = (4096, 4096)
CPU_PRODUCTS = (512, 1024, 2048)
# Elements, and m, n, k of a product of m x k and k x n; both factors by rows.
GPU_PRODUCTS = (
    *(("bf16", (n, n, n)) for n in (1024, 2048, 3072, 4096, 8192, 16384)),
    *(("f16", (n, n, n)) for n in (2048, 4096, 8192, 16384)),
    ("bf16", (4096, 14336, 4096)),
    ("bf16", (8192, 1024, 8192)),
)
# The same with weights of n x k, the second factor by columns, for m rows of input. Reading the
# weights bounds the last.
GPU_LAYERS = (("bf16", (128, 8192, 8192)), ("bf16", (64, 8192, 8192)), ("bf16", (16, 8192, 8192)), ("bf16", (1, 8192, 8192)))
# Other elements: bytes of a factor's and of the result's, and n of n x n x n; the second factor by
# columns. "fp8_fast" sums as tensor cores do, "tf32" rounds factors, and "f32" does not;
# "tf32x3" is nearly as exact, and has the product of f32 for a peer.
GPU_NARROW = {
    "fp8": (1, 2, 8192),
    "fp8_fast": (1, 2, 8192),
    "i8": (1, 4, 8192),
    "tf32": (4, 4, 4096),
    "tf32x3": (4, 4, 4096),
    "f32": (4, 4, 4096),
    "f64": (8, 8, 4096),
}
# n of the product n x n x n, bf16, by the kernel over tiles.
GPU_TILE = 4096

# Products of a stack, and n of n x n x n, bf16.
GPU_STACK = (64, 1024)
# Heads, length, width of a head.
CPU_ATTENTION = (8, 1024, 64)


class GpuAttention(NamedTuple):
    """A row of attention on a GPU; batch times length is 16384, heads times width 2048."""

    width: int
    lengths: tuple[int, ...]
    """The length of all sequences, or that of each in a packed tensor."""
    causal: bool = False
    window: int | None = None
    """How many keys a query sees, itself included."""

    @property
    def packed(self) -> bool:
        """Whether sequences of several lengths follow each other."""
        return len(self.lengths) > 1

    @property
    def name(self) -> str:
        length = "packed" if self.packed else str(self.lengths[0])
        limit = f"_window{self.window}" if self.window else "_causal" if self.causal else ""
        return f"attention_bf16_d{self.width}_{length}{limit}"

    @property
    def title(self) -> str:
        limit = f"attention in windows of {self.window}" if self.window else "causal attention" if self.causal else "attention"
        lengths = f"{len(self.lengths)} packed sequences" if self.packed else f"length {self.lengths[0]}"
        return f"{limit}, bf16, width {self.width}, {lengths}"

    @property
    def pairs(self) -> int:
        """Pairs of a query and a key that it sees, per head; half of all with a causal mask."""
        sequences = self.lengths if self.packed else self.lengths * (GPU_POSITIONS // self.lengths[0])
        if self.window:
            return sum(n * self.window - self.window**2 // 2 for n in sequences)
        return sum(n * n // (2 if self.causal else 1) for n in sequences)


# The lengths of sequences in one tensor.
GPU_PACKED = (5000, 3000, 2500, 2000, 1500, 1200, 800, 384)
GPU_ATTENTION = (
    GpuAttention(64, (4096,)),
    GpuAttention(64, (16384,)),
    GpuAttention(64, (16384,), causal=True),
    GpuAttention(128, (4096,)),
    GpuAttention(128, (16384,)),
    GpuAttention(128, (4096,), causal=True),
    GpuAttention(128, (16384,), causal=True),
    GpuAttention(256, (4096,)),
    GpuAttention(256, (16384,), causal=True),
    GpuAttention(128, (16384,), causal=True, window=1024),
    GpuAttention(128, GPU_PACKED, causal=True),
)
GPU_POSITIONS = 16384
GPU_MODEL = 2048
# A query for each of 16 sequences to so many keys, in pages of 64 or not; heads, those of keys,
# width.
GPU_DECODING = ((16384, False), (65536, False), (16384, True))
GPU_DECODING_SHAPE = (16, 32, 8, 128)
LAYER_NORM_EPS = 1e-5


class Row(NamedTuple):
    """One line of a results table."""

    title: str
    bytes: int
    flops: int
    ceiling: str | None
    """The row whose fastest bandwidth in the same run is the ceiling for this one."""
    raw: tuple[str, str] | None = None
    """A row of Kiln's own that does the same without Kiln's runtime, and its name as a peer."""
    arithmetic: bool = False
    """Whether arithmetic bounds the work: then its rate is shown in operations, not in bytes."""
    rounds: int | None = None
    """The rounds in a turn, where one takes long."""


def _elementwise(n: int, suffix: str) -> dict[str, Row]:
    copy = f"copy_f32_{suffix}"
    return {
        copy: Row(f"copy, f32, {suffix}", 8 * n, 0, copy),
        f"add_f32_{suffix}": Row(f"x + y, f32, {suffix}", 12 * n, n, copy),
        f"chain_f32_{suffix}": Row(f"relu(x*y + x)*0.5 + tanh(y), f32, {suffix}", 12 * n, 6 * n, copy),
        f"sum_f32_{suffix}": Row(f"sum, f32, {suffix}", 4 * n, n, copy),
    }


def _softmax(shape: tuple[int, int], copy: str) -> dict[str, Row]:
    rows, columns = shape
    elements = rows * columns
    name = f"softmax_f32_{rows}x{columns}"
    return {name: Row(f"softmax over rows, f32, {rows} x {columns}", 8 * elements, 5 * elements, copy)}


def _layer_norm(shape: tuple[int, int], copy: str) -> dict[str, Row]:
    rows, columns = shape
    elements = rows * columns
    title = f"layer norm over rows, bf16, {rows} x {columns}"
    return {f"layernorm_bf16_{rows}x{columns}": Row(title, 4 * elements + 4 * columns, 8 * elements, copy)}


def _matmul(n: int) -> dict[str, Row]:
    return {f"matmul_f32_{n}": Row(f"matrix product, f32, {n} x {n} x {n}", 12 * n * n, 2 * n**3, None, arithmetic=True)}


def product_name(elements: str, shape: tuple[int, int, int]) -> str:
    """The name of the row of a product on a GPU."""
    m, n, k = shape
    return f"matmul_{elements}_{n}" if m == n == k else f"matmul_{elements}_{m}x{n}x{k}"


def _product(elements: str, shape: tuple[int, int, int]) -> dict[str, Row]:
    m, n, k = shape
    title = f"matrix product, {elements}, {m} x {n} x {k}"
    arithmetic = m >= 128
    ceiling = None if arithmetic else "copy_f32_2^28"
    row = Row(title, 2 * (m * k + k * n + m * n), 2 * m * n * k, ceiling, arithmetic=arithmetic)
    return {product_name(elements, shape): row}


def _narrow(elements: str, factor: int, result: int, n: int) -> dict[str, Row]:
    title = f"matrix product, {elements}, {n} x {n} x {n}"
    return {product_name(elements, (n, n, n)): Row(title, (2 * factor + result) * n * n, 2 * n**3, None, arithmetic=True)}


STACK_ROW = "matmul_bf16_{}x{}".format(*GPU_STACK)


def _stack(products: int, n: int) -> dict[str, Row]:
    title = f"{products} matrix products, bf16, {n} x {n} x {n}"
    return {STACK_ROW: Row(title, 6 * products * n * n, 2 * products * n**3, None, arithmetic=True)}


TILE_ROW = f"matmul_tile_{GPU_TILE}"


def _tile(n: int) -> dict[str, Row]:
    title = f"matrix product, bf16, {n} x {n} x {n}, by the kernel over tiles"
    return {TILE_ROW: Row(title, 6 * n * n, 2 * n**3, None, arithmetic=True)}


def _attention(shape: tuple[int, int, int]) -> dict[str, Row]:
    heads, length, width = shape
    elements = heads * length * width
    title = f"causal attention, f32, {heads} heads x {length} x {width}"
    # Scores and sums are 4 operations for each query, key and column; a query sees half of the
    # keys.
    row = Row(title, 16 * elements, 4 * elements * length // 2, None, arithmetic=True)
    return {f"attention_f32_{heads}x{length}x{width}": row}


def _decoding(keys: int, paged: bool) -> dict[str, Row]:
    sequences, heads, key_heads, width = GPU_DECODING_SHAPE
    title = f"decoding attention, bf16, {sequences} x {keys} keys, heads {heads}/{key_heads} x {width}" + (", in pages of 64" if paged else "")
    size, work = 4 * sequences * width * (keys * key_heads + heads), 4 * sequences * heads * keys * width
    return {f"decode_bf16_{keys}" + ("_paged" if paged else ""): Row(title, size, work, "copy_f32_2^28")}


def _gpu_attention(shape: GpuAttention) -> Row:
    elements = GPU_POSITIONS * GPU_MODEL
    return Row(shape.title, 8 * elements, 4 * GPU_MODEL * shape.pairs, None, arithmetic=True)


GPU_ROWS: dict[str, Row] = {
    **_elementwise(GPU_N, "2^28"),
    **_softmax(GPU_MATRIX, "copy_f32_2^28"),
    **_layer_norm(GPU_MATRIX, "copy_f32_2^28"),
}

GPU_ATTENTION_ROWS: dict[str, Row] = {shape.name: _gpu_attention(shape) for shape in GPU_ATTENTION}

GPU_DECODING_ROWS: dict[str, Row] = {name: row for case in GPU_DECODING for name, row in _decoding(*case).items()}

# Only PyTorch (cuBLAS) is a peer of these.
GPU_PRODUCT_ROWS: dict[str, Row] = {
    **{name: row for elements, shape in (*GPU_PRODUCTS, *GPU_LAYERS) for name, row in _product(elements, shape).items()},
    **{name: row for elements, sizes in GPU_NARROW.items() for name, row in _narrow(elements, *sizes).items()},
    **_stack(*GPU_STACK),
    **_tile(GPU_TILE),
}

# Rows and columns of numbers of which the indices that put them in order are asked for; PyTorch's
# stable sort is the peer.
GPU_SORTS = {"argsort_f32_2^20": (1, 1 << 20), "argsort_f32_2^26": (1, 1 << 26), "argsort_f32_4096x50257": (4096, 50257)}


def _sort(shape: tuple[int, int]) -> Row:
    rows, columns = shape
    return Row(f"indices that sort rows, f32, {rows} x {columns}", 12 * rows * columns, 0, "copy_f32_2^28")


GPU_SORT_ROWS: dict[str, Row] = {name: _sort(shape) for name, shape in GPU_SORTS.items()}

# Host times. A launch is one of a burst; `launch_raw` calls the driver's own entry point from the
# same process.
LAUNCH_ROWS: dict[str, Row] = {
    "launch_empty": Row("launch of an empty kernel, host time", 0, 0, None, raw=("launch_raw", "cuLaunchKernel")),
    "launch_of_12": Row("launch of an empty kernel of twelve tensors, host time", 0, 0, None, raw=("launch_of_12_raw", "cuLaunchKernel")),
    "graph_of_8": Row("graph of eight small kernels that depend on each other, replayed in bursts", 0, 0, None, raw=("graph_of_8_raw", "CUDA graph")),
    "call_matmul_kept": Row("call of a product of 128 x 128 x 128, bf16, divided by a kept choice, host time", 0, 0, None, raw=("call_matmul", "by the estimate")),
    "compile_softmax": Row("softmax, from its source to a loaded program, in a new process", 0, 0, None, rounds=1),
    "compile_matmul": Row("first call of a product, bf16, 4096, in a new process", 0, 0, None, rounds=1),
    **{
        f"compile_attention_d{width}": Row(f"first call of causal attention, bf16, width {width}, in a new process", 0, 0, None, rounds=1)
        for width in (64, 128, 256)
    },
    "load_softmax": Row("softmax, from the disk cache to a loaded program", 0, 0, None),
}

# Kernels over threads. `..._plain` is the same in plain Rust on all cores.
CPU_IMAGE = 4096 * 4096
CPU_THREADS_N = 1 << 24


def _threads(name: str, title: str, bytes: int, flops: int) -> dict[str, Row]:
    return {f"threads_{name}": Row(f"by threads: {title}", bytes, flops, None, raw=(f"threads_{name}_plain", "plain Rust"))}


CPU_THREADS_ROWS: dict[str, Row] = {
    **_threads("stencil", "mean of 5 points, f32, 4096 x 4096, the inner ones", 8 * CPU_IMAGE, 5 * CPU_IMAGE),
    **_threads("stencil_edges", "mean of 5 points, zeros around", 8 * CPU_IMAGE, 5 * CPU_IMAGE),
    **_threads("stencil_shared", "mean of 5 points, through shared memory", 8 * CPU_IMAGE, 5 * CPU_IMAGE),
    **_threads("saxpy", "a x + y, f32, 2^24", 12 * CPU_THREADS_N, 2 * CPU_THREADS_N),
    **_threads("sum", "sum, f32, 2^24", 4 * CPU_THREADS_N, CPU_THREADS_N),
    **_threads("histogram", "histogram of bytes, 2^24, in shared memory", CPU_THREADS_N, 0),
    **_threads("histogram_global", "histogram of bytes, 2^24, in global memory", CPU_THREADS_N, 0),
}

CPU_ROWS: dict[str, Row] = {
    **_elementwise(CPU_N, "2^25"),
    **_softmax(CPU_MATRIX, "copy_f32_2^25"),
    **{name: row for n in CPU_PRODUCTS for name, row in _matmul(n).items()},
    **_attention(CPU_ATTENTION),
    **CPU_THREADS_ROWS,
}

ROWS: dict[str, Row] = {**GPU_ROWS, **GPU_PRODUCT_ROWS, **GPU_ATTENTION_ROWS, **GPU_DECODING_ROWS, **GPU_SORT_ROWS, **LAUNCH_ROWS, **CPU_ROWS}


def rows_for(device: str) -> dict[str, Row]:
    """The rows that are measured on a device of Kiln's, such as `cuda:0` or `cpu`."""
    return {**GPU_ROWS, **GPU_PRODUCT_ROWS, **GPU_ATTENTION_ROWS, **GPU_DECODING_ROWS, **GPU_SORT_ROWS, **LAUNCH_ROWS} if device.startswith("cuda") else CPU_ROWS
