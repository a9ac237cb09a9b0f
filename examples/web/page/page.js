// What the page shows; what it computes is Rust (`src/lib.rs`).

import init, { Playground } from "./kiln_web.js";

const part = (id) => document.getElementById(id);

const FILTERS = {
  "edges": [-1, -1, -1, -1, 8, -1, -1, -1, -1],
  "sharpen": [0, -1, 0, -1, 5, -1, 0, -1, 0],
  "blur": [1, 2, 1, 2, 4, 2, 1, 2, 1].map((weight) => weight / 16),
  "emboss": [-2, -1, 0, -1, 1, 1, 0, 1, 2],
  "as it is": [0, 0, 0, 0, 1, 0, 0, 0, 0],
};

// Steps of training between two looks at the loss.
const STEPS = 10;

let playground;

// Runs something that may fail, and shows the text of its error in an element.
async function shown(element, work) {
  try {
    await work();
    element.classList.remove("failed");
  } catch (error) {
    element.textContent = error.message ?? String(error);
    element.classList.add("failed");
  }
}

function parsed(text) {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const rows = lines.map((line) => line.trim().split(/[\s,;]+/).map(Number));
  if (rows.length === 0) throw new Error("there are no rows");
  const bad = rows.findIndex((row) => row.length !== rows[0].length || row.some(Number.isNaN));
  if (bad >= 0) throw new Error(`row ${bad + 1} is not ${rows[0].length} numbers`);
  return rows;
}

const softmax = () => shown(part("softmax"), async () => {
  const rows = parsed(part("rows").value);
  const columns = rows[0].length;
  const result = await playground.softmax(new Float32Array(rows.flat()), columns);
  const table = part("softmax");
  table.replaceChildren();
  for (let row = 0; row < rows.length; row += 1) {
    const line = table.insertRow();
    for (const value of result.slice(row * columns, (row + 1) * columns)) {
      const cell = line.insertCell();
      cell.textContent = value.toFixed(4);
      cell.style.background = `color-mix(in srgb, var(--glow) ${Math.round(60 * value)}%, transparent)`;
    }
  }
});

// A picture with flat parts, slopes and edges.
function paint(canvas) {
  const { width, height } = canvas;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const sky = pen.createLinearGradient(0, 0, 0, height);
  sky.addColorStop(0, "#1e3a8a");
  sky.addColorStop(0.7, "#f59e0b");
  sky.addColorStop(1, "#7c2d12");
  pen.fillStyle = sky;
  pen.fillRect(0, 0, width, height);
  pen.fillStyle = "#fde68a";
  pen.beginPath();
  pen.arc(0.7 * width, 0.45 * height, 0.17 * height, 0, 7);
  pen.fill();
  pen.fillStyle = "#0f172a";
  pen.beginPath();
  pen.moveTo(0, height);
  for (let x = 0; x <= 10; x += 1) {
    pen.lineTo((x / 10) * width, height * (0.78 - 0.18 * Math.abs(Math.sin(2.1 * x))));
  }
  pen.lineTo(width, height);
  pen.fill();
  pen.fillStyle = "#f8fafc";
  pen.font = `bold ${Math.round(height / 4)}px sans-serif`;
  pen.fillText("Kiln", 0.07 * width, 0.36 * height);
}

const filter = () => shown(part("weights"), async () => {
  const weights = FILTERS[part("filters").value];
  const before = part("before");
  const { width, height } = before;
  const image = before.getContext("2d").getImageData(0, 0, width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const result = await playground.filter(pixels, width, new Float32Array(weights));
  const bytes = new Uint8ClampedArray(result.buffer, result.byteOffset, result.byteLength);
  part("after").getContext("2d").putImageData(new ImageData(bytes, width), 0, 0);
  const digits = (weight) => (Number.isInteger(weight) ? weight : weight.toFixed(2));
  part("weights").textContent = weights.map(digits).join(" ");
});

// The loss of each look, on a logarithmic scale.
function draw(canvas, losses, steps) {
  const { width, height } = canvas;
  const pen = canvas.getContext("2d");
  const [left, right, bottom, top] = [44, width - 10, height - 22, 10];
  const [low, high] = [0.03, 3];
  const x = (step) => left + ((right - left) * step) / steps;
  const y = (loss) => {
    const limited = Math.min(high, Math.max(low, loss));
    return bottom - ((bottom - top) * Math.log(limited / low)) / Math.log(high / low);
  };
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = pen.strokeStyle = getComputedStyle(canvas).color;
  pen.globalAlpha = 0.6;
  pen.lineWidth = 0.5;
  for (const loss of [0.03, 0.1, 0.3, 1, 3]) {
    pen.beginPath();
    pen.moveTo(left, y(loss));
    pen.lineTo(right, y(loss));
    pen.stroke();
    pen.fillText(String(loss), 10, y(loss) + 4);
  }
  pen.fillText("loss", left + 4, top + 12);
  pen.fillText(`${steps} steps`, right - 60, height - 6);
  pen.globalAlpha = 1;
  pen.strokeStyle = "#ea580c";
  pen.lineWidth = 2;
  pen.beginPath();
  for (const [step, loss] of losses) pen.lineTo(x(step), y(loss));
  pen.stroke();
}

// Trains the network to its end, and gives what was seen.
async function train() {
  const button = part("train");
  button.disabled = true;
  const losses = [];
  let accuracy;
  await shown(part("progress"), async () => {
    const digits = playground.digits();
    const steps = digits.steps();
    const start = performance.now();
    for (let step = 0; step < steps; step += STEPS) {
      const more = Math.min(STEPS, steps - step);
      const loss = await digits.train(more);
      losses.push([step + more, loss]);
      draw(part("curve"), losses, steps);
      part("progress").textContent = `step ${step + more} of ${steps}, loss ${loss.toFixed(4)}`;
      // The browser draws before the next steps.
      await new Promise((next) => setTimeout(next));
    }
    accuracy = await digits.accuracy();
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    part("progress").textContent =
      `test accuracy: ${(100 * accuracy).toFixed(2)} %, after ${steps} steps in ${seconds} s`;
    digits.free();
  });
  button.disabled = false;
  listKernels();
  return { losses, accuracy, text: part("progress").textContent };
}

const pick = () => shown(part("picked"), async () => {
  const value = await playground.pick(Number(part("index").value));
  part("picked").textContent = String(value);
});

function listKernels() {
  const lines = playground.kernels().sort().map((line) => {
    const item = document.createElement("li");
    item.textContent = line;
    return item;
  });
  part("kernels").replaceChildren(...lines);
}

async function open() {
  await init({ module_or_path: new URL("kiln_web_bg.wasm", import.meta.url) });
  playground = await Playground.open();
  part("device").textContent = playground.describe();
}

async function start() {
  paint(part("before"));
  for (const name of Object.keys(FILTERS)) part("filters").add(new Option(name));
  draw(part("curve"), [], 1);
  await shown(part("device"), open);
  if (playground === undefined) return;
  part("rows").addEventListener("input", softmax);
  part("filters").addEventListener("change", filter);
  part("train").addEventListener("click", train);
  part("index").addEventListener("input", pick);
  await softmax();
  await filter();
  await pick();
  part("blocking").textContent = `A call that would wait: ${playground.blocking_calls()[0]}`;
  listKernels();
}

// For the console, and for the test of this page.
window.kiln = {
  started: start(),
  train,
  get playground() {
    return playground;
  },
  async reopen() {
    playground = await playground.reopen();
  },
};
