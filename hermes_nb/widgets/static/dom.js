// Elements and texts. Every text of a model, a tool or a user reaches the page as a text node, never as HTML.

const FOCUSABLE = new Set(["button", "summary", "textarea"]);

/** An element with a class and children; strings become text nodes. */
export function el(tag, name = "", ...children) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (FOCUSABLE.has(tag)) quiet(node);
  node.append(...children);
  return node;
}

/** The notebook's own keys (D D deletes a cell) stay out of an element that has the focus. */
export function quiet(node) {
  node.dataset.lmSuppressShortcuts = "true";
}

/** Set a text only when it differs, so that a selection in it is kept. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function seconds(value) {
  if (value < 59.95) return `${Math.max(0, value).toFixed(1)} s`;
  const whole = Math.round(value);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** A whole number of seconds that count down. */
export function duration(value) {
  return seconds(value).replace(".0 s", " s").replace(" 00 s", "").replace(" 00 min", "");
}

/** A model's words: code fences and code spans as code, everything else as it was written. */
export function prose(text) {
  const parts = [];
  let position = 0;
  for (const match of text.matchAll(/```[^\n`]*\n([\s\S]*?)(?:```|$)|`([^`\n]+)`/g)) {
    parts.push(text.slice(position, match.index));
    parts.push(match[2] === undefined ? el("div", "hnb-code", match[1]) : el("code", "", match[2]));
    position = match.index + match[0].length;
  }
  return [...parts, text.slice(position)];
}
