// The live panel of a run. A plain ES module: nothing is built, nothing is fetched.
//
// The kernel sends four traits: `head` (status, gauges, controls), `draft` (the reply that is being streamed), and the
// newest pages of `rows` and `bars`, two logs of versions in which a later item with the same key replaces the earlier.
import { Controls } from "./controls.js";
import { el, say } from "./dom.js";
import { Freeze, orphaned } from "./freeze.js";
import { Gauges, Head } from "./head.js";
import { Timeline } from "./timeline.js";
import { Transcript } from "./transcript.js";

/** @typedef {{get: (name: string) => any, on: Function, off: Function, send: (content: object) => void}} Model */

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

class Panel {
  constructor(model, host) {
    this.model = model;
    this.number = 0; // of the last message
    this.skew = Infinity; // ms that this clock is ahead of the kernel's
    this.asked = 0;
    this.height = 0; // as the kernel knows it
    this.dead = "";
    this.top = new Head();
    this.gauges = new Gauges();
    this.timeline = new Timeline((keys, focus) => this.transcript.show(keys, focus));
    this.transcript = new Transcript((key, on) => this.timeline.light(key, on));
    this.controls = new Controls((kind, fields) => this.send(kind, fields));
    this.spoken = el("div", "hnb-spoken");
    this.spoken.setAttribute("role", "status");
    const parts = [this.top, this.gauges, this.timeline, this.transcript, this.controls].map((part) => part.node);
    this.root = el("section", "hnb", ...parts, this.spoken);
    host.append(el("div", "hnb-frame", this.root));
    this.rows = new Log((items) => this.transcript.take(items));
    this.bars = new Log((items) => this.timeline.take(items));
    this.freeze = new Freeze(model);
    this.listen();
    this.draw();
    this.drawDraft();
    this.request();
  }

  get head() {
    return this.model.get("head");
  }

  get now() {
    return Date.now() - (Number.isFinite(this.skew) ? this.skew : 0);
  }

  listen() {
    this.listeners = {
      "change:head": () => this.draw(),
      "change:draft": () => this.drawDraft(),
      "change:rows": () => this.complete(),
      "change:bars": () => this.complete(),
      "msg:custom": (message) => this.told(message),
      comm_live_update: () => this.check(),
    };
    for (const [event, listener] of Object.entries(this.listeners)) this.model.on(event, listener);
    this.size = new ResizeObserver(() => this.measure());
    this.size.observe(this.root);
    this.size.observe(this.transcript.log);
    this.timer = setInterval(() => this.beat(), 250);
  }

  leave() {
    clearInterval(this.timer);
    this.freeze.leave();
    this.size.disconnect();
    this.transcript.observer.disconnect();
    for (const [event, listener] of Object.entries(this.listeners)) this.model.off(event, listener);
    // The record is in this place now. A moment later, for a cell may just be ending in the kernel.
    if (this.head.done && !this.dead) setTimeout(() => this.send("gone", {}), 1000);
  }

  // ---------------------------------------------------------------------------------------- with the kernel

  send(kind, fields) {
    this.number += 1;
    this.model.send({ kind, id: this.number, ...fields });
    return this.number;
  }

  told(message) {
    this.set(message.at);
    if (message.kind === "answer") this.controls.answered(message);
    if (message.kind !== "pages") return;
    this.asked = 0;
    this.rows.take(message.rows);
    this.bars.take(message.bars);
    this.complete();
    this.tick();
  }

  /** Ask for what is missing of the logs. */
  request() {
    if (this.dead || Date.now() - this.asked < 300) return;
    this.asked = Date.now();
    this.send("fetch", { rows: this.rows.have, bars: this.bars.have });
  }

  complete() {
    const { rows = 0, bars = 0 } = this.head;
    const whole = [this.rows.take(this.model.get("rows")), this.bars.take(this.model.get("bars"))].every(Boolean);
    if (!whole || this.rows.have < rows || this.bars.have < bars) this.request();
  }

  /** Set the clock by the message that was the least time on its way. */
  set(at) {
    if (at) this.skew = Math.min(this.skew, Date.now() - at);
  }

  measure() {
    const height = Math.round(this.root.getBoundingClientRect().height);
    if (height > 0 && height < 4000 && height !== this.height && !this.dead) {
      this.height = height;
      this.send("size", { height });
    }
    this.transcript.follow();
    this.tick();
  }

  /** A restarted kernel does not know this turn any more: say so, and let nothing look alive. */
  check() {
    if (this.dead || this.head.done || !orphaned(this.model)) return;
    this.dead = this.controls.dead = "The kernel that ran this turn is gone.";
    this.root.classList.add("hnb-dead");
    this.top.gone();
    say(this.spoken, this.dead);
    this.controls.draw(this.head);
    this.controls.tell(this.dead, true);
  }

  // ---------------------------------------------------------------------------------------- on the page

  beat() {
    this.check();
    if (!this.head.done) this.tick();
    this.complete();
  }

  draw() {
    const { head } = this;
    if (!head.status || this.dead) return;
    if (head.done) this.freeze.over();
    this.set(head.at);
    this.root.setAttribute("aria-label", `Turn of ${head.agent || "an agent"}`);
    this.top.draw(head);
    this.gauges.draw(head);
    this.controls.draw(head);
    say(this.spoken, head.done ? head.phase.text : head.status.word);
    this.complete();
    this.tick();
  }

  drawDraft() {
    this.transcript.drawDraft(this.model.get("draft"));
  }

  /** What changes with time alone. */
  tick() {
    if (!this.head.status || this.dead) return;
    this.top.tick(this.head, this.now);
    this.gauges.tick(this.head, this.now);
    this.timeline.draw(this.head, this.now);
  }
}

/** @param {{model: Model, el: HTMLElement}} context */
function render({ model, el: host }) {
  const panel = new Panel(model, host);
  return () => panel.leave();
}

export default { render };
