// The head of the panel: status, phase, who answers; and the gauges.
import { duration, el, say, seconds } from "./dom.js";

export class Head {
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

  /** The kernel that told all this is not there any more. */
  gone() {
    this.pill.dataset.tone = "failed";
    say(this.word, "Kernel gone");
    say(this.phase, "the turn ended with its kernel; what it had done is in the logbook");
  }

  /** The phase counts down by itself. */
  tick(head, now) {
    const left = duration(Math.ceil(Math.max(0, head.phase.until - now) / 1000));
    say(this.phase, head.phase.until ? head.phase.text.replace("{left}", left) : head.phase.text);
    this.phase.title = this.phase.textContent;
  }
}

class Gauge {
  constructor(id) {
    this.value = el("span", "hnb-value");
    this.of = el("span", "hnb-of");
    this.label = el("span", "hnb-label");
    this.share = el("span", "hnb-share");
    this.bar = el("div", "hnb-bar");
    this.notes = el("div", "hnb-notes");
    const top = el("div", "hnb-gauge-top", this.label, " ", this.share);
    const number = el("div", "hnb-number", this.value, " ", this.of);
    this.node = el("div", `hnb-gauge hnb-gauge-${id}`, top, number, this.bar, this.notes);
  }

  draw(gauge) {
    say(this.label, gauge.label);
    say(this.value, gauge.value);
    say(this.of, gauge.of);
    say(this.notes, gauge.notes.join(" · "));
    const measured = gauge.fraction !== null;
    say(this.share, measured ? `${Math.round(gauge.fraction * 100)} %` : "");
    this.bar.classList.toggle("hnb-unmeasured", !measured);
    if (!measured) return this.bar.removeAttribute("role");
    this.bar.setAttribute("role", "progressbar");
    this.node.classList.toggle("hnb-tight", gauge.tight !== null && gauge.fraction >= gauge.tight);
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

export class Gauges {
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
      if (gauge.id !== "time" || !head.clock) this.byId.get(gauge.id).draw(gauge);
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
