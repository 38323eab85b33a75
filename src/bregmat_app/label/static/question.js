// The question: a point, and the groups that it may belong to, with one digit key each.

import { card, nameOf, pointPicture, pointText } from "./points.js";
import { el, fill } from "./panel.js";

const $ = (id) => document.getElementById(id);

// the points of a question on the map: the one asked about, then one of each group
export const pointsOf = (question) => (question ? [question.point, ...question.groups.map(({ members }) => members[0])] : []);

function groupCard({ members, size, name }, k, question, choose) {
  const isPair = question.groups.length === 1;
  const isGuess = k === question.guess && !isPair;
  return el("li", { "data-point": members[0] },
    el("button", { type: "button", class: isGuess ? "group guess" : "group", key: `group-${k}`, onclick: () => choose(k) },
      el("span", { class: "members" }, ...members.map((i, place) => pointPicture(i, 64, place === 0))),
      el("span", {}, el("kbd", {}, String(k + 1)), ` ${isPair ? "Same as " : ""}${name ?? nameOf(members[0])}`),
      el("small", {}, `${size === 1 ? "1 point" : `${size} points`}${isGuess ? ", nearest" : ""}`)),
    pointText(members[0], el("p", { tabindex: 0, "aria-label": `text of ${nameOf(members[0])}` })));
}

export function showQuestion(question, choose) {
  $("ask-new").disabled = $("ask-skip").disabled = !question;
  if (!question) {
    $("question-title").textContent = "Nothing is left to ask";
    fill($("question"), el("p", { class: "soft" }, "Every point has its group, or was skipped."));
    fill($("groups"));
    return;
  }
  const isPair = question.groups.length === 1;
  $("question-title").textContent = isPair ? "Are these the same?" : "Which group does it belong to?";
  fill($("ask-new"), isPair ? "Different " : "A new one ", el("kbd", {}, "0"));
  fill($("question"), card(question.point));
  fill($("groups"), ...question.groups.map((group, k) => groupCard(group, k, question, choose)));
}
