// The question: a point, and the classes that it may belong to. A class keeps its key, its place and its picture.

import { card, pointPicture, pointText } from "./points.js";
import { el, fill } from "./panel.js";

const $ = (id) => document.getElementById(id);
const CLASS_KEYS = "123456789abehijkoptwyz"; // keys that do nothing else; later classes have buttons only

export const keyOf = (key) => CLASS_KEYS[key - 1] ?? "";
export const classOf = (key) => CLASS_KEYS.indexOf(key) + 1; // 0: none
export const titleOf = ({ key, name }) => name || `group ${key}`;
const isPair = ({ classes }) => classes.length === 1 && classes[0].members.length > 0 && !classes[0].name;

// the points of a question on the map, with the text beside each: the one asked about, then one of each class
export const pointsOf = (question) => [
  { point: question.point, text: "?" },
  ...question.classes.filter(({ members }) => members.length).map(({ key, members }) => ({ point: members[0], text: keyOf(key) })),
];

const keyCap = (text) => (text ? el("kbd", {}, text) : null);

function classButton(one, isGuess, choose) {
  const { key, picture, size, members } = one;
  const others = members.filter((i) => i !== picture).slice(0, 2);
  return el("li", picture === null ? {} : { "data-point": picture },
    el("button", { type: "button", class: isGuess ? "group guess" : "group", key: `group-${key}`, onclick: () => choose(key) },
      picture === null ? null : el("span", { class: "members" }, pointPicture(picture, 64, true), ...others.map((i) => pointPicture(i, 20))),
      el("span", {}, keyCap(keyOf(key)), ` ${titleOf(one)}`),
      el("small", {}, isGuess ? `${size}, nearest` : `${size || "none"} given`)),
    picture === null ? null : pointText(picture, el("p", {}), 200));
}

export function showQuestion(question, choose) {
  for (const id of ["ask-new", "ask-name", "ask-skip"]) $(id).disabled = !question;
  const pair = question !== null && isPair(question);
  $("question-box").classList.toggle("pair", pair);
  $("ask-new").hidden = pair;
  if (!question) {
    $("question-title").textContent = "Nothing is left to ask";
    fill($("question"), el("p", { class: "soft" }, "Every point has its group, or was skipped."));
    fill($("groups"));
    return;
  }
  const { point, classes, guess } = question;
  if (pair) {
    const { key, picture } = classes[0];
    const button = (name, text, cap, chosen) => el("li", {},
      el("button", { type: "button", class: "group", key: name, onclick: () => choose(chosen) }, el("span", {}, `${text} `, keyCap(cap))));
    $("question-title").textContent = "Are these the same?";
    fill($("question"), card(point), card(picture));
    fill($("groups"), button(`group-${key}`, "Same", "S", key), button("different", "Different", "D", 0));
    return;
  }
  $("question-title").textContent = "Which group does it belong to?";
  fill($("question"), card(point));
  fill($("groups"), ...classes.map((one, place) => classButton(one, place === guess, choose)));
}
