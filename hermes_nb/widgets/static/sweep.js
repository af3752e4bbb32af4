// The panel of a sweep: how far it is, how its turns ended, what they cost; and the button that stops them all.
import { el, say, seconds } from "./dom.js";
import { Freeze, orphaned } from "./freeze.js";
import { Gauges } from "./head.js";

class Sweep {
  constructor(model, host) {
    this.model = model;
    this.word = el("span", "hnb-word");
    this.pill = el("span", "hnb-pill", el("span", "hnb-dot"), this.word);
    this.phase = el("span", "hnb-phase");
    this.gauges = new Gauges();
    this.bar = el("div", "hnb-ends-bar");
    this.bar.setAttribute("role", "progressbar");
    this.bar.setAttribute("aria-label", "Cases");
    this.legend = el("div", "hnb-legend");
    this.stop = el("button", "hnb-button hnb-interrupt", "Stop all");
    this.stop.type = "button";
    this.stop.addEventListener("click", () => this.press());
    this.hint = el("div", "hnb-hint");
    this.hint.setAttribute("role", "status");
    const head = el("header", "hnb-head", this.pill, this.phase);
    const ends = el("div", "hnb-ends", this.bar, this.legend);
    const foot = el("div", "hnb-controls hnb-line hnb-buttons", this.hint, this.stop);
    const root = el("section", "hnb hnb-sweep", head, this.gauges.node, ends, foot);
    root.setAttribute("aria-label", "Sweep");
    host.append(el("div", "hnb-frame", root));
    this.root = root;
    this.dead = "";
    this.listener = () => this.draw();
    this.checker = () => this.check();
    model.on("change:head", this.listener);
    model.on("comm_live_update", this.checker);
    this.timer = setInterval(this.checker, 250);
    this.freeze = new Freeze(model);
    model.send({ kind: "ping" });
    this.draw();
  }

  press() {
    if (this.stop.getAttribute("aria-disabled")) return;
    this.model.send({ kind: "interrupt" });
    say(this.hint, "Asked to stop …");
  }

  /** A restarted kernel does not know this sweep any more: say so, and let nothing look alive. */
  check() {
    if (this.dead || this.model.get("head").done || !orphaned(this.model)) return;
    this.dead = "The kernel that ran this sweep is gone.";
    this.root.classList.add("hnb-dead");
    this.pill.dataset.tone = "failed";
    say(this.word, "Kernel gone");
    say(this.phase, "the sweep ended with its kernel; the cases that were done are in its logbook");
    this.close(this.dead);
  }

  draw() {
    const head = this.model.get("head");
    if (!head.status || this.dead) return;
    if (head.done) this.freeze.over();
    this.pill.dataset.tone = head.status.tone;
    say(this.word, head.status.word);
    say(this.phase, head.phase);
    this.gauges.draw({ gauges: head.gauges });
    this.drawEnds(head);
    if (head.cannot) this.close(head.cannot);
    else this.stop.title = "Interrupts all turns that run and begins no more; what is done is kept";
  }

  /** The button can do nothing any more. */
  close(why) {
    this.stop.setAttribute("aria-disabled", "true");
    this.stop.title = why;
    say(this.hint, why);
  }

  drawEnds(head) {
    while (this.bar.children.length > head.ends.length) this.bar.lastChild.remove();
    while (this.bar.children.length < head.ends.length) this.bar.append(el("div"));
    head.ends.forEach((end, index) => {
      const piece = this.bar.children[index];
      piece.className = `hnb-end hnb-${end.tone}`;
      piece.style.width = `${(end.fraction * 100).toFixed(2)}%`;
      piece.title = `${end.name}: ${end.count}`;
    });
    const told = head.ends.map((end) => `${end.name} ${end.count}`).join(", ");
    this.bar.setAttribute("aria-valuemin", "0");
    this.bar.setAttribute("aria-valuemax", String(head.total));
    this.bar.setAttribute("aria-valuenow", String(head.landed));
    this.bar.setAttribute("aria-valuetext", told);
    if (this.legend.dataset.told === told) return;
    this.legend.dataset.told = told;
    this.legend.replaceChildren(
      ...head.ends.map((end) => el("span", `hnb-mark hnb-${end.tone}`, el("b", "", String(end.count)), ` ${end.name}`)),
    );
  }

  leave() {
    clearInterval(this.timer);
    this.model.off("change:head", this.listener);
    this.model.off("comm_live_update", this.checker);
    this.freeze.leave();
    if (this.model.get("head").done && !this.dead) setTimeout(() => this.model.send({ kind: "gone" }), 1000);
  }
}

export default {
  render({ model, el: host }) {
    const sweep = new Sweep(model, host);
    return () => sweep.leave();
  },
};
