// Elements that show the name, the text and the picture of a point.

import { el } from "./panel.js";

export const about = await (await fetch("about.json")).json();
export const nameOf = (i) => about.names[i];
const texts = new Map();

export function pointPicture(i, size, isLarge = false) {
  if (!about.has_pictures) return null;
  return el("img", { src: `pictures/${i}${isLarge ? "?large" : ""}`, alt: `picture of ${nameOf(i)}`, width: size, height: size });
}

// fills an element with the text of a point, at most `most` characters, as soon as it is loaded
export function pointText(i, node, most = Infinity) {
  if (!about.has_texts) return null;
  const put = (text) => { node.textContent = text.length > most ? `${text.slice(0, most)} …` : text; };
  if (texts.has(i)) put(texts.get(i));
  else fetch(`points/${i}`).then((response) => response.json()).then(({ text }) => { texts.set(i, text); put(text); });
  return node;
}

export function card(i) {
  const text = pointText(i, el("p", { tabindex: 0, "aria-label": `text of ${nameOf(i)}` }));
  return el("div", { class: "card", "data-point": i }, pointPicture(i, 240, true), el("strong", {}, nameOf(i)), text);
}
