"""The contrast of texts on a page, as WCAG 2.2 reckons it; level AA asks for 4.5:1."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator

CONTRAST = """root => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = text => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
  const ground = node => { const layers = [];
    for (let n = node; n; n = n.parentElement) layers.push(rgba(getComputedStyle(n).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]); };
  const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = c.map(linear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const opacity = node => { let product = 1;
    for (let n = node; n && n !== root; n = n.parentElement) product *= +getComputedStyle(n).opacity;
    return product; };
  const bad = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const aside = '[aria-disabled], .hnb-spoken, span[style^="color"]';  // disabled, not seen, or a mere dot
    if (!walker.currentNode.data.trim() || !node.checkVisibility() || node.closest(aside)) continue;
    const below = ground(node), colour = rgba(getComputedStyle(node).color);
    colour[3] *= opacity(node);
    const [a, b] = [light(over(colour, below)), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.push([walker.currentNode.data.slice(0, 30), node.className, +ratio.toFixed(2)]);
  }
  return bad; }"""


def texts_too_faint(locator: Locator) -> list[list[object]]:
    """Every text in an element whose contrast is below 4.5:1: its beginning, the class around it, the contrast."""
    faint: list[list[object]] = locator.evaluate(CONTRAST)
    return faint
