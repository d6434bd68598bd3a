// Frames added up to what is shown: columns of time and requests, by engine.

export const COLUMN = 250;
export const WINDOW = 60000;
const BINS = 12, FIRST_BIN = 1e-4;
const SUMS = ["steps", "plan_us", "fixed_us", "prompts_us", "decodes_us",
  "slower_us", "forward_us", "prefill",
  "decode", "preempted", "finished", "drafted", "accepted", "loads", "loaded", "load_us",
  "prompt", "cached"];
const STATE = ["running", "waiting", "used", "reusable"];
export const WAITING = new Set(["queued", "gated", "preempted"]);

// Text of clients: neither control characters nor what turns the direction of writing.
export const plain = (text) =>
  String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, "\ufffd");

export const phaseOf = (row) => row.phases.length ? row.phases[row.phases.length - 1][0] : "queued";
export const isOpen = (row) => !row.end;
export const beginOf = (row) => row.phases.length ? row.phases[0][1] : 0;
export const nameOf = (row) => plain(row.client || row.response || `#${row.id}`);

export class Data {
  constructor() { this.clear(); }

  clear() {
    this.at = 0;
    this.engines = new Map();
    this.lanes = [];
    this.objectives = {};
    this.note = "";
  }

  // Takes a frame: live ones follow one another, one of a moment has a whole window.
  take(frame) {
    this.at = frame.at;
    this.lanes = frame.lanes || [];
    this.objectives = frame.objectives || {};
    this.note = frame.note || "";
    const there = new Set();
    for (const engine of frame.engines || []) {
      there.add(engine.index);
      this.takeEngine(engine, frame.at);
    }
    for (const index of this.engines.keys()) if (!there.has(index)) this.engines.delete(index);
  }

  takeEngine(engine, at) {
    let kept = this.engines.get(engine.index);
    if (!kept || kept.now.pid !== engine.pid) {
      kept = { columns: new Map(), rows: new Map() };
      this.engines.set(engine.index, kept);
    }
    kept.now = engine;
    for (const column of engine.columns || []) {
      const before = kept.columns.get(column.number);
      kept.columns.set(column.number, before ? joined(before, column) : column);
    }
    for (const row of engine.rows || []) {
      row.engine = engine.index;
      row.output = row.output || 0;
      row.phases = (row.phases || []).map(([phase, begin]) => [phase, at + begin]);
      kept.rows.set(row.id, row);
    }
    const progress = engine.progress || [];
    for (let i = 0; i < progress.length; i += 2) {
      const row = kept.rows.get(progress[i]);
      if (row && !row.end) row.output = progress[i + 1];
    }
    const begin = at - WINDOW;
    for (const number of kept.columns.keys()) if (number * COLUMN < begin - COLUMN) kept.columns.delete(number);
    for (const [id, row] of kept.rows) if (row.end && row.phases[row.phases.length - 1][1] < begin) kept.rows.delete(id);
  }

  // What one engine, or all together, did and do.
  chosen(index) {
    const all = [...this.engines.values()].sort((a, b) => a.now.index - b.now.index);
    const engines = index === null ? all : all.filter((each) => each.now.index === index);
    const columns = new Map();
    for (const engine of engines) {
      for (const [number, column] of engine.columns) {
        const before = columns.get(number);
        columns.set(number, before ? joined(before, column, true) : column);
      }
    }
    const rows = engines.flatMap((engine) => [...engine.rows.values()]);
    return { engines: engines.map((each) => each.now), columns, rows };
  }
}

// Adds up numbers by key. Tenants may be called `constructor`: what is added to is bare.
export function added(...parts) {
  const sum = Object.create(null);
  for (const part of parts) for (const key in part) sum[key] = (sum[key] || 0) + part[key];
  return sum;
}

function joined(a, b, isAnother = false) {
  const sum = { ...a };
  for (const name of SUMS) if (b[name]) sum[name] = (sum[name] || 0) + b[name];
  for (const name of STATE) sum[name] = isAnother ? (a[name] || 0) + (b[name] || 0) : b[name] || 0;
  if ((b.longest_us || 0) > (a.longest_us || 0)) {
    sum.longest_us = b.longest_us;
    sum.longest_step = b.longest_step;
  }
  sum.obstacles = added(a.obstacles, b.obstacles);
  sum.tenants = added(a.tenants, b.tenants);
  sum.durations = { ...a.durations };
  for (const [kind, bins] of Object.entries(b.durations || {})) {
    sum.durations[kind] = added(sum.durations[kind], bins);
  }
  return sum;
}

export function total(columns, name) {
  let sum = 0;
  for (const column of columns.values()) sum += column[name] || 0;
  return sum;
}

export const totals = (columns, name) => added(...[...columns.values()].map((column) => column[name]));
export const durations = (columns, kind) => added(...[...columns.values()].map((column) => column.durations?.[kind]));

// Seconds at the end of a bin.
export const secondsOf = (bin) => FIRST_BIN * 10 ** ((Number(bin) + 1) / BINS);
export const binAt = (seconds) => BINS * Math.log10(seconds / FIRST_BIN);

// Upper bound of a quantile, as exact as bins are; null without durations.
export function quantile(bins, share) {
  const sorted = Object.entries(bins).map(([bin, count]) => [Number(bin), count]).sort((a, b) => a[0] - b[0]);
  const all = sorted.reduce((sum, [, count]) => sum + count, 0);
  let seen = 0;
  for (const [bin, count] of sorted) {
    seen += count;
    if (seen >= share * all) return secondsOf(bin);
  }
  return null;
}

const grouped = new Intl.NumberFormat("en");
export const number = (value) => grouped.format(Math.round(value)).replace(/,/g, "\u202f");
export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.0995) return `${(value * 1000).toPrecision(2)} ms`;
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  return value < 99.5 ? `${Number(value.toPrecision(3))} s` : `${Math.round(value)} s`;
}
