// The transcript: rows that come at its end, and the reply that is being streamed.
import { el, prose, quiet, say } from "./dom.js";

const LABELS = { prompt: "prompt", user: "user", assistant: "assistant", tool: "tool", steer: "steer" };
const BLOCK = 40; // rows that are drawn and cleared together

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
  else if (row.kind === "assistant") {
    const thinking = row.detail ? [folded("thinking", row.detail)] : [];
    body.append(...thinking, ...prose(row.text || ""));
  } else if (row.kind === "steer") body.append(row.text || "", " ", el("span", "hnb-receipt", row.detail || ""));
  else body.append(row.text || "", ...(row.detail ? [folded("more", row.detail)] : []));
  if (before?.querySelector("details[open]")) node.querySelectorAll("details").forEach((one) => (one.open = true));
  return node;
}

function toolBody(row) {
  const text = row.text || "";
  const call = el("span", "hnb-call", el("b", "", row.title || "tool"), " ", el("span", "hnb-arguments", row.detail || ""));
  const line = el("div", "hnb-call-line", call, " ", el("span", "hnb-state", row.state || ""));
  if (!text) return [line];
  const lines = text.split("\n");
  const result = el("div", "hnb-result", text);
  if (lines.length <= 3 && text.length <= 240) return [line, result];
  const first = lines[0].length > 160 ? `${lines[0].slice(0, 160)} …` : lines[0];
  const size = lines.length > 1 ? `(${lines.length} lines)` : `(${text.length} characters)`;
  const summary = el("summary", "", line, el("div", "hnb-result hnb-first", `${first} `, el("i", "", size)));
  return [el("details", "", summary, result)];
}

function folded(title, text) {
  return el("details", "hnb-folded", el("summary", "", title), el("div", "", text));
}

/** Bring a text that grows up to date: parts that are as they were stay, so that a selection in them does. */
function grow(node, parts) {
  parts.forEach((part, index) => {
    const old = node.childNodes[index];
    const fresh = typeof part === "string" ? document.createTextNode(part) : part;
    const same = old?.nodeName === fresh.nodeName;
    const text = fresh.textContent;
    if (!old) node.append(fresh);
    else if (!same) old.replaceWith(fresh);
    else if (fresh.nodeType === Node.TEXT_NODE && text.startsWith(old.data)) old.appendData(text.slice(old.data.length));
    else say(old, text);
  });
  while (node.childNodes.length > parts.length) node.lastChild.remove();
}

/** Give the focus to a row: a screen reader reads it then, and Tab goes on from there. */
function hold(node) {
  node.tabIndex = -1;
  quiet(node);
  node.focus({ preventScroll: true });
}

/** The rows, in blocks; only blocks near the visible part have their rows in the page. */
export class Transcript {
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
    this.top = 0; // where the reader was last
    this.log.addEventListener("scroll", () => this.scrolled());
    this.latest.addEventListener("click", () => this.follow(true));
    const margin = { root: this.log, rootMargin: "600px 0px" };
    this.observer = new IntersectionObserver((entries) => entries.forEach((one) => this.near(one)), margin);
    for (const [event, on] of [["pointerover", true], ["focusin", true], ["pointerout", false], ["focusout", false]]) {
      this.list.addEventListener(event, (e) => {
        const key = e.target.closest?.(".hnb-row")?.dataset.bar;
        if (key) this.light(key, on);
      });
    }
  }

  /** Who scrolls up reads; what else moves the end out of sight, a new row or a smaller panel, is followed. */
  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.log;
    if (scrollHeight - scrollTop - clientHeight < 24) this.following = true;
    else if (scrollTop < this.top) this.following = false;
    this.top = scrollTop;
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
    if (!before) return;
    const held = before === document.activeElement;
    before.replaceWith(this.drawn(entry));
    if (held) hold(entry.node);
  }

  drawn(entry) {
    entry.node = drawRow(entry.row, entry.node);
    entry.node.dataset.bar = entry.row.bar || "";
    return entry.node;
  }

  /** Draw a block that comes near; clear one that went away, unless the reader has selected or reached something in it. */
  near({ target, isIntersecting, boundingClientRect }) {
    const { block } = target;
    if (isIntersecting && !block.drawn) {
      target.replaceChildren(...block.keys.map((key) => this.drawn(this.rows.get(key))));
      target.style.height = "";
      block.drawn = true;
      this.follow();
    } else if (!isIntersecting && block.drawn && block.keys.length >= BLOCK && boundingClientRect.height > 0) {
      if (window.getSelection()?.containsNode(target, true) || target.querySelector("details[open], :focus")) return;
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
      this.words = el("span");
      this.thought = el("div", "hnb-thought");
      const body = el("div", "hnb-body", this.thought, this.words, el("span", "hnb-caret"));
      body.dir = "auto";
      this.draft.replaceChildren(el("div", "hnb-row hnb-row-assistant", el("span", "hnb-gutter", "assistant"), " ", body));
    }
    grow(this.words, prose(text));
    say(this.thought, text ? "" : `thinking: … ${thinking.slice(-300)}`);
    this.thought.hidden = Boolean(text);
    this.follow();
  }

  /** Scroll to the row of a bar, or to the first of these keys that is a row; with the keys, the focus goes there too. */
  show(keys, focus = false) {
    const key = keys.map((one) => this.byBar.get(one) || one).find((one) => this.rows.has(one));
    if (!key) return;
    const entry = this.rows.get(key);
    this.following = false;
    if (!entry.node) this.near({ target: entry.block.node, isIntersecting: true, boundingClientRect: {} });
    this.log.scrollTop += entry.node.getBoundingClientRect().top - this.log.getBoundingClientRect().top - 40;
    entry.node.classList.add("hnb-flash");
    if (focus) hold(entry.node);
    setTimeout(() => entry.node?.classList.remove("hnb-flash"), 1200);
  }
}
