// The live panel of a run. A plain ES module: no build step, nothing fetched.
//
// Every text of a model, a tool or a user reaches the page as a text node; there is no innerHTML in this file.
// The kernel sends four traits: `head` (status, gauges, controls), `draft` (the reply that is being streamed), and the
// newest pages of `rows` and `bars`, two logs of versions in which a later item with the same key replaces the earlier.

/** @typedef {{get: (name: string) => any, on: Function, off: Function, send: (content: object) => void}} Model */

const LANES = { model: "model", tools: "tools", waits: "waits", compression: "compress", agents: "agents" };
const LABELS = { prompt: "prompt", user: "user", assistant: "assistant", tool: "tool", steer: "steer" };
const FOCUSABLE = new Set(["button", "summary", "textarea"]);
const BLOCK = 40; // rows that are drawn and cleared together
const PATIENCE = 700; // ms without an answer after which a click counts as held up
const HELD = "A running cell keeps this kernel busy: clicks here wait until it ends. If it waits for this turn, the notebook's Stop button ends the turn.";
const SPANS = [5, 8, 12, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 600]; // seconds that the timeline shows
const TICKS = [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600];

/** An element with a class and children; strings become text nodes. */
function el(tag, name = "", ...children) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (FOCUSABLE.has(tag)) quiet(node);
  node.append(...children);
  return node;
}

/** The notebook's own keys (D D deletes a cell) stay out of an element that has the focus. */
function quiet(node) {
  node.dataset.lmSuppressShortcuts = "true";
}

/** Set a text only when it differs, so that a selection in it is kept. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function seconds(value) {
  if (value < 59.95) return `${Math.max(0, value).toFixed(1)} s`;
  const whole = Math.round(value);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** A model's words: code fences and code spans as code, everything else as it was written. */
function prose(text) {
  const parts = [];
  let position = 0;
  for (const match of text.matchAll(/```[^\n`]*\n([\s\S]*?)(?:```|$)|`([^`\n]+)`/g)) {
    parts.push(text.slice(position, match.index));
    parts.push(match[2] === undefined ? el("div", "hnb-code", match[1]) : el("code", "", match[2]));
    position = match.index + match[0].length;
  }
  return [...parts, text.slice(position)];
}

// ------------------------------------------------------------------------------------------ logs from the kernel

/** A log of versions, put together from pages; asks for what is missing. */
class Log {
  constructor(apply) {
    this.have = 0;
    this.apply = apply;
  }

  /** Take a page; returns false when something before it is missing. */
  take(page) {
    if (!page || !page.items || page.from > this.have) return !page || !page.items;
    const fresh = page.items.slice(this.have - page.from);
    if (fresh.length) {
      this.have += fresh.length;
      this.apply(fresh);
    }
    return true;
  }
}

// ------------------------------------------------------------------------------------------ head and gauges

class Head {
  constructor() {
    this.word = el("span", "hnb-word");
    this.pill = el("span", "hnb-pill", el("span", "hnb-dot"), this.word);
    this.phase = el("span", "hnb-phase");
    this.agent = el("span", "hnb-agent");
    this.who = el("span", "hnb-who");
    this.remark = el("span", "hnb-remark");
    this.node = el("header", "hnb-head", this.pill, this.phase, el("span", "hnb-answering", this.agent, this.who, this.remark));
  }

  draw(head) {
    this.pill.dataset.tone = head.status.tone;
    say(this.word, head.status.word);
    say(this.agent, head.agent);
    say(this.who, head.who);
    say(this.remark, head.remark);
    this.remark.classList.toggle("hnb-fallback", head.fallback);
  }

  /** The phase counts down by itself. */
  tick(head, now) {
    const left = seconds(Math.max(0, head.phase.until - now) / 1000);
    say(this.phase, head.phase.until ? head.phase.text.replace("{left}", left) : head.phase.text);
    this.phase.title = this.phase.textContent;
  }
}

class Gauge {
  constructor(id) {
    this.value = el("span", "hnb-value");
    this.of = el("span", "hnb-of");
    this.label = el("div", "hnb-label");
    this.bar = el("div", "hnb-bar");
    this.bar.setAttribute("role", "progressbar");
    this.notes = el("div", "hnb-notes");
    this.node = el("div", `hnb-gauge hnb-gauge-${id}`, this.label, el("div", "hnb-number", this.value, " ", this.of), this.bar, this.notes);
  }

  draw(gauge) {
    say(this.label, gauge.label);
    say(this.value, gauge.value);
    say(this.of, gauge.of);
    say(this.notes, gauge.notes.join(" · "));
    this.bar.hidden = gauge.fraction === null;
    if (gauge.fraction === null) return;
    this.bar.setAttribute("aria-label", gauge.label);
    this.bar.setAttribute("aria-valuemin", "0");
    this.bar.setAttribute("aria-valuemax", "100");
    this.bar.setAttribute("aria-valuenow", String(Math.round(gauge.fraction * 100)));
    this.bar.setAttribute("aria-valuetext", `${gauge.value} ${gauge.of} ${gauge.notes.join(", ")}`.trim());
    if (gauge.cells) this.cells(gauge);
    else this.fill(gauge.fraction);
  }

  fill(fraction) {
    if (this.bar.children.length !== 1) this.bar.replaceChildren(el("div", "hnb-fill"));
    this.bar.firstChild.style.width = `${(fraction * 100).toFixed(1)}%`;
    this.bar.classList.remove("hnb-cells");
  }

  /** One cell for each iteration of the budget; those given back are outlined, the grace call stands apart. */
  cells({ cells, filled: [used, refunded, grace] }) {
    const count = cells + (grace ? 1 : 0);
    if (this.bar.children.length !== count) this.bar.replaceChildren(...Array.from({ length: count }, () => el("div")));
    [...this.bar.children].forEach((cell, index) => {
      const extra = index < used ? "hnb-used" : index < used + refunded ? "hnb-refunded" : "";
      cell.className = `hnb-cell ${index >= cells ? "hnb-grace" : extra}`;
    });
    this.bar.classList.add("hnb-cells");
  }
}

class Gauges {
  constructor() {
    this.node = el("div", "hnb-gauges");
    this.byId = new Map();
  }

  draw(head) {
    for (const gauge of head.gauges) {
      if (!this.byId.has(gauge.id)) {
        this.byId.set(gauge.id, new Gauge(gauge.id));
        const order = head.gauges.map((one) => this.byId.get(one.id)?.node).filter(Boolean);
        this.node.replaceChildren(...order);
      }
      if (gauge.id !== "time") this.byId.get(gauge.id).draw(gauge);
    }
  }

  /** The clock runs here, so that a quiet turn needs no messages. */
  tick(head, now) {
    const gauge = head.gauges.find((one) => one.id === "time");
    if (!gauge) return;
    const { start, end, limit } = head.clock;
    const spent = start ? Math.max(0, (end || now) - start) / 1000 : 0;
    const fraction = limit ? Math.min(1, spent / limit) : null;
    this.byId.get("time").draw({ ...gauge, value: seconds(spent), fraction });
  }
}

// ------------------------------------------------------------------------------------------ timeline

class Timeline {
  constructor(open) {
    this.open = open; // shows the row of a bar
    this.bars = new Map();
    this.lanes = new Map();
    this.drawn = new Map(); // the element in which a bar is drawn
    this.axis = el("div", "hnb-axis");
    this.axis.setAttribute("aria-hidden", "true");
    this.node = el("div", "hnb-timeline");
    this.node.append(this.axis);
    this.lane("model");
    this.lane("tools");
    this.node.addEventListener("click", (event) => {
      const row = event.target.dataset?.row;
      if (row) this.open(row.split(" "));
    });
  }

  lane(id) {
    const track = el("div", "hnb-track");
    track.setAttribute("role", "img");
    this.lanes.set(id, track);
    const row = el("div", "hnb-lane", el("span", "hnb-lane-name", LANES[id]), track);
    row.dataset.lane = id;
    const names = Object.keys(LANES);
    const after = [...this.node.querySelectorAll(".hnb-lane")].find((one) => names.indexOf(one.dataset.lane) > names.indexOf(id));
    this.node.insertBefore(row, after || this.axis);
    return track;
  }

  take(items) {
    for (const bar of items) this.bars.set(bar.key, bar);
  }

  draw(head, now) {
    const { start, end } = head.clock;
    if (!start) return;
    const spent = Math.max(0.001, ((end || now) - start) / 1000);
    const span = end ? spent : SPANS.find((one) => spent <= one * 0.97) || Math.ceil(spent / 540) * 600;
    const width = this.lanes.get("model").clientWidth || 600;
    const byLane = new Map(Object.keys(LANES).map((id) => [id, []]));
    for (const bar of this.bars.values()) byLane.get(bar.lane)?.push(bar);
    this.drawn.clear();
    for (const [id, bars] of byLane) {
      if (bars.length) this.drawLane(this.lanes.get(id) || this.lane(id), id, bars, { start, span, width, now });
    }
    this.drawAxis(span, width);
  }

  /** Bars too narrow to be told apart share one element; so there are never more elements than pixels. */
  drawLane(track, id, bars, { start, span, width, now }) {
    const pieces = [];
    let total = 0;
    for (const bar of bars) {
      const left = ((bar.start - start) / 1000 / span) * width;
      const right = (((bar.end || now) - start) / 1000 / span) * width;
      total += Math.max(0, (bar.end || now) - bar.start) / 1000;
      const last = pieces.at(-1);
      const tiny = right - left < 3 && last && left - last.right < 1 && last.right - last.left < 12;
      if (tiny && last.tone === (bar.tone || "")) Object.assign(last, { right: Math.max(last.right, right), bar, count: last.count + 1 });
      else pieces.push({ left, right, tone: bar.tone || "", bar, count: 1 });
      pieces.at(-1).keys = [...(pieces.at(-1).keys || []), bar.key].slice(-20);
    }
    while (track.children.length > pieces.length) track.lastChild.remove();
    while (track.children.length < pieces.length) track.append(el("div"));
    pieces.forEach((piece, index) => this.drawPiece(track.children[index], id, piece, width, now));
    track.setAttribute("aria-label", `${LANES[id]}: ${bars.length}, ${seconds(total)} in all`);
  }

  drawPiece(node, id, piece, width, now) {
    const { bar, count } = piece;
    const thin = piece.right - piece.left < 5 ? " hnb-thin" : "";
    const lit = node.classList.contains("hnb-lit") ? " hnb-lit" : "";
    const name = `hnb-piece hnb-${id}${piece.tone ? ` hnb-${piece.tone}` : ""}${bar.end ? "" : " hnb-growing"}${thin}${lit}`;
    if (node.className !== name) node.className = name;
    node.style.left = `${((piece.left / width) * 100).toFixed(3)}%`;
    node.style.width = `${(Math.max(2 / width, (piece.right - piece.left) / width) * 100).toFixed(3)}%`;
    const took = seconds(((bar.end || now) - bar.start) / 1000);
    node.title = count > 1 ? `${count} times, last: ${bar.label || ""}` : `${bar.label || ""} (${took})`;
    node.dataset.row = `${bar.key} ${bar.row || ""}`;
    for (const key of piece.keys) this.drawn.set(key, node);
  }

  drawAxis(span, width) {
    const step = TICKS.find((one) => (one / span) * width > 56) || 21600;
    const name = (value) => (value >= 120 ? `${+(value / 60).toFixed(1)} min` : `${value} s`);
    const marks = Array.from({ length: Math.floor(span / step) + 1 }, (_, index) => index * step);
    if (this.axis.dataset.marks === `${step} ${span}`) return;
    this.axis.dataset.marks = `${step} ${span}`;
    this.axis.replaceChildren(
      ...marks.map((value) => {
        const mark = el("span", "hnb-tick", name(value));
        mark.style.left = `${(value / span) * 100}%`;
        return mark;
      }),
    );
  }

  light(key, on) {
    this.drawn.get(key)?.classList.toggle("hnb-lit", on);
  }
}

// ------------------------------------------------------------------------------------------ transcript

/** Draws a row; where it was drawn before, what the reader has unfolded stays unfolded. */
function drawRow(row, before) {
  if (row.kind === "iteration") {
    return el("div", "hnb-row hnb-separator", el("span", "", row.title, row.detail ? ` · ${row.detail}` : ""));
  }
  const body = el("div", "hnb-body");
  const node = el("div", `hnb-row hnb-row-${row.kind}`, el("span", "hnb-gutter", LABELS[row.kind] || ""), " ", body);
  if (row.tone) node.dataset.tone = row.tone;
  body.dir = "auto";
  if (row.kind === "tool") body.append(...toolBody(row));
  else if (row.kind === "assistant") body.append(...(row.detail ? [folded("thinking", row.detail)] : []), ...prose(row.text || ""));
  else if (row.kind === "steer") body.append(row.text || "", " ", el("span", "hnb-receipt", row.detail || ""));
  else body.append(row.text || "", ...(row.detail ? [folded("more", row.detail)] : []));
  if (before?.querySelector("details[open]")) node.querySelectorAll("details").forEach((one) => (one.open = true));
  return node;
}

function toolBody(row) {
  const call = el("span", "hnb-call", el("b", "", row.title || "tool"), " ", el("span", "hnb-arguments", row.detail || ""));
  const state = el("span", "hnb-state", row.state || "");
  const text = row.text || "";
  const lines = text.split("\n");
  if (!text) return [el("div", "hnb-call-line", call, " ", state)];
  if (lines.length <= 3 && text.length <= 240) return [el("div", "hnb-call-line", call, " ", state), el("div", "hnb-result", text)];
  const first = lines[0].length > 160 ? `${lines[0].slice(0, 160)} …` : lines[0];
  const summary = el("summary", "", el("div", "hnb-call-line", call, " ", state), el("div", "hnb-result hnb-first", `${first} `, el("i", "", `(${lines.length > 1 ? `${lines.length} lines` : `${text.length} characters`})`)));
  return [el("details", "", summary, el("div", "hnb-result", text))];
}

function folded(title, text) {
  return el("details", "hnb-folded", el("summary", "", title), el("div", "", text));
}

/** The rows, in blocks; only blocks near the visible part have their rows in the page. */
class Transcript {
  constructor(light) {
    this.light = light; // lights the bar of a row
    this.rows = new Map(); // key -> {row, block, node}
    this.byBar = new Map();
    this.blocks = [];
    this.draft = el("div", "hnb-draft");
    this.draft.setAttribute("aria-live", "off");
    this.list = el("div", "hnb-rows");
    this.log = el("div", "hnb-log", this.list, this.draft);
    this.log.setAttribute("role", "log");
    this.log.setAttribute("aria-label", "Transcript");
    this.log.tabIndex = 0;
    quiet(this.log);
    this.latest = el("button", "hnb-latest", "Jump to latest");
    this.latest.type = "button";
    this.latest.hidden = true;
    this.node = el("div", "hnb-transcript", this.log, this.latest);
    this.following = true;
    this.log.addEventListener("scroll", () => this.scrolled());
    this.latest.addEventListener("click", () => this.follow(true));
    this.observer = new IntersectionObserver((entries) => entries.forEach((one) => this.near(one)), { root: this.log, rootMargin: "600px 0px" });
    for (const [event, on] of [["pointerover", true], ["pointerout", false]]) {
      this.list.addEventListener(event, (e) => {
        const key = e.target.closest?.(".hnb-row")?.dataset.bar;
        if (key) this.light(key, on);
      });
    }
  }

  scrolled() {
    this.following = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 24;
    this.latest.hidden = this.following;
  }

  follow(always = false) {
    if (always) this.following = true;
    if (this.following) this.log.scrollTop = this.log.scrollHeight;
    this.latest.hidden = this.following;
  }

  take(items) {
    for (const row of items) {
      if (row.bar) this.byBar.set(row.bar, row.key);
      const known = this.rows.get(row.key);
      if (known) this.replace(known, row);
      else this.append(row);
    }
    this.follow();
  }

  append(row) {
    let block = this.blocks.at(-1);
    if (!block || block.keys.length >= BLOCK) {
      block = { keys: [], node: el("div", "hnb-block"), drawn: true };
      block.node.block = block;
      this.blocks.push(block);
      this.list.append(block.node);
      this.observer.observe(block.node);
    }
    const entry = { row, block, node: null };
    this.rows.set(row.key, entry);
    block.keys.push(row.key);
    if (block.drawn) block.node.append(this.drawn(entry));
    else block.node.style.height = `${parseFloat(block.node.style.height) + 24}px`;
  }

  replace(entry, row) {
    entry.row = row;
    const before = entry.node;
    if (before) before.replaceWith(this.drawn(entry));
  }

  drawn(entry) {
    entry.node = drawRow(entry.row, entry.node);
    entry.node.dataset.bar = entry.row.bar || "";
    return entry.node;
  }

  /** Draw a block that comes near; clear one that went away, unless the reader has selected something in it. */
  near({ target, isIntersecting, boundingClientRect }) {
    const { block } = target;
    if (isIntersecting && !block.drawn) {
      target.replaceChildren(...block.keys.map((key) => this.drawn(this.rows.get(key))));
      target.style.height = "";
      block.drawn = true;
      this.follow();
    } else if (!isIntersecting && block.drawn && block.keys.length >= BLOCK && boundingClientRect.height > 0) {
      if (window.getSelection()?.containsNode(target, true) || target.querySelector("details[open]")) return;
      target.style.height = `${boundingClientRect.height}px`;
      target.replaceChildren();
      for (const key of block.keys) this.rows.get(key).node = null;
      block.drawn = false;
    }
  }

  /** The reply that is being streamed: text is appended, so that a selection in it is kept. */
  drawDraft(draft) {
    const text = draft.text || "";
    const thinking = draft.thinking || "";
    if (!text && !thinking) {
      this.draft.replaceChildren();
      this.words = null;
      return;
    }
    if (!this.words || this.draftScope !== draft.scope) {
      this.draftScope = draft.scope;
      this.words = document.createTextNode("");
      this.thought = el("div", "hnb-thought");
      const body = el("div", "hnb-body", this.thought, this.words, el("span", "hnb-caret"));
      body.dir = "auto";
      this.draft.replaceChildren(el("div", "hnb-row hnb-row-assistant", el("span", "hnb-gutter", "assistant"), " ", body));
    }
    if (text.startsWith(this.words.data)) this.words.appendData(text.slice(this.words.data.length));
    else this.words.data = text;
    say(this.thought, text ? "" : `thinking: … ${thinking.slice(-300)}`);
    this.thought.hidden = Boolean(text);
    this.follow();
  }

  /** Scroll to the row of a bar, or to the first of these keys that is a row. */
  show(keys) {
    const key = keys.map((one) => this.byBar.get(one) || one).find((one) => this.rows.has(one));
    if (!key) return;
    const entry = this.rows.get(key);
    this.following = false;
    if (!entry.node) this.near({ target: entry.block.node, isIntersecting: true, boundingClientRect: {} });
    this.log.scrollTop += entry.node.getBoundingClientRect().top - this.log.getBoundingClientRect().top - 40;
    entry.node.classList.add("hnb-flash");
    setTimeout(() => entry.node?.classList.remove("hnb-flash"), 1200);
  }
}

// ------------------------------------------------------------------------------------------ controls

class Controls {
  constructor(send) {
    this.send = send; // (kind, fields) -> number of the message
    this.waiting = new Map(); // number -> {kind, text, timer}
    this.cannot = {};
    this.box = el("textarea", "hnb-box");
    this.box.rows = 1;
    this.box.maxLength = 16000;
    this.box.placeholder = "Steer the running turn…";
    this.box.dir = "auto";
    this.box.setAttribute("aria-label", "Steer the running turn; Enter sends, Shift+Enter makes a new line");
    this.hint = el("div", "hnb-hint");
    this.hint.setAttribute("role", "status");
    this.queue = el("div", "hnb-queue");
    const steer = this.button("steer", "Steer", "Sent to the model with the next tool results");
    const stops = el("span", "hnb-group", this.button("boundary", "Stop after this iteration", "Ends the turn when the iteration under way is done"), this.button("interrupt", "Interrupt", "Ends the turn now; everything so far is kept"));
    const goes = el("span", "hnb-group", this.button("pause", "Pause", "Waits before the next iteration"), this.button("step", "Step", "Runs one iteration, then waits again"), this.button("resume", "Resume", "Goes on"));
    this.node = el("div", "hnb-controls", this.queue, el("div", "hnb-line", this.box, steer), el("div", "hnb-line hnb-buttons", goes, this.hint, stops));
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("input", () => this.grow());
    // A control that is about to be used asks whether the kernel listens at all.
    this.node.addEventListener("pointerenter", () => this.ping());
    this.node.addEventListener("focusin", () => this.ping());
  }

  button(kind, text, title) {
    const node = el("button", `hnb-button hnb-${kind}`, text);
    node.type = "button";
    node.dataset.kind = kind;
    node.dataset.title = title;
    node.title = title;
    node.addEventListener("click", () => this.press(kind));
    return node;
  }

  key(event) {
    event.stopPropagation();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.press("steer");
  }

  grow() {
    this.box.style.height = "auto";
    this.box.style.height = `${Math.min(this.box.scrollHeight + 2, 96)}px`;
  }

  press(kind) {
    if (this.cannot[kind]) return this.tell(this.cannot[kind]);
    const text = this.box.value;
    if (kind !== "steer") return this.await(this.send(kind, {}), { kind });
    if (!text.trim()) return this.box.focus();
    this.await(this.send("steer", { text }), { kind, text });
    this.box.value = "";
    this.grow();
    this.drawQueue();
  }

  ping() {
    if (!this.dead && !this.done && !this.waiting.size) this.await(this.send("ping", {}), { kind: "ping" });
  }

  await(number, what) {
    const timer = setTimeout(() => this.held(), PATIENCE);
    this.waiting.set(number, { ...what, timer });
    this.tell("");
  }

  held() {
    if (!this.dead) this.tell(HELD, true);
  }

  answered({ id, error }) {
    const what = this.waiting.get(id);
    if (!what) return;
    clearTimeout(what.timer);
    this.waiting.delete(id);
    if (error) {
      this.tell(error, true);
      if (what.kind === "steer" && !this.box.value) this.box.value = what.text;
    } else if (this.busy && !this.waiting.size) this.tell("");
    this.drawQueue();
  }

  tell(text, busy = false) {
    this.busy = busy;
    say(this.hint, text || (this.head?.pausing ? "Pauses after this iteration." : ""));
    this.hint.classList.toggle("hnb-busy", busy);
  }

  draw(head) {
    this.head = head;
    this.done = head.done;
    this.cannot = this.dead ? Object.fromEntries(["steer", "interrupt", "boundary", "pause", "step", "resume"].map((kind) => [kind, this.dead])) : head.cannot;
    for (const node of this.node.querySelectorAll(".hnb-button")) {
      const why = this.cannot[node.dataset.kind] || "";
      if (why) node.setAttribute("aria-disabled", "true");
      else node.removeAttribute("aria-disabled");
      node.title = why || node.dataset.title;
      if (why) node.setAttribute("aria-description", why);
      else node.removeAttribute("aria-description");
    }
    const closed = this.cannot.steer || "";
    this.box.readOnly = Boolean(closed);
    this.box.placeholder = closed || "Steer the running turn…";
    if (!this.busy) this.tell("");
    this.drawQueue();
  }

  /** Steers on their way: those that the kernel has not confirmed, and those that the model has not read. */
  drawQueue() {
    const sent = [...this.waiting.values()].filter((one) => one.kind === "steer").map((one) => ({ text: one.text, state: "sending" }));
    const queued = (this.head?.steers || []).map((one) => ({ text: one.text, state: "waiting to be delivered" }));
    const all = [...queued, ...sent];
    const mark = JSON.stringify(all);
    if (this.queue.dataset.mark === mark) return;
    this.queue.dataset.mark = mark;
    this.queue.replaceChildren(
      ...all.slice(-3).map(({ text, state }) => {
        const words = el("span", "hnb-chip-text", text);
        words.dir = "auto";
        return el("div", "hnb-chip", words, el("span", "hnb-chip-state", state));
      }),
    );
    if (all.length > 3) this.queue.prepend(el("div", "hnb-chip-state", `and ${all.length - 3} before`));
  }
}

// ------------------------------------------------------------------------------------------ the panel

/** @param {{model: Model, el: HTMLElement}} context */
function render({ model, el: host }) {
  let number = 0;
  let skew = Infinity;
  let asked = 0;
  let dead = "";
  const send = (kind, fields) => {
    number += 1;
    model.send({ kind, id: number, ...fields });
    return number;
  };
  const now = () => Date.now() - (Number.isFinite(skew) ? skew : 0);
  const state = () => model.get("head");

  const top = new Head();
  const gauges = new Gauges();
  const transcript = new Transcript((key, on) => timeline.light(key, on));
  const timeline = new Timeline((keys) => transcript.show(keys));
  const controls = new Controls(send);
  const spoken = el("div", "hnb-spoken");
  spoken.setAttribute("role", "status");
  const root = el("section", "hnb", top.node, gauges.node, timeline.node, transcript.node, controls.node, spoken);
  host.append(el("div", "hnb-frame", root));

  const rows = new Log((items) => transcript.take(items));
  const bars = new Log((items) => timeline.take(items));

  const fetch = () => {
    if (dead || Date.now() - asked < 300) return;
    asked = Date.now();
    send("fetch", { rows: rows.have, bars: bars.have });
  };
  const complete = () => {
    const head = state();
    const whole = rows.take(model.get("rows")) && bars.take(model.get("bars"));
    if (!whole || rows.have < (head.rows || 0) || bars.have < (head.bars || 0)) fetch();
  };
  const measure = (at) => {
    if (at) skew = Math.min(skew, Date.now() - at);
  };
  const tick = () => {
    const head = state();
    if (!head.status || dead) return;
    top.tick(head, now());
    gauges.tick(head, now());
    timeline.draw(head, now());
  };
  const draw = () => {
    const head = state();
    if (!head.status || dead) return;
    measure(head.at);
    root.setAttribute("aria-label", `Turn of ${head.agent || "an agent"}`);
    root.dataset.tone = head.status.tone;
    top.draw(head);
    gauges.draw(head);
    controls.draw(head);
    say(spoken, head.done ? head.phase.text : head.status.word);
    complete();
    tick();
  };
  const told = (message) => {
    measure(message.at);
    if (message.kind === "answer") controls.answered(message);
    if (message.kind !== "pages") return;
    asked = 0;
    rows.take(message.rows);
    bars.take(message.bars);
    complete();
    tick();
  };
  /** A restarted kernel does not know this turn any more: say so, and let nothing look alive. */
  const connection = () => {
    const status = model.widget_manager?.kernel?.status || "";
    if (dead || state().done || !/restarting|dead|terminating/.test(status)) return;
    dead = "The kernel that ran this turn is gone.";
    controls.dead = dead;
    root.classList.add("hnb-dead");
    top.pill.dataset.tone = "failed";
    say(top.word, "Kernel gone");
    say(top.phase, "the turn ended with its kernel; what it had done is in the logbook");
    say(spoken, dead);
    controls.draw(state());
    controls.tell(dead, true);
  };

  const listen = { "change:head": draw, "change:draft": () => transcript.drawDraft(model.get("draft")), "change:rows": complete, "change:bars": complete, "msg:custom": told, comm_live_update: connection };
  for (const [event, listener] of Object.entries(listen)) model.on(event, listener);
  const size = new ResizeObserver(() => {
    const height = Math.round(root.getBoundingClientRect().height);
    if (height > 0 && height < 4000 && !dead) send("size", { height });
    tick();
  });
  size.observe(root);
  const timer = setInterval(() => {
    connection();
    if (!state().done) tick();
    complete();
  }, 250);

  draw();
  transcript.drawDraft(model.get("draft"));
  fetch();
  return () => {
    clearInterval(timer);
    size.disconnect();
    transcript.observer.disconnect();
    for (const [event, listener] of Object.entries(listen)) model.off(event, listener);
    if (state().done && !dead) send("gone", {});
  };
}

export default { render };
