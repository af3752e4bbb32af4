// The controls: the box for steers, the buttons, and what they say when they can do nothing.
import { el, say } from "./dom.js";

const PATIENCE = 700; // ms without an answer after which a click counts as held up
const HELD =
  "A running cell keeps this kernel busy: clicks here wait until it ends. " +
  "If it waits for this turn, the notebook's Stop button ends the turn.";
const KINDS = ["steer", "interrupt", "boundary", "pause", "step", "resume"];

export class Controls {
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
    const goes = el(
      "span",
      "hnb-group",
      this.button("pause", "Pause", "Waits before the next iteration"),
      this.button("step", "Step", "Runs one iteration, then waits again"),
      this.button("resume", "Resume", "Goes on"),
    );
    const stops = el(
      "span",
      "hnb-group",
      this.button("boundary", "Stop after this iteration", "Ends the turn when the iteration under way is done"),
      this.button("interrupt", "Interrupt", "Ends the turn now; everything so far is kept"),
    );
    const steering = el("div", "hnb-line", this.box, steer);
    this.node = el("div", "hnb-controls", this.queue, steering, el("div", "hnb-line hnb-buttons", goes, this.hint, stops));
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
    this.cannot = this.dead ? Object.fromEntries(KINDS.map((kind) => [kind, this.dead])) : head.cannot;
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
    const steers = [...this.waiting.values()].filter((one) => one.kind === "steer");
    const sent = steers.map((one) => ({ text: one.text, state: "sending" }));
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
