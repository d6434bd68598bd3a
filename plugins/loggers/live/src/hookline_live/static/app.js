// Puts frames on the page, and answers keys and clicks.

import {
  COLUMN, Data, WAITING, added, beginOf, durations, isOpen, nameOf, number, phaseOf, plain, quantile,
  seconds, total, totals,
} from "./data.js";
import {
  OBSTACLES, OWNERS, PARTS, PHASES, drawBlocks, drawLatency, drawRequests, drawSteps, readColours, rowAt,
  shownRows,
} from "./draw.js";
import { $, children, element, legend, mark, shares, table, write } from "./dom.js";
import { follow, get, moment } from "./stream.js";

const KINDS = { ttft: "first token", itl: "inter-token", e2e: "end to end", queue: "queue" };
const OBJECTIVES = { ttft: "ttft", itl: "tpot", e2e: "e2e" };
const OTHERS = "\u0000others";
const live = new Data();
let data = live; // or of an earlier moment
let past = null; // its time, while not live
let engine = null, kind = "ttft", selected = null, lostFrames = 0, trouble = "", shown = [], queued = [];
const owners = new Map();

function tenantColour(tenant) {
  if (owners.size > 1000) owners.clear();
  if (!owners.has(tenant)) owners.set(tenant, OWNERS[owners.size % OWNERS.length]);
  return owners.get(tenant);
}

const tenantName = (tenant) => tenant === null || tenant === OTHERS ? "all others" : plain(tenant) || "no tenant";
const sumOf = (engines, name) => engines.reduce((sum, each) => sum + (each[name] || 0), 0);
const upTo = (value) => value === null ? "–" : `≤ ${seconds(value)}`;

// -- panels -------------------------------------------------------------------------

function tiles({ engines, columns }) {
  const recent = new Map([...columns].filter(([place]) => place * COLUMN >= data.at - 10000));
  const span = Math.min(10, Math.max(1, ...[...recent.keys()].map((place) => (data.at - place * COLUMN) / 1000)));
  const ttft = durations(columns, "ttft"), itl = durations(columns, "itl");
  const rate = (name) => number(total(recent, name) / span);
  const found = [
    ["running", "running", number(sumOf(engines, "running")), `of ${number(sumOf(engines, "max_running"))}`],
    ["waiting", "waiting", number(sumOf(engines, "waiting")), ""],
    ["kv", "KV cache held", `${Math.round(100 * sumOf(engines, "used") / Math.max(1, sumOf(engines, "num_blocks")))} %`, `of ${number(sumOf(engines, "num_blocks"))} blocks`],
    ["decode", "tokens decoded", rate("decode"), "/s"],
    ["prefill", "prompt tokens", rate("prefill"), "/s"],
    ["ttft", "first token, median", upTo(quantile(ttft, 0.5)), `p95 ${seconds(quantile(ttft, 0.95))}`],
    ["itl", "inter-token, median", upTo(quantile(itl, 0.5)), `p95 ${seconds(quantile(itl, 0.95))}`],
    ["preempted", "preemptions", number(total(columns, "preempted")), "/min"],
  ];
  children($("tiles"), found.length, () => {
    const tile = element("div", undefined, "tile"), value = element("b");
    value.append(element("span"), " ", element("i"));
    tile.append(element("span"), value);
    return tile;
  }).forEach((tile, place) => {
    const [id, label, value, more] = found[place], [name, told] = tile.children;
    tile.id = `t-${id}`;
    write(name, label);
    write(told.children[0], value);
    write(told.children[1], more);
  });
}

function requests({ engines, rows }) {
  const counts = {};
  for (const row of rows) {
    const state = isOpen(row) ? phaseOf(row) : "ended";
    counts[state] = (counts[state] || 0) + 1;
  }
  const told = [...Object.keys(PHASES), "ended"].filter((state) => counts[state]).map((state) => `${counts[state]} ${PHASES[state]?.[1] || state}`);
  const omitted = sumOf(engines, "omitted");
  write($("s-requests"), told.join(", ") + (omitted ? `, ${omitted} more` : "") + (rows.length > shown.length ? `; ${shown.length} shown` : ""));
}

function steps({ columns }) {
  const count = total(columns, "steps");
  let longest = null;
  for (const column of columns.values()) if (column.longest_us && (!longest || column.longest_us > longest.longest_us)) longest = column;
  const parts = PARTS.map(([name]) => total(columns, name)), all = parts.reduce((a, b) => a + b, 0);
  write($("s-steps"), count
    ? `${number(count)} in a minute, mean ${seconds(all / count / 1e6)}, longest ${seconds(longest.longest_us / 1e6)} (step ${longest.longest_step}), forward pass ${(100 * total(columns, "forward_us") / all).toFixed(1)} %` : "none");
  legend("l-steps", [
    ...PARTS.map(([, colour, text], place) => [colour, all ? `${text} ${(100 * parts[place] / all).toFixed(1)} %` : text]),
    ["var(--ink)", "longest"],
  ]);
}

function latency({ columns }) {
  const bins = durations(columns, kind), count = Object.values(bins).reduce((a, b) => a + b, 0);
  write($("s-latency"), count
    ? `${number(count)} in a minute: p50 ≤ ${seconds(quantile(bins, 0.5))}, p95 ≤ ${seconds(quantile(bins, 0.95))}, p99 ≤ ${seconds(quantile(bins, 0.99))}` : "none in a minute");
}

function blocks({ engines, rows }) {
  const free = sumOf(engines, "num_blocks") - sumOf(engines, "used") - sumOf(engines, "reusable");
  write($("s-kv"), `${number(sumOf(engines, "used"))} held, ${number(sumOf(engines, "reusable"))} reusable, ${number(free)} empty`);
  const holders = engines.flatMap((each) => {
    const found = [], flat = each.holders || [];
    for (let i = 0; i < flat.length; i += 2) found.push([each, flat[i], flat[i + 1]]);
    return found;
  }).sort((a, b) => b[2] - a[2]).slice(0, 4);
  children($("holders"), holders.length, () => {
    const line = element("div"), meter = element("i");
    meter.append(element("b"));
    line.append(element("span", "", "name"), meter, element("span", "", "num"));
    return line;
  }).forEach((line, place) => {
    const [owner, id, held] = holders[place], [name, meter, count] = line.children;
    const row = rows.find((each) => each.id === id && each.engine === owner.index);
    mark(name, tenantColour(row?.tenant || ""));
    write(name, row ? nameOf(row) : `#${id}`);
    meter.firstChild.style.width = `${100 * held / holders[0][2]}%`;
    meter.firstChild.style.background = tenantColour(row?.tenant || "");
    write(count, `${number(held)} blocks`);
  });
}

function queue({ engines, columns, rows }) {
  const waiting = rows.filter((row) => isOpen(row) && WAITING.has(phaseOf(row))).sort((a, b) => beginOf(a) - beginOf(b) || a.id - b.id);
  const now = [...new Set(engines.map((each) => each.obstacle).filter(Boolean))];
  const gates = Object.entries(added(...engines.map((each) => each.held))).map(([gate, count]) => `${count} by ${plain(gate)}`);
  write($("obstacle"), [...now.map((each) => each.replace("_", " ")), ...gates].join(", ") || "nothing");
  const waits = sumOf(engines, "waiting");
  write($("s-queue"), waits ? `${number(waits)} wait, the first for ${seconds(waiting.length ? (data.at - beginOf(waiting[0])) / 1000 : null)}` : "empty");
  const found = Object.entries(totals(columns, "obstacles")).sort((a, b) => b[1] - a[1]);
  const colour = (name) => OBSTACLES[name] || "#9aa3ab";
  shares($("obstacles"), found.map(([name, us]) => [name, us, colour(name)]));
  $("obstacles").setAttribute("aria-label", found.map(([name, us]) => `${name} ${seconds(us / 1e6)}`).join(", ") || "no obstacle");
  legend("l-obstacles", found.map(([name, us]) => [colour(name), `${name.replace("_", " ")} ${seconds(us / 1e6)}`]));
  queued = waiting.slice(0, 30);
  children($("queue"), queued.length, () => {
    const item = element("li"), button = element("button");
    button.type = "button";
    button.append(element("span", "", "name"), element("span", "", "num"), element("span", "", "num"));
    item.append(button);
    return item;
  }).forEach((item, place) => {
    const row = queued[place], [name, tenant, since] = item.firstChild.children;
    write(name, nameOf(row));
    write(tenant, tenantName(row.tenant || ""));
    write(since, `${phaseOf(row) === "queued" ? "" : `${PHASES[phaseOf(row)][1]} `}${seconds((data.at - beginOf(row)) / 1000)}`);
  });
}

function owned(engines, kind) {
  const states = new Map();
  for (const each of engines) {
    for (const { name, ...state } of each[kind] || []) {
      const key = name === null ? OTHERS : name;
      states.set(key, added(states.get(key), state));
    }
  }
  return states;
}

const amounts = (state = {}) => ["running", "waiting", "blocks"].map((name) => number(state[name] || 0));

function tables({ engines, columns }) {
  const tokens = totals(columns, "tenants"), states = owned(engines, "tenants");
  const names = [...new Set([...Object.keys(tokens), ...states.keys()])].sort((a, b) => (a === OTHERS) - (b === OTHERS) || (tokens[b] || 0) - (tokens[a] || 0));
  table("tenants", ["tenant", "run", "wait", "KV blocks", "tokens/min"], names.map((name) => {
    return [tenantName(name), ...amounts(states.get(name)), number(tokens[name] || 0)];
  })).forEach((line, place) => mark(line.firstChild, tenantColour(names[place])));
  const adapters = owned(engines, "adapters"), gated = engines.reduce((sum, each) => sum + (each.held?.adapter || 0), 0);
  $("h-adapters").parentNode.hidden = !adapters.size;
  write($("s-adapters"), gated ? `${number(gated)} requests wait for theirs` : "");
  table("adapters", ["adapter", "run", "wait", "KV blocks"], [...adapters].map(([name, state]) => {
    return [name === OTHERS ? "all others" : plain(name) || "base model", ...amounts(state)];
  }));
  const share = (part, all) => all ? `${(100 * part / all).toFixed(1)} %` : "–";
  const sum = (name) => total(columns, name);
  table("more", ["in a minute", "share", "", ""], [
    ["prompt tokens cached", share(sum("cached"), sum("prompt")), number(sum("cached")), `of ${number(sum("prompt"))}`],
    ["drafts accepted", share(sum("accepted"), sum("drafted")), number(sum("accepted")), `of ${number(sum("drafted"))}`],
    ["KV transfers", `${number(sum("loads"))}`, `${number(sum("loaded"))} tokens`, sum("loads") ? `mean ${seconds(sum("load_us") / sum("loads") / 1e6)}` : "–"],
  ]);
  const all = [...data.engines.values()].map((each) => each.now).sort((a, b) => a.index - b.index);
  table("engines", ["engine", "state", "model", "steps", "running", "waiting", "KV held", "executor", "pid"], all.map((each) => [
    `${each.index}`, (each.state || "running") + (each.reason ? `: ${plain(each.reason)}` : ""), plain(each.model), number(each.step || 0),
    `${each.running || 0} of ${each.max_running || 0}`, `${each.waiting || 0}`, share(each.used || 0, each.num_blocks), plain(each.executor), `${each.pid}`,
  ])).forEach((line, place) => {
    const isOne = all.length < 2;
    line.children[1].classList.toggle("bad", ["hung", "ended"].includes(all[place].state));
    line.className = isOne ? "" : "choice";
    line.tabIndex = isOne ? -1 : 0;
    line.dataset.engine = all[place].index;
    line.setAttribute("aria-selected", engine === all[place].index);
  });
  const lanes = live.lanes || [];
  table("lanes", ["logger", "delivered", "waiting", "dropped", "errors", "breaker"], lanes.map((lane) => [
    plain(lane.name), number(lane.delivered || 0), number(lane.depth || 0), number(lane.dropped || 0), number(lane.errors || 0), lane.breaker || "closed",
  ])).forEach((line, place) => line.children[3].classList.toggle("bad", Boolean(lanes[place].dropped || lanes[place].errors)));
}

function status() {
  const mode = past !== null ? "past" : trouble ? "lost" : "live";
  const lost = lostFrames ? `, ${lostFrames} frames lost` : "";
  $("status").dataset.mode = mode;
  write($("status"), mode === "past" ? `the minute to ${new Date(past).toLocaleString()}` : trouble || `live${lost}`);
  write($("clock"), mode === "live" && data.at ? new Date(data.at).toLocaleTimeString() : "");
  write($("pause"), past === null ? "Pause" : "Go on");
  $("pause").setAttribute("aria-pressed", past !== null);
  const all = [...live.engines.values()].map((each) => live.at + (each.now.oldest ?? 0));
  $("time").max = live.at;
  $("time").min = Math.min(live.at, ...all);
  if (past === null) $("time").value = live.at;
  write($("model"), [...new Set([...data.engines.values()].map((each) => plain(each.now.model)))].join(", "));
  $("note").hidden = !data.note;
  write($("note"), data.note);
}

function pictures({ engines, columns, rows }) {
  shown = shownRows(rows, $("requests").clientHeight);
  if (selected) selected = rows.find((row) => row.id === selected.id && row.engine === selected.engine) || null;
  drawRequests($("requests"), shown, data.at, selected);
  drawSteps($("steps"), columns, data.at);
  drawLatency($("latency"), columns, kind, data.at, data.objectives[OBJECTIVES[kind]]);
  const tenants = new Map(rows.map((row) => [`${row.engine} ${row.id}`, row.tenant || ""]));
  drawBlocks($("kv"), engines, (index, id) => tenantColour(tenants.get(`${index} ${id}`) ?? ""));
}

const WORDS = [status, tiles, requests, steps, latency, blocks, queue, tables];
const WORDS_EVERY = 1000; // ms; who reads numbers is not helped by four a second
let isDue = false, wordsAt = -Infinity;
function draw(isFrame = false) {
  if (!isFrame) wordsAt = -Infinity;
  if (isDue) return;
  isDue = true;
  requestAnimationFrame((now) => {
    isDue = false;
    if (!data.at) return;
    const chosen = data.chosen(engine);
    pictures(chosen);
    if (now - wordsAt >= WORDS_EVERY - COLUMN / 2) {
      wordsAt = now;
      for (const panel of WORDS) panel(chosen);
    }
    document.body.dataset.at = data.at;
  });
}

// -- why ----------------------------------------------------------------------------

async function why(row) {
  selected = row;
  const name = row.response || row.client || String(row.id); // clients may repeat theirs
  $("why-id").textContent = nameOf(row);
  $("why-said").textContent = "…";
  $("why-account").textContent = "";
  const spans = row.phases.map(([phase, begin], place) => [phase, ((row.phases[place + 1] || [0, data.at])[1] - begin) / 1000]);
  table("why-facts", ["", ""], [
    ["tenant", tenantName(row.tenant || "")], ...(row.adapter ? [["adapter", plain(row.adapter)]] : []), ["priority", `${row.priority || 0}`],
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
    ? said.split("\n").slice(1).map(plain).join("\n").replace(/^\n+|\s+$/g, "") : said.error ? "" : JSON.stringify(said, null, 2).split("\n").map(plain).join("\n");
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
      await follow((next) => { live.take(next); if (past === null) draw(true); else status(); }, (count) => {
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
  readColours();
  localStorage.setItem("hookline-theme", next);
  draw();
}

const flip = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

function choose(next) {
  kind = next;
  for (const button of $("kinds").children) button.setAttribute("aria-pressed", button.dataset.kind === kind);
  hash();
  draw();
}

function move(by) {
  const place = shown.indexOf(selected);
  selected = shown[Math.max(0, Math.min(shown.length - 1, place < 0 ? 0 : place + by))] || null;
  write($("chosen"), selected ? `${nameOf(selected)}, ${selected.end || phaseOf(selected)}` : "");
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
  const isOfTarget = event.target.matches("input") || (/^[ E]/.test(event.key) && event.target.matches("button, tr"));
  if (!act || isTaken || isOfTarget) return;
  event.preventDefault();
  act(event);
});
$("requests").addEventListener("click", (event) => {
  const row = rowAt(shown, event.offsetY);
  if (row) why(row);
});
$("queue").addEventListener("click", (event) => {
  const row = queued[[...$("queue").children].indexOf(event.target.closest("li"))];
  if (row) why(row);
});
function chooseEngine(event) {
  const line = event.target.closest("tr.choice");
  if (!line || (event.type === "keydown" && event.key !== "Enter")) return;
  engine = engine === Number(line.dataset.engine) ? null : Number(line.dataset.engine);
  hash();
  draw();
}
for (const kindOfEvent of ["click", "keydown"]) $("engines").addEventListener(kindOfEvent, chooseEngine);
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
window.addEventListener("resize", () => draw());
$("kinds").append(...Object.entries(KINDS).map(([each, text]) => {
  const button = element("button", text);
  button.type = "button";
  button.dataset.kind = each;
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
