// The timeline: bars in lanes, growing while the turn runs.
import { el, quiet, seconds } from "./dom.js";

const LANES = { model: "model", tools: "tools", waits: "waits", compression: "compress", agents: "agents" };
const SPANS = [5, 8, 12, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 600]; // seconds that the timeline shows
const TICKS = [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600];

export class Timeline {
  constructor(open) {
    this.open = open; // shows the row of a bar
    this.bars = new Map();
    this.lanes = new Map();
    this.drawn = new Map(); // the element in which a bar is drawn
    this.pieces = new Map(); // lane -> what is drawn in it
    this.lit = ""; // the bar that is pointed at, with the mouse or with the keys
    this.chosen = ""; // the bar that the keys have reached
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
    this.node.addEventListener("keydown", (event) => this.key(event));
    this.node.addEventListener("focusin", (event) => this.reach(event.target));
    this.node.addEventListener("focusout", () => this.light(this.lit, false));
  }

  lane(id) {
    const track = el("div", "hnb-track");
    track.setAttribute("role", "slider"); // what the arrow keys go through: told is the bar that they have reached
    track.setAttribute("aria-roledescription", "lane");
    track.tabIndex = this.lanes.size ? -1 : 0;
    quiet(track);
    this.lanes.set(id, track);
    const row = el("div", "hnb-lane", el("span", "hnb-lane-name", LANES[id]), track);
    row.dataset.lane = id;
    const names = Object.keys(LANES);
    const after = [...this.node.querySelectorAll(".hnb-lane")].find((one) => names.indexOf(one.dataset.lane) > names.indexOf(id));
    this.node.insertBefore(row, after || this.axis);
    track.setAttribute("aria-label", LANES[id]);
    this.tell(id);
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
    this.pieces.set(id, pieces);
    while (track.children.length > pieces.length) track.lastChild.remove();
    while (track.children.length < pieces.length) track.append(el("div"));
    pieces.forEach((piece, index) => this.drawPiece(track.children[index], id, piece, width, now));
    track.setAttribute("aria-label", `${LANES[id]}: ${bars.length}, ${seconds(total)} in all`);
    if (track !== document.activeElement) this.tell(id); // a value that grows would be read out again and again
  }

  drawPiece(node, id, piece, width, now) {
    const { bar, count } = piece;
    const thin = piece.right - piece.left < 5 ? " hnb-thin" : "";
    const lit = piece.keys.includes(this.lit) ? " hnb-lit" : "";
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
    const step = TICKS.find((one) => (one / span) * width > 76) || 21600;
    const name = (value) => (value >= 120 ? `${+(value / 60).toFixed(1)} min` : `${value} s`);
    const marks = Array.from({ length: Math.floor(span / step) + 1 }, (_, index) => index * step);
    if (this.axis.dataset.marks === `${step} ${span}`) return;
    this.axis.dataset.marks = `${step} ${span}`;
    this.axis.replaceChildren(
      ...marks.map((value) => {
        const mark = el("span", "hnb-tick", el("span", "", name(value)));
        mark.style.left = `${(value / span) * 100}%`;
        return mark;
      }),
    );
  }

  light(key, on) {
    this.drawn.get(this.lit)?.classList.remove("hnb-lit");
    this.lit = on ? key : "";
    if (on) this.drawn.get(key)?.classList.add("hnb-lit");
  }

  // ---------------------------------------------------------------------------------------- by the keyboard

  /** Left, Right, Home and End go from bar to bar, Up and Down from lane to lane; Enter leads to the row. */
  key(event) {
    const lanes = [...this.node.querySelectorAll(".hnb-track")];
    const lane = lanes.indexOf(event.target);
    if (lane < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const { id, at, last } = this.place(event.target);
    const bars = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last };
    const rows = { ArrowUp: lane - 1, ArrowDown: lane + 1 };
    if (event.key in bars) this.choose(id, Math.min(last, Math.max(0, bars[event.key])));
    else if (event.key in rows) lanes[rows[event.key]]?.focus();
    else if (event.key === "Enter" && event.target.children[at]) this.open(event.target.children[at].dataset.row.split(" "), true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Where in its lane the chosen bar is; the last one where none is chosen. */
  place(track) {
    const { lane: id } = track.parentNode.dataset;
    const pieces = this.pieces.get(id) || [];
    const last = pieces.length - 1;
    const found = pieces.findIndex((piece) => piece.keys.includes(this.chosen));
    return { id, at: found < 0 ? last : found, last };
  }

  choose(id, index) {
    const piece = this.pieces.get(id)?.[index];
    if (piece) {
      this.chosen = piece.bar.key;
      this.light(this.chosen, true);
    }
    this.tell(id);
  }

  /** A lane has got the focus: it alone is on the way of the Tab key now. */
  reach(track) {
    if (!track.classList.contains("hnb-track")) return;
    for (const one of this.lanes.values()) one.tabIndex = one === track ? 0 : -1;
    const { id, at } = this.place(track);
    this.choose(id, at);
  }

  tell(id) {
    const track = this.lanes.get(id);
    const { at, last } = this.place(track);
    const values = { valuemin: 1, valuemax: Math.max(1, last + 1), valuenow: Math.max(1, at + 1), valuetext: track.children[at]?.title || "nothing yet" };
    for (const [name, value] of Object.entries(values)) track.setAttribute(`aria-${name}`, String(value));
  }
}
