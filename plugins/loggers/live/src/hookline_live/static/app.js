// Puts frames on the page, and answers keys and clicks.

import {
  Data, WAITING, beginOf, durations, isOpen, nameOf, number, phaseOf, plain, quantile,
  seconds, total, totals,
} from "./data.js";
import {
  OBSTACLES, OWNERS, PARTS, PHASES, drawBlocks, drawLatency, drawRequests, drawSteps, rowAt, shownRows,
} from "./draw.js";
import { follow, get, moment } from "./stream.js";

const $ = (id) => document.getElementById(id);
const KINDS = { ttft: "first token", itl: "inter-token", e2e: "end to end", queue: "queue" };
const OBJECTIVES = { ttft: "ttft", itl: "tpot", e2e: "e2e" };
const OTHERS = "\u0000others";
const live = new Data();
let data = live; // or of an earlier moment
let past = null; // its time, while not live
let engine = null, kind = "ttft", selected = null, lostFrames = 0, trouble = "", shown = [];
const owners = new Map();

// -- building blocks ----------------------------------------------------------------

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function legend(list, entries) {
  $(list).replaceChildren(...entries.map(([colour, text]) => {
    const item = element("li"), swatch = element("span", undefined, "swatch");
    swatch.style.background = colour;
    item.append(swatch, text);
    return item;
  }));
}

// A table of rows of cells; what is a number stands right.
function table(id, heads, rows) {
  const isNumber = heads.map((_, place) => rows.some((row) => /^[-–\d]/.test(row[place])) && place > 0);
  const head = element("tr");
  head.append(...heads.map((text, place) => element("th", text, isNumber[place] ? "r" : "")));
  const body = rows.map((row) => {
    const line = element("tr");
    line.append(...row.map((text, place) => {
      const cell = element("td", text, isNumber[place] ? "r" : "");
      cell.title = text;
      return cell;
    }));
    return line;
  });
  $(id).replaceChildren(head, ...body);
  return body;
}

function tenantColour(tenant) {
  if (!owners.has(tenant)) owners.set(tenant, OWNERS[owners.size % OWNERS.length]);
  return owners.get(tenant);
}

const tenantName = (tenant) => tenant === null || tenant === OTHERS ? "all others" : plain(tenant) || "no tenant";
const clock = (at) => new Date(at).toLocaleTimeString();

// -- panels -------------------------------------------------------------------------

function tiles({ engines, columns }) {
  const sum = (name) => engines.reduce((all, each) => all + (each[name] || 0), 0);
  const recent = new Map([...columns].filter(([place]) => place * 250 >= data.at - 10000));
  const span = Math.min(10, Math.max(1, ...[...recent.keys()].map((place) => (data.at - place * 250) / 1000)));
  const ttft = durations(columns, "ttft"), itl = durations(columns, "itl");
  const rate = (name) => number(total(recent, name) / span);
  const found = [
    ["running", number(sum("running")), `of ${number(sum("max_running"))}`, "running"],
    ["waiting", number(sum("waiting")), "", "waiting"],
    ["kv", `${Math.round(100 * sum("used") / Math.max(1, sum("num_blocks")))} %`, `of ${number(sum("num_blocks"))} blocks`, "KV cache held"],
    ["decode", rate("decode"), "/s", "tokens decoded"],
    ["prefill", rate("prefill"), "/s", "prompt tokens"],
    ["ttft", `≤ ${seconds(quantile(ttft, 0.5))}`, `p95 ${seconds(quantile(ttft, 0.95))}`, "first token, median"],
    ["itl", `≤ ${seconds(quantile(itl, 0.5))}`, `p95 ${seconds(quantile(itl, 0.95))}`, "inter-token, median"],
    ["preempted", number(total(columns, "preempted")), "/min", "preemptions"],
  ];
  $("tiles").replaceChildren(...found.map(([id, value, more, label]) => {
    const tile = element("div", undefined, "tile"), strong = element("b", value);
    tile.id = `t-${id}`;
    if (more) strong.append(" ", element("i", more));
    tile.append(element("span", label), strong);
    return tile;
  }));
}

function requests({ engines, rows }) {
  shown = shownRows(rows, $("requests").clientHeight);
  if (selected) selected = rows.find((row) => row.id === selected.id && row.engine === selected.engine) || null;
  drawRequests($("requests"), shown, data.at, selected);
  const counts = {};
  for (const row of rows) {
    const state = isOpen(row) ? phaseOf(row) : "ended";
    counts[state] = (counts[state] || 0) + 1;
  }
  const told = [...Object.keys(PHASES), "ended"].filter((state) => counts[state]).map((state) => `${counts[state]} ${PHASES[state]?.[1] || state}`);
  const omitted = engines.reduce((sum, each) => sum + (each.omitted || 0), 0);
  $("s-requests").textContent = told.join(", ") + (omitted ? `, ${omitted} more` : "") + (rows.length > shown.length ? `; ${shown.length} shown` : "");
}

function steps({ columns }) {
  drawSteps($("steps"), columns, data.at);
  const count = total(columns, "steps");
  let longest = null;
  for (const column of columns.values()) if (column.longest_us && (!longest || column.longest_us > longest.longest_us)) longest = column;
  const parts = PARTS.map(([name]) => total(columns, name)), all = parts.reduce((a, b) => a + b, 0);
  $("s-steps").textContent = count
    ? `${number(count)} in a minute, mean ${seconds(all / count / 1e6)}, longest ${seconds(longest.longest_us / 1e6)} (step ${longest.longest_step})` : "none";
  legend("l-steps", PARTS.map(([, colour, text], place) => [colour, all ? `${text} ${(100 * parts[place] / all).toFixed(1)} %` : text]));
}

function latency({ columns }) {
  const objective = data.objectives[OBJECTIVES[kind]];
  drawLatency($("latency"), columns, kind, data.at, objective);
  const bins = durations(columns, kind), count = Object.values(bins).reduce((a, b) => a + b, 0);
  $("s-latency").textContent = count
    ? `${number(count)} in a minute: p50 ≤ ${seconds(quantile(bins, 0.5))}, p95 ≤ ${seconds(quantile(bins, 0.95))}, p99 ≤ ${seconds(quantile(bins, 0.99))}` : "none in a minute";
}

function blocks({ engines, rows }) {
  const tenants = new Map(rows.map((row) => [`${row.engine} ${row.id}`, row.tenant || ""]));
  drawBlocks($("kv"), engines, (index, id) => tenantColour(tenants.get(`${index} ${id}`) ?? ""));
  const sum = (name) => engines.reduce((all, each) => all + (each[name] || 0), 0);
  const free = sum("num_blocks") - sum("used") - sum("reusable");
  $("s-kv").textContent = `${number(sum("used"))} held, ${number(sum("reusable"))} reusable, ${number(free)} empty`;
  const holders = engines.flatMap((each) => {
    const found = [], flat = each.holders || [];
    for (let i = 0; i < flat.length; i += 2) found.push([each, flat[i], flat[i + 1]]);
    return found;
  }).sort((a, b) => b[2] - a[2]).slice(0, 4);
  $("holders").replaceChildren(...holders.flatMap(([owner, id, held]) => {
    const row = rows.find((each) => each.id === id && each.engine === owner.index);
    const name = element("span", row ? nameOf(row) : `#${id}`, "name"), swatch = element("span", undefined, "swatch");
    swatch.style.background = tenantColour(row?.tenant || "");
    name.prepend(swatch);
    const meter = element("i"), part = element("b");
    part.style.width = `${100 * held / holders[0][2]}%`;
    part.style.background = swatch.style.background;
    meter.append(part);
    return [name, meter, element("span", `${number(held)} blocks`, "num")];
  }));
}

function queue({ engines, columns, rows }) {
  const waiting = rows.filter((row) => isOpen(row) && WAITING.has(phaseOf(row))).sort((a, b) => beginOf(a) - beginOf(b) || a.id - b.id);
  const now = [...new Set(engines.map((each) => each.obstacle).filter(Boolean))];
  const held = {};
  for (const each of engines) for (const [gate, count] of Object.entries(each.held || {})) held[gate] = (held[gate] || 0) + count;
  const gates = Object.entries(held).map(([gate, count]) => `${count} by ${plain(gate)}`);
  $("obstacle").textContent = [...now.map((each) => each.replace("_", " ")), ...gates].join(", ") || "nothing";
  const waits = engines.reduce((sum, each) => sum + (each.waiting || 0), 0);
  $("s-queue").textContent = waits ? `${number(waits)} wait, the first for ${seconds(waiting.length ? (data.at - beginOf(waiting[0])) / 1000 : null)}` : "empty";
  const found = Object.entries(totals(columns, "obstacles")).sort((a, b) => b[1] - a[1]);
  const all = found.reduce((sum, [, us]) => sum + us, 0);
  $("obstacles").replaceChildren(...found.map(([name, us]) => {
    const part = element("span");
    part.style.width = `${100 * us / all}%`;
    part.style.background = OBSTACLES[name] || "#9aa3ab";
    return part;
  }));
  $("obstacles").setAttribute("aria-label", found.map(([name, us]) => `${name} ${seconds(us / 1e6)}`).join(", ") || "no obstacle");
  legend("l-obstacles", found.map(([name, us]) => [OBSTACLES[name] || "#9aa3ab", `${name.replace("_", " ")} ${seconds(us / 1e6)}`]));
  $("queue").replaceChildren(...waiting.slice(0, 30).map((row) => {
    const item = element("li"), button = element("button");
    button.type = "button";
    button.append(element("span", nameOf(row), "name"), element("span", tenantName(row.tenant || ""), "num"),
      element("span", `${phaseOf(row) === "queued" ? "" : `${PHASES[phaseOf(row)][1]} `}${seconds((data.at - beginOf(row)) / 1000)}`, "num"));
    button.addEventListener("click", () => why(row));
    item.append(button);
    return item;
  }));
}

function tables({ engines, columns }) {
  const tokens = totals(columns, "tenants"), states = new Map();
  for (const each of engines) {
    for (const tenant of each.tenants || []) {
      const key = tenant.name === null ? OTHERS : tenant.name, sum = states.get(key) || { running: 0, waiting: 0, blocks: 0 };
      for (const name of ["running", "waiting", "blocks"]) sum[name] += tenant[name] || 0;
      states.set(key, sum);
    }
  }
  const names = [...new Set([...Object.keys(tokens), ...states.keys()])].sort((a, b) => (a === OTHERS) - (b === OTHERS) || (tokens[b] || 0) - (tokens[a] || 0));
  const lines = table("tenants", ["tenant", "run", "wait", "KV blocks", "tokens/min"], names.map((name) => {
    const state = states.get(name) || {};
    return [tenantName(name), number(state.running || 0), number(state.waiting || 0), number(state.blocks || 0), number(tokens[name] || 0)];
  }));
  lines.forEach((line, place) => {
    const swatch = element("span", undefined, "swatch");
    swatch.style.background = tenantColour(names[place]);
    line.firstChild.prepend(swatch);
  });
  const share = (part, all) => all ? `${(100 * part / all).toFixed(1)} %` : "–";
  const sum = (name) => total(columns, name);
  table("more", ["in a minute", "share", "", ""], [
    ["prompt tokens cached", share(sum("cached"), sum("prompt")), number(sum("cached")), `of ${number(sum("prompt"))}`],
    ["drafts accepted", share(sum("accepted"), sum("drafted")), number(sum("accepted")), `of ${number(sum("drafted"))}`],
    ["KV transfers", `${number(sum("loads"))}`, `${number(sum("loaded"))} tokens`, sum("loads") ? `mean ${seconds(sum("load_us") / sum("loads") / 1e6)}` : "–"],
  ]);
  const all = [...data.engines.values()].map((each) => each.now).sort((a, b) => a.index - b.index);
  const rows = table("engines", ["engine", "state", "model", "steps", "running", "waiting", "KV held", "executor", "pid"], all.map((each) => [
    `${each.index}`, (each.state || "running") + (each.reason ? `: ${plain(each.reason)}` : ""), plain(each.model), number(each.step || 0),
    `${each.running || 0} of ${each.max_running || 0}`, `${each.waiting || 0}`, share(each.used || 0, each.num_blocks), each.executor, `${each.pid}`,
  ]));
  rows.forEach((line, place) => {
    const index = all[place].index;
    if (["hung", "ended"].includes(all[place].state)) line.children[1].classList.add("bad");
    if (all.length < 2) return;
    line.className = "choice";
    line.tabIndex = 0;
    line.setAttribute("aria-selected", engine === index);
    const choose = () => { engine = engine === index ? null : index; hash(); draw(); };
    line.addEventListener("click", choose);
    line.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
  });
  table("lanes", ["logger", "delivered", "waiting", "dropped", "errors", "breaker"], (live.lanes || []).map((lane) => [
    plain(lane.name), number(lane.delivered || 0), number(lane.depth || 0), number(lane.dropped || 0), number(lane.errors || 0), lane.breaker || "closed",
  ])).forEach((line, place) => {
    const lane = live.lanes[place];
    if (lane.dropped || lane.errors) line.children[3].classList.add("bad");
  });
}

function status() {
  const mode = past !== null ? "past" : trouble ? "lost" : "live";
  const lost = lostFrames ? `, ${lostFrames} frames lost` : "";
  $("status").dataset.mode = mode;
  $("status").textContent = mode === "past" ? `the minute to ${new Date(past).toLocaleString()}` : trouble || `live, ${data.at ? clock(data.at) : ""}${lost}`;
  $("pause").textContent = past === null ? "Pause" : "Go on";
  $("pause").setAttribute("aria-pressed", past !== null);
  const all = [...live.engines.values()].map((each) => live.at + (each.now.oldest ?? 0));
  $("time").max = live.at;
  $("time").min = Math.min(live.at, ...all);
  if (past === null) $("time").value = live.at;
  $("model").textContent = [...new Set([...data.engines.values()].map((each) => plain(each.now.model)))].join(", ");
  $("note").hidden = !data.note;
  $("note").textContent = data.note;
}

let isDue = false;
function draw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    if (!data.at) return;
    const chosen = data.chosen(engine);
    for (const panel of [status, tiles, requests, steps, latency, blocks, queue, tables]) panel(chosen);
    document.body.dataset.at = data.at;
  });
}

// -- why ----------------------------------------------------------------------------

async function why(row) {
  selected = row;
  const name = row.client || row.response || String(row.id);
  $("why-id").textContent = nameOf(row);
  $("why-said").textContent = "…";
  $("why-account").textContent = "";
  const spans = row.phases.map(([phase, begin], place) => [phase, ((row.phases[place + 1] || [0, data.at])[1] - begin) / 1000]);
  table("why-facts", ["", ""], [
    ["tenant", tenantName(row.tenant || "")], ["priority", `${row.priority || 0}`],
    ["prompt", `${number(row.prompt || 0)} tokens, ${number(row.cached || 0)} of them cached`],
    ["output", `${row.is_partial ? "at least " : ""}${number(row.output)} tokens${row.limit ? ` of ${number(row.limit)}` : ""}`],
    ["engine", `${row.engine}`], ["state", row.end || phaseOf(row)],
    ...spans.filter(([phase]) => PHASES[phase]).map(([phase, took]) => [PHASES[phase][1], seconds(took)]),
  ]);
  if (!$("why").open) $("why").showModal();
  draw();
  try {
    const answer = await get(`../why/${encodeURIComponent(name)}`);
    const text = await answer.text();
    if (selected !== row) return;
    if (answer.status === 404 && /json/.test(answer.headers.get("Content-Type"))) throw new Error("no page");
    show(text);
  } catch {
    $("why-said").textContent = `hookline why ${plain(name)} says more.`;
  }
}

function show(text) {
  let said;
  try { said = JSON.parse(text); } catch { said = text; }
  const sentence = typeof said === "string" ? said.split("\n")[0] : said.sentence || said.error?.message || "";
  $("why-said").textContent = plain(sentence);
  $("why-account").textContent = typeof said === "string"
    ? said.split("\n").slice(1).map(plain).join("\n").trim() : said.error ? "" : JSON.stringify(said, null, 2).split("\n").map(plain).join("\n");
}

// -- time ---------------------------------------------------------------------------

function hash() {
  const parts = new URLSearchParams();
  if (past !== null) parts.set("at", Math.round(past));
  if (engine !== null) parts.set("engine", engine);
  if (kind !== "ttft") parts.set("latency", kind);
  history.replaceState(null, "", `#${parts}`);
}

let asked = null;
async function goTo(at) {
  past = Math.min(Math.max(at, Number($("time").min) || at), live.at || at);
  $("time").value = past;
  hash();
  asked?.abort();
  asked = new AbortController();
  try {
    const frame = await moment(past, asked.signal);
    data = new Data();
    data.take(frame);
  } catch (error) {
    if (error.name === "AbortError") return;
    trouble = error.message;
  }
  draw();
}

function goLive() {
  asked?.abort();
  past = null;
  data = live;
  hash();
  draw();
}

const pause = () => past === null ? goTo(live.at) : goLive();
const shift = (ms) => {
  const to = (past ?? live.at) + ms;
  if (to >= live.at) goLive(); else goTo(to);
};

async function copyLink() {
  if (past === null) await goTo(live.at);
  const link = location.href;
  try { await navigator.clipboard.writeText(link); } catch { prompt("The link", link); return; }
  $("link").textContent = "Copied";
  setTimeout(() => { $("link").textContent = "Copy link"; }, 1500);
}

// -- the connection -----------------------------------------------------------------

async function run() {
  for (;;) {
    try {
      const frame = await moment(null);
      live.clear();
      live.take(frame);
      trouble = "";
      draw();
      await follow((next) => { live.take(next); if (past === null) draw(); else status(); }, (count) => {
        lostFrames += count;
        // What they had is in the ring.
        moment(null).then((whole) => { live.clear(); live.take(whole); }).catch(() => {});
      });
    } catch (error) {
      trouble = `no connection: ${error.message}; trying again`;
      status();
      await new Promise((resolve) => { setTimeout(resolve, 2000); });
    }
  }
}

// -- keys and clicks ----------------------------------------------------------------

function theme(next) {
  document.documentElement.dataset.theme = next;
  localStorage.setItem("hookline-theme", next);
  draw();
}

const flip = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

function choose(next) {
  kind = next;
  for (const button of $("kinds").children) button.setAttribute("aria-checked", button.dataset.kind === kind);
  hash();
  draw();
}

function move(by) {
  const place = shown.indexOf(selected);
  selected = shown[Math.max(0, Math.min(shown.length - 1, place < 0 ? 0 : place + by))] || null;
  draw();
}

const KEYS = {
  " ": pause, ArrowLeft: (event) => shift(event.shiftKey ? -60000 : -10000), ArrowRight: (event) => shift(event.shiftKey ? 60000 : 10000),
  l: goLive, c: copyLink, d: flip, "?": () => $("keys").showModal(), ArrowUp: () => move(-1), ArrowDown: () => move(1),
  Enter: () => { if (selected) why(selected); },
  ...Object.fromEntries(Object.keys(KINDS).map((each, place) => [String(place + 1), () => choose(each)])),
};

document.addEventListener("keydown", (event) => {
  const act = KEYS[event.key] || KEYS[event.key.toLowerCase()];
  const isTaken = event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]");
  if (!act || isTaken || (event.target !== document.body && event.target !== $("requests"))) return;
  event.preventDefault();
  act(event);
});
$("requests").addEventListener("click", (event) => {
  const row = rowAt(shown, event.offsetY);
  if (row) why(row);
});
$("pause").addEventListener("click", pause);
$("live").addEventListener("click", goLive);
$("back").addEventListener("click", () => shift(-10000));
$("forward").addEventListener("click", () => shift(10000));
$("link").addEventListener("click", copyLink);
$("theme").addEventListener("click", flip);
$("help").addEventListener("click", KEYS["?"]);
let sliding = 0;
$("time").addEventListener("input", () => {
  clearTimeout(sliding);
  const at = Number($("time").value);
  past = at;
  sliding = setTimeout(() => goTo(at), 120);
});
window.addEventListener("resize", draw);
$("kinds").append(...Object.entries(KINDS).map(([each, text]) => {
  const button = element("button", text);
  button.type = "button";
  button.dataset.kind = each;
  button.setAttribute("role", "radio");
  button.addEventListener("click", () => choose(each));
  return button;
}));
legend("l-requests", Object.values(PHASES));

function fromHash() {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (parts.has("engine")) engine = Number(parts.get("engine"));
  choose(parts.get("latency") in KINDS ? parts.get("latency") : kind);
  if (Number(parts.get("at"))) { past = Number(parts.get("at")); hash(); goTo(past); }
}

theme(localStorage.getItem("hookline-theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
window.addEventListener("hashchange", () => { if (!location.hash.slice(1)) goLive(); else fromHash(); });
fromHash();
run();
