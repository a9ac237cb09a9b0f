"""The first losses of the example `gpt`, in float64 with NumPy, for its test: the same random
numbers, batches, network, gradients (written by hand) and optimizer. It shares no code with Kiln.

    pip install numpy
    python3 reference.py > data/losses.json
    python3 reference.py --check                # the gradients against finite differences
"""

import json
import math
import pathlib
import sys

import numpy as np

SEED, STEPS, RATE, BATCH, LENGTH = 5, 60, 1e-2, 3, 7
VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 256, 8, 16, 2, 2
SHOWN = 3
WORD = (1 << 64) - 1
erf = np.vectorize(math.erf)


def mixed(x):
    """SplitMix64."""
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def fold(key, number):
    return mixed((mixed(key) + number) & WORD)


def normal(key, shape):
    """Philox 4x32-10 of the element's number, and Box and Muller's transform of two words."""
    count = math.prod(shape)
    c = [np.arange(count, dtype=np.uint64)] + [np.zeros(count, np.uint64)] * 3
    low, high, half = key & 0xFFFFFFFF, key >> 32, np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p, q = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        k = np.uint64(low), np.uint64(high)
        shift = np.uint64(32)
        c = [(q >> shift) ^ c[1] ^ k[0], q & half, (p >> shift) ^ c[3] ^ k[1], p & half]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    one, two = [(word >> np.uint64(8)).astype(float) / 2**24 for word in c[:2]]
    return (np.sqrt(-2 * np.log(one + 2**-24)) * np.cos(2 * np.pi * two)).reshape(shape)


def parameters():
    key = fold(SEED, 0)
    p = {"tokens": normal(fold(key, 0), (VOCABULARY, WIDTH)) * 0.02}
    p["places"] = normal(fold(key, 1), (CONTEXT, WIDTH)) * 0.02
    small = 0.02 / math.sqrt(2 * LAYERS)
    for layer in range(LAYERS):
        of = fold(fold(key, 2), layer)
        layers = [("qkv", 3, 1, 0.02), ("out", 1, 1, small), ("up", 4, 1, 0.02), ("down", 1, 4, small)]
        for at, (name, outputs, inputs, deviation) in enumerate(layers):
            shape = (outputs * WIDTH, inputs * WIDTH)
            p[f"{layer}.{name}"] = normal(fold(of, at), shape) * deviation
            p[f"{layer}.{name}.bias"] = np.zeros(shape[0])
        for name in ["first", "second"]:
            p[f"{layer}.{name}"], p[f"{layer}.{name}.bias"] = np.ones(WIDTH), np.zeros(WIDTH)
    p["norm"], p["norm.bias"] = np.ones(WIDTH), np.zeros(WIDTH)
    return p


class Tape:
    """Functions forward; each leaves what takes a gradient back."""

    def __init__(self, p):
        self.p, self.g, self.back = p, {name: np.zeros_like(x) for name, x in p.items()}, []

    def linear(self, x, name):
        def back(dy):
            self.g[name] += np.einsum("blo,bli->oi", dy, x)
            self.g[name + ".bias"] += dy.sum((0, 1))
            return dy @ self.p[name]

        return x @ self.p[name].T + self.p[name + ".bias"], back

    def norm(self, x, name):
        scale = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        unit = (x - x.mean(-1, keepdims=True)) * scale

        def back(dy):
            self.g[name] += (dy * unit).sum((0, 1))
            self.g[name + ".bias"] += dy.sum((0, 1))
            d = dy * self.p[name]
            return scale * (d - d.mean(-1, keepdims=True) - unit * (d * unit).mean(-1, keepdims=True))

        return unit * self.p[name] + self.p[name + ".bias"], back

    def gelu(self, x):
        share = 0.5 * (1 + erf(x / math.sqrt(2)))
        slope = share + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return x * share, lambda dy: dy * slope

    def attention(self, x, layer):
        joined, back_qkv = self.linear(x, f"{layer}.qkv")
        b, l, d = len(x), x.shape[1], WIDTH // HEADS
        q, k, v = joined.reshape(b, l, 3, HEADS, d).transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(2, 3) / math.sqrt(d)
        scores = np.where(np.tril(np.ones((l, l), bool)), scores, -np.inf)
        w = np.exp(scores - scores.max(-1, keepdims=True))
        w /= w.sum(-1, keepdims=True)
        y, back_out = self.linear((w @ v).swapaxes(1, 2).reshape(b, l, WIDTH), f"{layer}.out")

        def back(dy):
            dy = back_out(dy).reshape(b, l, HEADS, d).swapaxes(1, 2)
            dw = dy @ v.swapaxes(2, 3)
            ds = w * (dw - (dw * w).sum(-1, keepdims=True)) / math.sqrt(d)
            parts = np.stack([ds @ k, ds.swapaxes(2, 3) @ q, w.swapaxes(2, 3) @ dy])
            return back_qkv(parts.transpose(1, 3, 0, 2, 4).reshape(b, l, 3 * WIDTH))

        return y, back

    def added(self, x, functions):
        """x and what functions make of it, one after the other."""
        y, backs = x, []
        for function in functions:
            y, back = function(y)
            backs.append(back)

        def back(dy):
            dx = dy
            for back in reversed(backs):
                dx = back(dx)
            return dy + dx

        self.back.append(back)
        return x + y

    def loss(self, tokens, following):
        p, length = self.p, tokens.shape[1]
        x = p["tokens"][tokens] + p["places"][:length]
        for i in map(str, range(LAYERS)):
            x = self.added(x, [lambda x: self.norm(x, i + ".first"), lambda x: self.attention(x, i)])
            network = [lambda x: self.linear(x, i + ".up"), self.gelu, lambda x: self.linear(x, i + ".down")]
            x = self.added(x, [lambda x: self.norm(x, i + ".second"), *network])
        y, back = self.norm(x, "norm")
        logits = y @ p["tokens"].T
        logits -= logits.max(-1, keepdims=True)
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        hot = np.eye(VOCABULARY)[following]
        d = (np.exp(logs) - hot) / following.size
        self.g["tokens"] += np.einsum("blv,blw->vw", d, y)
        dx = back(d @ p["tokens"])
        for back in reversed(self.back):
            dx = back(dx)
        np.add.at(self.g["tokens"], tokens, dx)
        self.g["places"][:length] += dx.sum(0)
        return -(logs * hot).sum() / following.size


def batch(text, step):
    key = fold(fold(SEED, 1), step)
    starts = [(mixed(fold(key, row)) * (len(text) - LENGTH)) >> 64 for row in range(BATCH)]
    rows = np.array([list(text[at : at + LENGTH + 1]) for at in starts])
    return rows[:, :-1], rows[:, 1:]


def rate(step, warm_up):
    if step < warm_up:
        return RATE * (step + 1) / warm_up
    return RATE * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / (STEPS - warm_up)))


def train(text):
    p, losses = parameters(), []
    mean, square = [{name: np.zeros_like(x) for name, x in p.items()} for _ in range(2)]
    for step in range(SHOWN):
        tape = Tape(p)
        losses.append(tape.loss(*batch(text, step)))
        norm = math.sqrt(sum((g * g).sum() for g in tape.g.values()))
        r = rate(step, min(STEPS, 200) // 10)
        for name, g in tape.g.items():
            g = g * min(1, 1 / (norm + 1e-6))
            mean[name] = 0.9 * mean[name] + 0.1 * g
            square[name] = 0.95 * square[name] + 0.05 * g * g
            change = mean[name] / (1 - 0.9 ** (step + 1))
            change /= np.sqrt(square[name] / (1 - 0.95 ** (step + 1))) + 1e-8
            p[name] = p[name] * (1 - r * 0.1 * (p[name].ndim > 1)) - r * change
    return losses


def check(text):
    p, data = parameters(), batch(text, 0)
    tape = Tape(p)
    tape.loss(*data)
    random = np.random.default_rng(1)
    for name in p:
        at, before = tuple(random.integers(extent) for extent in p[name].shape), p[name]
        ends = []
        for side in [1e-5, -1e-5]:
            p[name] = before.copy()
            p[name][at] += side
            ends.append(Tape(p).loss(*data))
        p[name] = before
        slope = (ends[0] - ends[1]) / 2e-5
        assert abs(slope - tape.g[name][at]) < 1e-7, (name, at, slope, tape.g[name][at])
    print(f"{len(p)} gradients are right")


if __name__ == "__main__":
    whole = (pathlib.Path(__file__).parent / "data/genesis-exodus.txt").read_bytes()
    text = whole[: len(whole) - len(whole) // 10]
    if sys.argv[1:] == ["--check"]:
        check(text)
    else:
        print(json.dumps(train(text)))
