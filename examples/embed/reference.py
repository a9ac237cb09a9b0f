#!/usr/bin/env python3
"""What the example `embed` is compared with: the same encoder in NumPy, in f64, written apart.

`reference.py tiny` writes a small model of random weights into data/tiny, and with it
data/tiny.json; `reference.py FOLDER` writes data/minilm.json for the model of a folder. The files
have texts, their tokens, and their embeddings (of MiniLM, the similarities of pairs).
"""

import json
import math
import string
import struct
import sys
import unicodedata
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent / "data"
TEXTS = [
    "A cat sleeps on the sofa.",
    "A kitten is napping on the couch.",
    "Stocks fell sharply today.",
    "Crème brûlée à la carte — naïve façade!",
    "我喜欢猫。 I like cats",
    "don't you think? (e.g. #42)",
    "",
    "ИСПАНИЯ и Straße ﬁne Ⅷ",
    "tab\tand\u200bzero width \U0001f642",
    "word salad " * 300,
]
MOST = 256


class Model:
    """The tensors of a safetensors file, the configuration and the vocabulary of a folder."""

    def __init__(self, folder: Path) -> None:
        raw = (folder / "model.safetensors").read_bytes()
        (size,) = struct.unpack("<Q", raw[:8])
        self.header = json.loads(raw[8 : 8 + size])
        self.bytes = raw[8 + size :]
        self.config = json.loads((folder / "config.json").read_text())
        lines = (folder / "vocab.txt").read_text(encoding="utf8").split("\n")
        self.numbers = {token: number for number, token in enumerate(lines)}

    def tensor(self, name: str) -> np.ndarray:
        entry = self.header[name]
        begin, end = entry["data_offsets"]
        return np.frombuffer(self.bytes[begin:end], np.float32).reshape(entry["shape"]).astype(np.float64)

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.tensor(f"{name}.weight").T + self.tensor(f"{name}.bias")

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        centered = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centered**2).mean(-1, keepdims=True) + self.config["layer_norm_eps"])
        return centered / scale * self.tensor(f"{name}.weight") + self.tensor(f"{name}.bias")

    def tokens(self, text: str) -> list[int]:
        cleaned = "".join(spaced(c) for c in text)
        found = [token for word in cleaned.split() for part in parts(word) for token in self.pieces(part)]
        most = min(MOST, len(self.tensor("embeddings.position_embeddings.weight")))
        return [self.numbers["[CLS]"], *found[: most - 2], self.numbers["[SEP]"]]

    def pieces(self, word: str) -> list[int]:
        found, begin = [], 0
        while begin < len(word) <= 100:
            mark = "##" if begin else ""
            ends = range(len(word), begin, -1)
            end = next((end for end in ends if mark + word[begin:end] in self.numbers), None)
            if end is None:
                break
            found.append(self.numbers[mark + word[begin:end]])
            begin = end
        return found if begin == len(word) else [self.numbers["[UNK]"]]

    def embed(self, text: str) -> np.ndarray:
        tokens = self.tokens(text)
        x = self.tensor("embeddings.word_embeddings.weight")[tokens]
        x = x + self.tensor("embeddings.position_embeddings.weight")[: len(tokens)]
        x = self.norm(x + self.tensor("embeddings.token_type_embeddings.weight")[0], "embeddings.LayerNorm")
        heads = self.config["num_attention_heads"]
        for n in range(self.config["num_hidden_layers"]):
            at = f"encoder.layer.{n}"
            query, key, value = (
                self.linear(x, f"{at}.attention.self.{part}").reshape(len(x), heads, -1).transpose(1, 0, 2)
                for part in ("query", "key", "value")
            )
            scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            attended = weights / weights.sum(-1, keepdims=True) @ value
            attended = self.linear(attended.transpose(1, 0, 2).reshape(x.shape), f"{at}.attention.output.dense")
            x = self.norm(x + attended, f"{at}.attention.output.LayerNorm")
            up = self.linear(x, f"{at}.intermediate.dense")
            up = up * 0.5 * (1 + np.vectorize(math.erf)(up / math.sqrt(2)))
            x = self.norm(x + self.linear(up, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        mean = x.mean(0)
        return mean / np.linalg.norm(mean)


def spaced(c: str) -> str:
    """A character as words are divided by it: nothing of control characters."""
    if c in "\t\n\r" or unicodedata.category(c)[0] == "Z":
        return " "
    if c == "\ufffd" or unicodedata.category(c)[0] == "C":
        return ""
    ranges = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
    return f" {c} " if any(first <= ord(c) <= last for first, last in ranges) else c


def parts(word: str) -> list[str]:
    """A word without accents and capitals, divided at punctuation marks."""
    plain = "".join(c for c in unicodedata.normalize("NFD", word) if unicodedata.category(c) != "Mn").lower()
    marked = (f" {c} " if c in string.punctuation or unicodedata.category(c)[0] == "P" else c for c in plain)
    return "".join(marked).split()


def make_tiny(folder: Path) -> None:
    """A model of two layers with random weights, and a vocabulary of letters and a few words."""
    width, inner, places, layers = 32, 64, 48, 2
    letters = string.ascii_lowercase + string.digits
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{c}" for c in letters), *".,'!?#()—。猫"]
    tokens += ["cat", "the", "word", "sal", "##ad", "on"]
    random = np.random.default_rng(7)
    tensors: dict[str, np.ndarray] = {
        "embeddings.word_embeddings.weight": random.normal(size=(len(tokens), width)),
        "embeddings.position_embeddings.weight": random.normal(size=(places, width)) * 0.3,
        "embeddings.token_type_embeddings.weight": random.normal(size=(2, width)) * 0.3,
    }

    def linear(name: str, outputs: int, inputs: int) -> None:
        tensors[f"{name}.weight"] = random.normal(size=(outputs, inputs)) / math.sqrt(inputs)
        tensors[f"{name}.bias"] = random.normal(size=outputs) * 0.1

    def norm(name: str) -> None:
        tensors[f"{name}.weight"] = 1 + random.normal(size=width) * 0.1
        tensors[f"{name}.bias"] = random.normal(size=width) * 0.1

    norm("embeddings.LayerNorm")
    for n in range(layers):
        at = f"encoder.layer.{n}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            linear(f"{at}.attention.{part}", width, width)
        linear(f"{at}.intermediate.dense", inner, width)
        linear(f"{at}.output.dense", width, inner)
        norm(f"{at}.attention.output.LayerNorm")
        norm(f"{at}.output.LayerNorm")
    folder.mkdir(parents=True, exist_ok=True)
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.astype(np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "vocab.txt").write_text("\n".join(tokens), encoding="utf8")
    config = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
    config |= {"num_attention_heads": 4, "num_hidden_layers": layers, "layer_norm_eps": 1e-12}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def main() -> None:
    if sys.argv[1] == "tiny":
        make_tiny(DATA / "tiny")
        model, out = Model(DATA / "tiny"), DATA / "tiny.json"
    else:
        model, out = Model(Path(sys.argv[1])), DATA / "minilm.json"
    embeddings = np.array([model.embed(text) for text in TEXTS])
    result = {"texts": TEXTS, "tokens": [model.tokens(text) for text in TEXTS]}
    if sys.argv[1] == "tiny":
        result["embeddings"] = embeddings.round(8).tolist()
    else:
        result["similarities"] = (embeddings @ embeddings.T).round(7).tolist()
    out.write_text(json.dumps(result, ensure_ascii=False) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
