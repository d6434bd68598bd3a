// The canvases. Colours are those of Okabe and Ito, which all kinds of sight tell apart.

import { COLUMN, WINDOW, WAITING, beginOf, binAt, isOpen, nameOf, phaseOf, seconds, secondsOf } from "./data.js";

export const PHASES = {
  queued: ["#9aa3ab", "queued"], gated: ["#cc79a7", "set aside"],
  prefill: ["#0072b2", "prefill"], decode: ["#56b4e9", "decode"], preempted: ["#e69f00", "preempted"],
};
export const PARTS = [
  ["plan_us", "#e69f00", "planning"], ["fixed_us", "#9aa3ab", "fixed cost"], ["prompts_us", "#0072b2", "prompts"],
  ["decodes_us", "#56b4e9", "decoding"], ["slower_us", "#d55e00", "slower than explained"],
];
export const OWNERS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a900", "#7a6fd0"];
export const OBSTACLES = {
  token_budget: "#0072b2", batch_slots: "#56b4e9", kv_blocks: "#d55e00", share: "#cc79a7",
  gate: "#009e73", pipeline: "#e69f00", sleep: "#9aa3ab",
};
const RIGHT = 8, BOTTOM = 15, ROW = 12;
const SPANS = [6000, 12000, 18000, 30000];
const FONT = '11px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';

// Those of the page, which its theme chooses.
const colours = {};
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "soft", "line", "track", "panel", "warn", "accent"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
}

function prepared(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  return { context, width, height, left: width < 520 ? 80 : 104, ...colours };
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let shown = text.slice(0, 40);
  while (shown && context.measureText(`${shown}…`).width > width) shown = shown.slice(0, -1);
  return `${shown}…`;
}

function timeAxis({ context, width, height, left, soft, line }, at, span = WINDOW) {
  const x = (when) => left + (width - left - RIGHT) * (when - (at - span)) / span;
  const ticks = width < 520 ? 3 : 6;
  context.textBaseline = "alphabetic";
  for (let second = 0; second <= span / 1000; second += span / 1000 / ticks) {
    const where = Math.round(x(at - second * 1000)) + 0.5;
    context.strokeStyle = line;
    context.beginPath();
    context.moveTo(where, 0);
    context.lineTo(where, height - BOTTOM);
    context.stroke();
    context.fillStyle = soft;
    context.textAlign = second === 0 ? "right" : second * 1000 === span ? "left" : "center";
    context.fillText(second ? `−${second} s` : new Date(at).toLocaleTimeString(), where, height - 3);
  }
  return x;
}

// The requests that are shown: those that run, some that wait longest, and then those
// that ended last, in the order in which they came.
export function shownRows(rows, height) {
  const room = Math.max(4, Math.floor((height - BOTTOM) / ROW));
  const all = rows.filter((row) => row.phases.length);
  const inOrder = (a, b) => beginOf(a) - beginOf(b) || a.id - b.id;
  const end = (row) => row.phases[row.phases.length - 1][1];
  const running = all.filter((row) => isOpen(row) && !WAITING.has(phaseOf(row))).sort(inOrder);
  const waiting = all.filter((row) => isOpen(row) && WAITING.has(phaseOf(row))).sort(inOrder);
  const ended = all.filter((row) => !isOpen(row)).sort((a, b) => end(b) - end(a));
  const some = Math.min(waiting.length, Math.max(room >> 2, room - running.length - ended.length));
  return [...waiting.slice(0, some), ...running, ...ended].slice(0, room).sort(inOrder);
}

export function drawRequests(canvas, shown, at, selected) {
  const pen = prepared(canvas), { context, width } = pen;
  const first = Math.min(...shown.map(beginOf), at - 3000);
  const span = SPANS.find((each) => at - first <= each) || WINDOW;
  const x = timeAxis(pen, at, span);
  shown.forEach((row, index) => {
    const y = index * ROW;
    if (row === selected) {
      context.fillStyle = pen.track;
      context.fillRect(0, y, width, ROW);
    }
    context.fillStyle = row === selected ? pen.ink : pen.soft;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(fitted(context, nameOf(row), pen.left - 8), 2, y + ROW / 2 + 0.5);
    row.phases.forEach(([phase, begin], place) => {
      if (!PHASES[phase]) return;
      const next = row.phases[place + 1];
      const from = Math.max(pen.left, x(begin)), to = next ? x(next[1]) : x(at);
      if (to <= pen.left) return;
      const thin = phase === "queued" || phase === "gated" || phase === "preempted";
      context.fillStyle = PHASES[phase][0];
      context.fillRect(from, y + (thin ? 5 : 2), Math.max(1, to - from), thin ? 3 : 8);
    });
    if (row.end && row.end !== "stop" && row.end !== "length") {
      context.fillStyle = pen.warn;
      context.fillText("✕", Math.min(width - 10, x(row.phases[row.phases.length - 1][1]) + 2), y + ROW / 2 + 0.5);
    }
  });
}

export const rowAt = (shown, y) => shown[Math.floor(y / ROW)] || null;

function niceCeiling(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  for (const factor of [1, 1.5, 2, 3, 4, 5, 6, 8, 10]) if (factor * power >= value) return factor * power;
  return 10 * power;
}

export function drawSteps(canvas, columns, at) {
  const pen = prepared(canvas), { context, height, width } = pen;
  const x = timeAxis(pen, at);
  const all = [...columns.values()].filter((each) => each.steps);
  const mean = (each) => PARTS.reduce((sum, [name]) => sum + (each[name] || 0), 0) / each.steps;
  const top = niceCeiling(1.05 * Math.max(100, ...all.map(mean)));
  const bottom = height - BOTTOM, y = (us) => bottom - (bottom - 8) * Math.min(1, us / top);
  context.fillStyle = pen.soft;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const share of [0.5, 1]) {
    context.fillText(seconds(share * top / 1e6), pen.left - 6, y(share * top));
    context.strokeStyle = pen.line;
    context.strokeRect(pen.left, Math.round(y(share * top)) + 0.5, width - pen.left - RIGHT, 0);
  }
  const bar = Math.max(1, (width - pen.left - RIGHT) * COLUMN / WINDOW - 0.5);
  for (const each of all) {
    const from = x(each.number * COLUMN);
    if (from + bar < pen.left) continue;
    let sum = 0;
    for (const [name, colour] of PARTS) {
      const us = (each[name] || 0) / each.steps;
      context.fillStyle = colour;
      context.fillRect(Math.max(pen.left, from), y(sum + us), bar, y(sum) - y(sum + us));
      sum += us;
    }
    if (each.longest_us > 1.2 * sum) {
      context.fillStyle = pen.ink;
      context.fillRect(Math.max(pen.left, from), y(each.longest_us) - 1, bar, 1);
    }
  }
}

const HEAT = 4, TALL = 2; // columns of time, and bins, in one cell of the map
export function drawLatency(canvas, columns, kind, at, objective) {
  const pen = prepared(canvas), { context, height, width } = pen;
  const x = timeAxis(pen, at), cells = new Map();
  let low = Infinity, high = -Infinity, most = 0;
  for (const column of columns.values()) {
    for (const [bin, count] of Object.entries((column.durations || {})[kind] || {})) {
      const row = Math.floor(bin / TALL), key = `${Math.floor(column.number / HEAT)} ${row}`;
      cells.set(key, (cells.get(key) || 0) + count);
      most = Math.max(most, cells.get(key));
      low = Math.min(low, row);
      high = Math.max(high, row);
    }
  }
  if (objective) {
    const row = Math.floor(binAt(objective) / TALL);
    low = Math.min(low, row);
    high = Math.max(high, row);
  }
  if (low > high) [low, high] = [6, 24];
  while (high - low < 8) { high += 1; low = Math.max(0, low - 1); }
  const bottom = height - BOTTOM, cell = (bottom - 6) / (high - low + 1);
  const y = (bin) => bottom - cell * (bin - low);
  for (const [key, count] of cells) {
    const [place, bin] = key.split(" ").map(Number);
    const from = Math.max(pen.left, x(place * HEAT * COLUMN));
    context.globalAlpha = 0.15 + 0.85 * Math.log1p(count) / Math.log1p(most);
    context.fillStyle = pen.accent;
    context.fillRect(from, y(bin + 1), Math.max(0, Math.min(x((place + 1) * HEAT * COLUMN), width - RIGHT) - from - 0.5), cell - 0.5);
  }
  context.globalAlpha = 1;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let bin = low; bin <= high; bin += 1) {
    if ((bin + 1) % 6) continue;
    context.fillStyle = pen.soft;
    context.fillText(seconds(secondsOf(TALL * bin + TALL - 1)), pen.left - 6, y(bin + 1));
    context.fillStyle = pen.line;
    context.fillRect(pen.left, y(bin + 1), width - pen.left - RIGHT, 1);
  }
  if (objective) {
    const where = y(binAt(objective) / TALL);
    context.strokeStyle = context.fillStyle = pen.warn;
    context.setLineDash([5, 3]);
    context.beginPath();
    context.moveTo(pen.left, where);
    context.lineTo(width - RIGHT, where);
    context.stroke();
    context.setLineDash([]);
    context.textAlign = "left";
    context.fillText(`objective ${seconds(objective)}`, pen.left + 4, where - 7);
  }
}

// Blocks in order, row by row; `colourOf` has the colour of an owner.
export function drawBlocks(canvas, engines, colourOf) {
  const pen = prepared(canvas), { context, height, width } = pen;
  const cells = engines.flatMap((engine) => {
    const found = [], runs = engine.cells || [];
    for (let i = 0; i < runs.length; i += 2) {
      for (let j = 0; j < runs[i + 1]; j += 1) found.push(runs[i] < 0 ? null : colourOf(engine.index, runs[i]));
    }
    return found;
  });
  if (!cells.length) return;
  let side = Math.max(2, Math.floor(Math.sqrt(width * height / cells.length)));
  while (side > 2 && Math.ceil(cells.length / Math.floor(width / side)) * side > height) side -= 1;
  const across = Math.floor(width / side), gap = side > 4 ? 1 : 0;
  cells.forEach((colour, index) => {
    context.fillStyle = colour || pen.track;
    context.fillRect((index % across) * side, Math.floor(index / across) * side, side - gap, side - gap);
  });
}
