"""Reads and writes GGUF files, apart from Kiln's own reader: for `reference.py` and `tiny.py`."""

import struct

import numpy as np

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
F32, F16, Q4_0, Q4_1, Q8_0, Q6_K, BF16 = 0, 1, 2, 3, 8, 14, 30


def read(path):
    """The metadata, and a function that gives a tensor by name as float64, rows first."""
    data = np.fromfile(path, np.uint8)
    raw = data.tobytes()
    at = 0

    def number(code):
        nonlocal at
        (value,) = struct.unpack_from("<" + code, raw, at)
        at += struct.calcsize("<" + code)
        return value

    def text():
        nonlocal at
        length = number("Q")
        at += length
        return raw[at - length : at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            kind, count = number("I"), number("Q")
            return [value(kind) for _ in range(count)]
        return number(NUMBERS[kind])

    assert number("I") == 0x46554747 and number("I") == 3, f"{path} is no GGUF file of version 3"
    tensors, keys = number("Q"), number("Q")
    metadata = {}
    for _ in range(keys):
        key = text()
        metadata[key] = value(number("I"))
    infos = {}
    for _ in range(tensors):
        name = text()
        extents = [number("Q") for _ in range(number("I"))]
        infos[name] = (extents[::-1], number("I"), number("Q"))
    alignment = metadata.get("general.alignment", 32)
    begin = -(-at // alignment) * alignment

    def tensor(name):
        shape, kind, offset = infos[name]
        return decode(kind, data[begin + offset :], int(np.prod(shape))).reshape(shape)

    return metadata, tensor


def decode(kind, data, count):
    """The first weights of an encoding, as float64."""

    def blocks(size, length):
        return data[: count // length * size].reshape(-1, size)

    def half(part):
        return np.ascontiguousarray(part).view(np.float16).astype(np.float64)

    def nibbles(part):
        return np.concatenate([part & 15, part >> 4], axis=1).astype(np.float64)

    if kind == F32:
        return data[: 4 * count].view(np.float32).astype(np.float64)
    if kind == F16:
        return data[: 2 * count].view(np.float16).astype(np.float64)
    if kind == BF16:
        bits = data[: 2 * count].view(np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64)
    if kind == Q4_0:
        b = blocks(18, 32)
        return half(b[:, :2]) * (nibbles(b[:, 2:]) - 8)
    if kind == Q4_1:
        b = blocks(20, 32)
        return half(b[:, :2]) * nibbles(b[:, 4:]) + half(b[:, 2:4])
    if kind == Q8_0:
        b = blocks(34, 32)
        return half(b[:, :2]) * np.ascontiguousarray(b[:, 2:]).view(np.int8)
    if kind == Q6_K:
        b = blocks(210, 256)
        low, high = b[:, :128].reshape(-1, 2, 2, 32), b[:, 128:192].reshape(-1, 2, 1, 32)
        low = np.concatenate([low & 15, low >> 4], axis=2)
        high = high >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
        q = (low | high << 4).astype(np.float64).reshape(-1, 16, 16) - 32
        scales = np.ascontiguousarray(b[:, 192:208]).view(np.int8).astype(np.float64)
        return (half(b[:, 208:]) * scales)[:, :, None] * q
    raise ValueError(f"encoding {kind}")


def encode(kind, weights):
    """Weights as an encoding has them, each block scaled to its largest."""
    x = np.asarray(weights, np.float32)
    if kind == F32:
        return x.tobytes()
    if kind == F16:
        return x.astype(np.float16).tobytes()
    if kind == BF16:
        return (x.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    x = x.reshape(-1, 256 if kind == Q6_K else 32)

    def packed(q):
        q = q.astype(np.uint8)
        return q[:, :16] | q[:, 16:] << 4

    def columns(*parts):
        parts = [np.ascontiguousarray(part) for part in parts]
        return np.concatenate([part.view(np.uint8).reshape(len(x), -1) for part in parts], axis=1).tobytes()

    if kind == Q4_0:
        scale = (np.abs(x).max(1, keepdims=True) / 7).astype(np.float16)
        return columns(scale, packed(np.clip(np.rint(x / scale) + 8, 0, 15)))
    if kind == Q4_1:
        low = x.min(1, keepdims=True).astype(np.float16)
        scale = ((x.max(1, keepdims=True) - low) / 15).astype(np.float16)
        return columns(scale, low, packed(np.clip(np.rint((x - low) / scale), 0, 15)))
    if kind == Q8_0:
        scale = (np.abs(x).max(1, keepdims=True) / 127).astype(np.float16)
        return columns(scale, np.clip(np.rint(x / scale), -127, 127).astype(np.int8))
    if kind == Q6_K:
        groups = x.reshape(-1, 16, 16)
        largest = np.abs(groups).max(2) / 31
        scale = (largest.max(1, keepdims=True) / 127).astype(np.float16)
        scales = np.clip(np.rint(largest / scale), 1, 127).astype(np.int8)
        q = np.clip(np.rint(groups / (scale * scales.astype(np.float32))[:, :, None]), -32, 31) + 32
        q = q.astype(np.uint8).reshape(-1, 2, 4, 32)
        low = q[:, :, :2] & 15 | (q[:, :, 2:] & 15) << 4
        high = (q >> 4 << np.array([0, 2, 4, 6], np.uint8)[:, None]).sum(2).astype(np.uint8)
        return columns(low.reshape(len(x), -1), high.reshape(len(x), -1), scales, scale)
    raise ValueError(f"encoding {kind}")


def write(path, metadata, tensors):
    """Writes a file. Values are typed by Python's types, integers u32 and those of lists i32;
    tensors are pairs of an encoding and an array, rows first."""

    def text(x):
        return struct.pack("<Q", len(x.encode())) + x.encode()

    def value(x):
        if isinstance(x, bool):
            return 7, struct.pack("<?", x)
        if isinstance(x, int):
            return 4, struct.pack("<I", x)
        if isinstance(x, float):
            return 6, struct.pack("<f", x)
        if isinstance(x, str):
            return 8, text(x)
        kind = 5 if isinstance(x[0], int) else value(x[0])[0]
        return 9, struct.pack("<IQ", kind, len(x)) + b"".join(value(y)[1] for y in x)

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, x in metadata.items():
        kind, data = value(x)
        head += text(key) + struct.pack("<I", kind) + data
    body = b""
    for name, (kind, weights) in tensors.items():
        shape = np.shape(weights)[::-1]
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", kind, len(body))
        body += encode(kind, weights)
        body += bytes(-len(body) % 32)
    head += bytes(-len(head) % 32)
    with open(path, "wb") as file:
        file.write(head + body)
