"""Sees the page work in a headless Chromium.

    cargo run --manifest-path examples/web/Cargo.toml -p bundle
    python3 examples/web/test.py target/web [SCREENSHOT]

The values are compared with references of their own, in Python. Without Chromium nothing is tested,
which the last line says.
"""

import json
import math
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import browser  # noqa: E402

# The share of test images that the network must read; on other devices it reads 97 % and more.
ACCURACY = 0.96

# Keeps the page's device, so that a test can take it away.
KEEP_DEVICE = """
if (window.GPUAdapter) {
  const request = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = async function (...options) {
    window.gpu = await request.apply(this, options);
    return window.gpu;
  };
}
"""


# Waits for the page and its modules.
LOADED = """
new Promise((done) => document.readyState === "complete" ? done() : addEventListener("load", () => done()))
"""


def rounded(value):
    """The nearest f32."""
    return struct.unpack("f", struct.pack("f", value))[0]


def softmax(rows):
    for row in rows:
        largest = max(row)
        powers = [math.exp(value - largest) for value in row]
        yield from (power / sum(powers) for power in powers)


def convolved(pixels, width, weights):
    height = len(pixels) // width

    def channel(row, column, shift):
        total = 0.0
        for number, weight in enumerate(weights):
            y = min(max(row + number // 3 - 1, 0), height - 1)
            x = min(max(column + number % 3 - 1, 0), width - 1)
            total += weight * (pixels[y * width + x] >> shift & 255)
        return int(min(max(math.floor(total + 0.5), 0), 255)) << shift

    for at, pixel in enumerate(pixels):
        row, column = divmod(at, width)
        yield pixel & 0xFF000000 | sum(channel(row, column, shift) for shift in (0, 8, 16))


def check(holds, what):
    if not holds:
        raise browser.Failed(what)


def check_softmax(page):
    rows = [[1.5, -2.0, 0.25, 3.0, 88.0, 87.5, 0.0], [0.0] * 7, [-100.0, 5.0, 5.0, 4.0, 3.0, 2.0, 1.0]]
    values = json.dumps(sum(rows, []))
    found = page.run(f"kiln.playground.softmax(new Float32Array({values}), 7).then((y) => [...y])")
    for expected, value in zip(softmax(rows), found, strict=True):
        check(abs(value - expected) <= 1e-6 * max(expected, 1e-3), f"softmax: {value}, expected {expected}")


def check_filter(page):
    # An odd size, so that blocks reach beyond the border.
    width, height = 21, 13
    pixels = [(at * 2654435761 ^ at << 7) & 0xFFFFFFFF for at in range(width * height)]
    for weights in ([-1, -1, -1, -1, 8, -1, -1, -1, -1], [0.25, 0, 0.125, 0, 0, 0.5, 0, 0.0625, 0]):
        found = page.run(
            f"kiln.playground.filter(new Uint32Array({pixels}), {width}, new Float32Array({weights}))"
            ".then((y) => [...y])"
        )
        expected = list(convolved(pixels, width, [rounded(weight) for weight in weights]))
        wrong = [at for at in range(len(pixels)) if found[at] != expected[at]]
        check(not wrong, f"filter {weights}: {len(wrong)} pixels differ, the first is {wrong[:1]}")


def check_errors(page):
    calls = page.run("kiln.playground.blocking_calls()")
    instead = ["to_vec_async", "to_vec_async", "synchronize_async", "open_async"]
    check(len(calls) == len(instead), f"blocking calls: {calls}")
    for text, name in zip(calls, instead):
        check("would wait" in text and f"await `{name}`" in text.replace("Device::", ""), text)
    for index in (3, -1):
        text = page.run(f"kiln.playground.pick({index}).then(String, (error) => error.message)")
        check(f"index {index} out of bounds for extent 3 in `pick`" in text and "errors.rs:" in text, text)
    check(page.run("kiln.playground.pick(1)") == 20, "after a fault, a kernel gives another value")


def check_loss_of_device(page):
    text = page.run("(setTimeout(() => gpu.destroy(), 100), kiln.train()).then((seen) => seen.text)")
    check(text.startswith("wgpu:0 was lost"), text)
    for _ in range(2):
        text = page.run("kiln.playground.pick(1).then(String, (error) => error.message)")
        check(text.startswith("wgpu:0 was lost"), text)
    page.run("kiln.reopen()")
    check_softmax(page)


def check_digits(page):
    trained = page.run("kiln.train()")
    losses = [loss for _, loss in trained["losses"]]
    check(len(losses) > 50 and losses[-1] < 0.3 * losses[0], f"losses: {losses}, {trained['text']}")
    check(trained["accuracy"] >= ACCURACY, f"accuracy: {trained['accuracy']}")
    return trained["text"]


def test(program, folder, screenshot):
    with browser.served(folder) as address:
        page = browser.Browser(program)
        try:
            page.call("Page.addScriptToEvaluateOnNewDocument", source=KEEP_DEVICE)
            page.open(f"{address}/index.html")
            page.run(LOADED)
            page.run("kiln.started")
            print(page.run("document.getElementById('device').textContent"))
            for each in (check_softmax, check_filter, check_errors):
                each(page)
                print(f"{each.__name__}: ok")
            print(f"check_digits: {check_digits(page)}")
            if screenshot:
                pathlib.Path(screenshot).write_bytes(page.screenshot(format="webp", quality=80))
            check_loss_of_device(page)
            print("check_loss_of_device: ok")
        finally:
            if page.console:
                print("the page's console:", *page.console, sep="\n  ")
            page.close()


def main():
    folder, *screenshot = sys.argv[1:]
    program = browser.find()
    if program is None:
        print("skipped: the page in a browser (there is no Chromium)")
        return
    test(program, folder, screenshot[0] if screenshot else None)
    print("the page works")


if __name__ == "__main__":
    main()
