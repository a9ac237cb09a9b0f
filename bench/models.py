#!/usr/bin/env python3
"""Times training, decoding and the gradients of attention beside PyTorch, by turns in one run.

Kiln's sides are examples of this repository, which are started anew each time and print a rate.
PyTorch's decoding and training are a program of its own (`--peers`), which prints lines such as
`decode SmolLM2-135M max-autotune: 983 tok/s` and `train GPT-2 124M torch.compile bf16: 536 tok/s`;
its gradients of attention are timed here. Writes `results/models-DEVICE.json`.
"""

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from compare import commit_of_this_tree

HERE = Path(__file__).resolve().parent
# Shapes of models: the name that the example `llm` has for one, and the peers' two for it.
SHAPES = {
    "smollm2-135m": ("d135", "SmolLM2-135M"),
    "smollm2-1.7b": ("d1700", "SmolLM2-1.7B"),
    "llama-3.2-1b": ("d1b", "Llama-3.2-1B shape"),
}
TRAINING = ["--size", "124m", "--precision", "bf16", "--batch", "32", "--sample", "0", "--steps", "22"]


def run(command: list[str], device: str) -> str:
    """What a program prints; an error ends this one."""
    environment = {**os.environ, "KILN_DEVICE": device}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {done.stderr[-500:]}")
    return done.stdout + done.stderr


def number(pattern: str, text: str) -> float:
    """The last number that a pattern finds."""
    found = re.findall(pattern, text)
    if not found:
        sys.exit(f"no {pattern!r} in: {text[-500:]}")
    return float(found[-1].replace(",", ""))


def row(name: str, title: str, unit: str, kiln: list[float], peer: tuple[str, list[float]], **more: float) -> dict:
    """A row of rates: the more the better."""
    own, other = statistics.median(kiln), statistics.median(peer[1])
    result = {"name": name, "title": title, "unit": unit, "kiln": own, "peer": peer[0], "peer_rate": other}
    result |= {"ratio": own / other, "kiln_all": kiln, "peer_all": peer[1], **more}
    print(f"{name:40} {own:12.1f} {other:12.1f} {unit:10} {own / other:.3f}", flush=True)
    return result


def gradients(options: argparse.Namespace) -> list[dict]:
    """The gradients of attention, in TFLOP/s of five products."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def cudnn(width: int, length: int, causal: bool) -> float:
        shape = (16384 // length, 2048 // width, length, width)
        q, k, v, g = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
        q, k, v = (x.requires_grad_() for x in (q, k, v))
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        def once() -> float:
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(2):
                torch.autograd.grad(o, (q, k, v), g, retain_graph=True)
            torch.cuda.synchronize()
            return (time.perf_counter() - begun) / 2

        once()
        seconds = statistics.median(once() for _ in range(9))
        return 5 * 16384 * 2048 * length * (1 if causal else 2) * 1e-12 / seconds

    cases = [(w, n, c) for w in (64, 128) for n in (4096, 16384) for c in (False, True)]
    own: dict[tuple, list[float]] = {case: [] for case in cases}
    peer: dict[tuple, list[float]] = {case: [] for case in cases}
    for _ in range(options.turns):
        text = run([f"{options.programs}/attention_gradients", options.device, "times"], options.device)
        for width, length, causal in cases:
            what = f"width {width}, {length}, {'causal' if causal else 'full'}"
            own[width, length, causal].append(number(what + r": all .* ms, ([\d.]+) TFLOP/s", text))
            peer[width, length, causal].append(cudnn(width, length, causal))
    torch.cuda.empty_cache()
    rows = []
    for width, length, causal in cases:
        kind = "causal" if causal else "full"
        name = f"attention_gradients_d{width}_{length}_{kind}"
        title = f"gradients of attention, bf16, width {width}, length {length}, {kind}"
        case = (width, length, causal)
        rows.append(row(name, title, "TFLOP/s", own[case], ("cuDNN", peer[case])))
    return rows


def training(options: argparse.Namespace) -> list[dict]:
    """Tokens a second of GPT-2 124M, and the first step of a new process."""
    command = [f"{options.programs}/gpt", *TRAINING]
    run(command, options.device)  # compiles
    own, peer = [], []
    for _ in range(options.turns):
        own.append(number(r"([\d,]+) tokens/s", run(command, options.device)))
        if len(peer) < options.peer_turns:
            text = run([sys.executable, options.peers, "train"], options.device)
            peer.append(number(r"torch.compile .*: (\d+) tok/s", text))
    rows = [row("train_gpt2_124m", "GPT-2 124M, training, bf16, 32 x 1024", "tokens/s", own, ("torch.compile", peer))]
    begun = time.perf_counter()
    run([*command[:-1], "1"], options.device)
    seconds = time.perf_counter() - begun
    print(f"a process of one step, caches warm: {seconds:.2f} s", flush=True)
    return [{**rows[0], "process_of_one_step_s": seconds}]


def decoding(options: argparse.Namespace) -> Iterator[dict]:
    """Tokens a second of one conversation with a resident model, random weights."""
    for shape, (word, name) in SHAPES.items():
        llm = [f"{options.programs}/llm", "--resident", "--random", "1", "--greedy", "--tokens", "256"]
        own, peer = [], []
        for turn in range(options.turns if shape == "smollm2-135m" else options.peer_turns):
            text = run([*llm, "--shape", shape, "--context", "1024"], options.device)
            own.append(number(r"([\d.]+) tokens/s", text))
            megabytes = number(r"([\d.]+) MB of weights", text)
            if turn < options.peer_turns:
                text = run([sys.executable, options.peers, word], options.device)
                modes = re.findall(rf"decode {re.escape(name)} \S+: (\d+) tok/s", text)
                peer.append(max(map(float, modes)))
        title = f"{name.removesuffix(' shape')}, decoding, bf16, one conversation, resident"
        rate = statistics.median(own) * megabytes / 1e3
        yield row(f"decode_{shape}", title, "tokens/s", own, ("torch.compile", peer), weights_gb_s=rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True, help="the folder of the examples, built with --release")
    parser.add_argument("--peers", required=True, help="the peers' program for decoding and training")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--only", default="", help="gradients, training or decoding")
    parser.add_argument("--turns", type=int, default=3, help="turns of each side (default: 3)")
    parser.add_argument("--peer-turns", type=int, default=1, help="turns of what compiles for a minute (default: 1)")
    parser.add_argument("--commit", default=commit_of_this_tree(), help="recorded with the results (default: git's)")
    parser.add_argument("--out", type=Path, help="results file (default: bench/results/models-DEVICE.json)")
    options = parser.parse_args()
    options.programs = str(Path(options.programs).resolve())
    import torch

    hardware = torch.cuda.get_device_name()
    slug = re.sub(r"[^a-z0-9]+", "-", hardware.lower()).strip("-")
    out = options.out or HERE / "results" / f"models-{slug}.json"
    parts: dict[str, Callable[[argparse.Namespace], Iterable[dict]]] = {
        "gradients": gradients,
        "training": training,
        "decoding": decoding,
    }
    old = json.loads(out.read_text())["rows"] if out.exists() else []
    rows = {found["name"]: found for found in old}
    stamp = {"commit": options.commit, "date": datetime.date.today().isoformat()}
    versions = {"PyTorch": torch.__version__}
    for part in [part for name, part in parts.items() if options.only in name]:
        # A row is kept as soon as its part gives it: the next one may take minutes, or fail.
        for found in part(options):
            rows[found["name"]] = found | stamp
            result = {"device": hardware, "peers": versions, "rows": list(rows.values())}
            out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
