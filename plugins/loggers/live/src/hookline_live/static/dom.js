// Puts text on the page. Elements stay where they are and only what differs is changed,
// so that focus and clicks are not lost between two frames, and layout is cheap.

export const $ = (id) => document.getElementById(id);

export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Returns the children of an element, as many as asked for; `make` makes new ones.
export function children(parent, count, make) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(make());
  return [...parent.children];
}

// Puts a square of a colour before an element's text; none without a colour.
export function mark(node, colour) {
  if (node.dataset.key === (colour || "")) return;
  node.dataset.key = colour || "";
  node.classList.toggle("key", Boolean(colour));
  node.style.setProperty("--key", colour || "");
}

export function legend(id, entries) {
  children($(id), entries.length, () => element("li")).forEach((item, place) => {
    mark(item, entries[place][0]);
    write(item, entries[place][1]);
  });
}

// Shares of a bar, as [name, part, colour].
export function shares(node, parts) {
  const all = parts.reduce((sum, [, part]) => sum + part, 0);
  children(node, parts.length, () => element("span")).forEach((span, place) => {
    span.style.width = `${100 * parts[place][1] / all}%`;
    span.style.background = parts[place][2];
  });
}

// A table of rows of cells; what is a number stands right. Returns the rows' elements.
export function table(id, heads, rows) {
  const isNumber = heads.map((_, place) => rows.some((row) => /^[-–\d]/.test(row[place])) && place > 0);
  const [head, ...lines] = children($(id), rows.length + 1, () => element("tr"));
  const fill = (line, name, cells) => children(line, cells.length, () => element(name)).forEach((cell, place) => {
    cell.classList.toggle("r", isNumber[place]);
    write(cell, cells[place]);
    if (name === "td" && cell.title !== cells[place]) cell.title = cells[place];
  });
  fill(head, "th", heads);
  lines.forEach((line, place) => fill(line, "td", rows[place]));
  return lines;
}
