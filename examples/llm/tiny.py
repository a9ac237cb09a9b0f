"""Makes `data/tiny.gguf`: a model of random weights in every encoding, with the architecture and
the kind of tokens that SmolLM2 has. It says nothing sensible, and the same on every device.

    python3 tiny.py && python3 reference.py data/tiny.gguf > data/tiny.json
    python3 reference.py data/tiny.gguf --texts > data/tiny_tokens.json
"""

import numpy as np

import gguf

LAYERS, WIDTH, HEADS, KEY_HEADS, INNER, CONTEXT = 2, 96, 3, 1, 256, 256
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WORDS = ["the", "assistant", "user", "system", "is", "of", "and", "capital", "France", "What", "You", "are", "Paris"]

Q4_0, Q4_1, Q8_0, Q6_K = gguf.Q4_0, gguf.Q4_1, gguf.Q8_0, gguf.Q6_K
# Of the first layer all that are multiplied by the same vector have one encoding, as models have
# them; of the second they differ.
ENCODINGS = [
    {"attn_q": Q4_1, "attn_k": Q4_1, "attn_v": Q4_1, "attn_output": Q4_0, "ffn_gate": Q4_1, "ffn_up": Q4_1, "ffn_down": Q6_K},
    {"attn_q": Q8_0, "attn_k": Q4_0, "attn_v": gguf.F16, "attn_output": gguf.BF16, "ffn_gate": Q8_0, "ffn_up": Q8_0, "ffn_down": Q4_1},
]


def byte_tokens():
    """GPT-2's letters for bytes: itself where it is printed, else one above 255."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (i for i in range(256) if i not in printed)
    return [chr(i) for i in printed] + [chr(256 + i) for i, _ in enumerate(others)]


def tokens_and_merges():
    tokens, merges = SPECIAL + byte_tokens(), []
    for word in WORDS + ["Ġ" + word for word in WORDS]:
        for end in range(1, len(word)):
            if word[: end + 1] not in tokens:
                tokens.append(word[: end + 1])
                merges.append(f"{word[:end]} {word[end]}")
    return tokens, merges


def main():
    random = np.random.default_rng(17)
    tokens, merges = tokens_and_merges()
    metadata = {
        "general.architecture": "llama",
        "general.name": "Tiny, with random weights",
        "llama.block_count": LAYERS,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KEY_HEADS,
        "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.vocab_size": len(tokens),
        "llama.rope.dimension_count": WIDTH // HEADS,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in SPECIAL else 1 for token in tokens],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }

    def matrix(rows, columns):
        return random.normal(0, columns**-0.5, (rows, columns))

    def norm():
        return gguf.F32, 1 + 0.1 * random.normal(size=WIDTH)

    keys = WIDTH // HEADS * KEY_HEADS
    shapes = {
        "attn_q": (WIDTH, WIDTH), "attn_k": (keys, WIDTH), "attn_v": (keys, WIDTH), "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER),
    }
    tensors = {"token_embd.weight": (Q8_0, random.normal(size=(len(tokens), WIDTH))), "output_norm.weight": norm()}
    for i, encodings in enumerate(ENCODINGS):
        for name in ["attn_norm", "ffn_norm"]:
            tensors[f"blk.{i}.{name}.weight"] = norm()
        for name, encoding in encodings.items():
            tensors[f"blk.{i}.{name}.weight"] = encoding, 2 * matrix(*shapes[name])
    gguf.write("data/tiny.gguf", metadata, tensors)


if __name__ == "__main__":
    main()
