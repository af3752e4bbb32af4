// The panel of a sweep: how far it is, how its turns ended, what they cost; and the button that stops them all.
import { el, say, seconds } from "./dom.js";
import { Freeze } from "./freeze.js";
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
    this.listener = () => this.draw();
    model.on("change:head", this.listener);
    this.freeze = new Freeze(model);
    model.send({ kind: "ping" });
    this.draw();
  }

  press() {
    if (this.stop.getAttribute("aria-disabled")) return;
    this.model.send({ kind: "interrupt" });
    say(this.hint, "Asked to stop …");
  }

  draw() {
    const head = this.model.get("head");
    if (!head.status) return;
    if (head.done) this.freeze.over();
    this.pill.dataset.tone = head.status.tone;
    say(this.word, head.status.word);
    say(this.phase, head.phase);
    this.gauges.draw({ gauges: head.gauges });
    this.drawEnds(head);
    if (head.cannot) this.stop.setAttribute("aria-disabled", "true");
    this.stop.title = head.cannot || "Interrupts all turns that run and begins no more; what is done is kept";
    if (head.cannot) say(this.hint, head.cannot);
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
    this.model.off("change:head", this.listener);
    this.freeze.leave();
    if (this.model.get("head").done) setTimeout(() => this.model.send({ kind: "gone" }), 1000);
  }
}

export default {
  render({ model, el: host }) {
    const sweep = new Sweep(model, host);
    return () => sweep.leave();
  },
};
