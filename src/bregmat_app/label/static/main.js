// The page: keys and buttons to what is said, and what is learned to map and panel.

import { PointMap } from "./map.js";
import { Line } from "./socket.js";
import { answerRow, el, featureRows, fill, statusRows, swatch } from "./panel.js";

const $ = (id) => document.getElementById(id);
const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#b8860b", "#cc3399", "#5b4bc4", "#2b8cbe", "#7a5230", "#c0392b", "#4d7d1f", "#8e44ad", "#167d7f"];
const DARK = ["#56b4e9", "#f5914a", "#35c99a", "#e5c04a", "#ef8ac4", "#a99cf5", "#8fd3f4", "#c89f77", "#f0776b", "#a2d163", "#cf95ea", "#57cfd1"];
const NOTHING = 65535; // code of a point without colour
const palette = (code, isDark) => (code === NOTHING ? (isDark ? "#737d88" : "#9aa3ad") : (isDark ? DARK : LIGHT)[code % LIGHT.length]);
const dark = matchMedia("(prefers-color-scheme: dark)");

const about = await (await fetch("about.json")).json();
const images = new Map();
function picture(i) {
  if (!images.has(i)) { const image = new Image(); image.src = `pictures/${i}`; images.set(i, image); }
  return images.get(i);
}
const map = new PointMap($("map"), about.has_pictures ? picture : null);
const line = new Line();
const texts = new Map();

let shown = null, details = null, asked = null, clusters = null, picks = [], positions = null, saidAt = null, answered = "";
let colourBy = about.classes ? "label" : "cluster";

$("title").textContent = about.title;
document.title = `${about.title} – bregmat label`;

// ---------------------------------------------------------------- a point in words and pictures
const nameOf = (i) => about.names[i];
function pointPicture(i, size) {
  return about.has_pictures ? el("img", { src: `pictures/${i}`, alt: `picture of ${nameOf(i)}`, width: size, height: size }) : null;
}
function pointText(i, node) {
  if (!about.has_texts) return;
  if (texts.has(i)) { node.textContent = texts.get(i); return; }
  fetch(`points/${i}`).then((response) => response.json()).then(({ text }) => { texts.set(i, text); node.textContent = text; });
}
function card(i) {
  const text = about.has_texts ? el("p") : null;
  if (text) pointText(i, text);
  return el("div", { class: "card" }, pointPicture(i, 96), el("span", {}, nameOf(i)), text);
}
function spoken(i) {
  const code = codes()[i], legend = legendNames();
  return legend && code !== NOTHING ? `${nameOf(i)}, ${legend[code]}` : nameOf(i);
}

// ---------------------------------------------------------------- colours
const classNames = about.classes ? [...new Set(about.classes)].filter((name) => name).sort((a, b) => a.localeCompare(b, "en", { numeric: true })) : [];
const classCodes = about.classes ? Uint16Array.from(about.classes, (name) => (name ? classNames.indexOf(name) : NOTHING)) : null;
const blank = new Uint16Array(about.n).fill(NOTHING);
function namedNames() { return [...new Set(shown ? shown.named.map(({ name }) => name) : [])].sort(); }
function codes() {
  if (colourBy === "label" && classCodes) return classCodes;
  if (colourBy === "cluster" && clusters) return clusters;
  if (colourBy === "named" && shown) {
    const found = blank.slice(), names = namedNames();
    for (const { point, name } of shown.named) found[point] = names.indexOf(name);
    return found;
  }
  return blank;
}
function legendNames() {
  if (colourBy === "label") return classNames;
  if (colourBy === "cluster") return details ? details.cluster_sizes.map((_, k) => `cluster ${k + 1}`) : [];
  return namedNames();
}
function showColours() {
  map.setColours(codes(), palette);
  fill($("legend"), ...legendNames().map((name, k) => el("li", {}, swatch(palette(k, dark.matches)), name)));
}
const ways = [["label", "label"], ["cluster", "cluster found"], ["named", "class named"], ["none", "nothing"]].filter(([way]) => way !== "label" || about.classes);
fill($("colour"), ...ways.map(([value, text]) => el("option", { value }, text)));
$("colour").value = colourBy;
$("colour").addEventListener("change", () => { colourBy = $("colour").value; showColours(); });

// ---------------------------------------------------------------- saying
function announce(text, isBad = false) { $("announce").textContent = text; $("announce").className = isBad ? "bad" : ""; }
function say(event, words) {
  saidAt = performance.now();
  answered = words;
  if (!line.send({ type: "say", event })) announce("Not connected: nothing was said.", true);
}
const WORDS = { same: "Same", different: "Different", closer: "Comparison", group: "Group", undo: "Undone", redo: "Redone", soften: "Softened", drop: "Dropped" };
const act = (event) => say(event, WORDS[event.kind]);
function pairOr(kind) {
  if (picks.length === 2) { const points = picks; setPicks([]); say({ kind, points }, WORDS[kind]); }
  else if (picks.length === 0 && asked) askedIs(kind);
  else announce("Pick two points for that, or none to answer the question.", true);
}
function askedIs(kind) {
  const points = asked.points;
  setAsked(null);
  say({ kind, points }, WORDS[kind]);
}
function skip() { if (asked) { line.send({ type: "skip", points: asked.points }); setAsked(null); announce("Skipped."); } }
function closer() {
  if (picks.length !== 3) { announce("Pick three points for a comparison.", true); return; }
  const points = picks; setPicks([]); say({ kind: "closer", points }, WORDS.closer);
}
function group() {
  if (picks.length < 2) { announce("Pick two points or more for a group.", true); return; }
  const points = picks; setPicks([]); say({ kind: "group", points }, `Group of ${points.length}`);
}
function askName() {
  if (!picks.length) { announce("Pick points to name.", true); return; }
  fill($("name-list"), ...namedNames().map((name) => el("option", { value: name })));
  $("name-input").value = "";
  $("name-dialog").showModal();
  $("name-input").focus();
}
function giveName() {
  const name = $("name-input").value.trim();
  if (!name) return;
  const points = picks; $("name-dialog").close(); setPicks([]); $("map").focus();
  say({ kind: "name", points, name }, `Named ${name}`);
}

// ---------------------------------------------------------------- picking
function setPicks(points) {
  picks = points;
  map.setPicks(picks);
  const n = picks.length;
  $("picked-count").textContent = n === 0 ? "nothing" : n === 1 ? "1 point" : `${n} points`;
  fill($("picked-list"), ...picks.slice(0, 8).map((i) => el("li", { class: "chip" }, pointPicture(i, 30), el("span", {}, nameOf(i)))),
    n > 8 ? el("li", { class: "chip" }, `and ${n - 8} more`) : null);
  $("same").disabled = $("different").disabled = n !== 2;
  $("closer").disabled = n !== 3;
  $("group").disabled = n < 2;
  $("name").disabled = $("clear").disabled = n === 0;
}
function togglePick(i) {
  setPicks(picks.includes(i) ? picks.filter((j) => j !== i) : [...picks, i]);
  announce(`${spoken(i)} ${picks.includes(i) ? "picked" : "no longer picked"}; ${picks.length} picked.`);
  line.send({ type: "neighbours", point: i });
}
map.addEventListener("pick", ({ detail }) => { map.cursor = detail; togglePick(detail); });
map.addEventListener("lasso", ({ detail }) => { setPicks(detail); announce(`${detail.length} points picked.`); });
map.addEventListener("cursor", ({ detail }) => { if (detail >= 0) { announce(spoken(detail)); tip(detail); } });
map.addEventListener("hover", ({ detail }) => tip(detail));
function tip(i) {
  const box = $("tip");
  box.hidden = i < 0;
  if (i < 0) return;
  const text = about.has_texts ? el("div") : null;
  if (text) pointText(i, text);
  fill(box, pointPicture(i, 80), el("strong", {}, spoken(i)), text);
  const [x, y] = map.place(i), { width, height } = map.size();
  box.style.left = `${Math.min(x + 14, Math.max(0, width - box.offsetWidth - 4))}px`;
  box.style.top = `${y + 14 + box.offsetHeight > height ? Math.max(0, y - 14 - box.offsetHeight) : y + 14}px`;
}

// ---------------------------------------------------------------- what comes in
line.addEventListener("positions", ({ detail }) => { positions = detail; });
line.addEventListener("shown", ({ detail }) => {
  const isNew = !shown || detail.version !== shown.version;
  shown = detail;
  map.setPositions(positions.positions, () => {
    document.body.dataset.version = String(detail.version);
    if (saidAt !== null) performance.measure("answer to map", { start: saidAt, end: performance.now() });
    saidAt = null;
  });
  if (isNew) setAsked(null);
  map.setMarked([]);
  $("undo").disabled = !shown.can_undo;
  $("redo").disabled = !shown.can_redo;
  const met = shown.answers.filter((answer) => answer.is_met).length;
  if (answered) announce(`${answered}. ${met} of ${shown.answers.length} answers met.`);
  answered = "";
  fill($("status"), ...statusRows(shown));
  fill($("features"), ...featureRows(shown.features));
  showAnswers();
  if (colourBy === "named") showColours();
});
const WHY = {
  begun: "One of them is apart from other groups; where it belongs is open.",
  place: "One of them has no group yet: with the answer, its relation to all of a group follows.",
  change: "Of the pairs looked at, the answer is expected to change most.",
};
function setAsked(question) {
  asked = question;
  map.setAsked(asked ? asked.points : []);
  for (const id of ["ask-same", "ask-different", "ask-skip"]) $(id).disabled = !asked;
  if (!asked) { $("question-why").textContent = ""; return; }
  fill($("question"), ...asked.points.map(card));
  $("question-why").textContent = `Guessed from their distance: the same with ${Math.round(100 * asked.chance)} %. ${WHY[asked.why]}`;
}
line.addEventListener("question", ({ detail }) => { if (shown && detail.version === shown.version) showQuestion(detail); });
function showQuestion({ question, version }) {
  setAsked(question);
  document.body.dataset.asked = String(version);
  if (!question) fill($("question"), el("p", { class: "soft" }, "No question is left: the answers decide every pair looked at."));
}
line.addEventListener("clusters", ({ detail }) => { clusters = Uint16Array.from(detail.codes); });
line.addEventListener("details", ({ detail }) => {
  if (!shown || detail.version !== shown.version) return;
  details = detail;
  if (!asked && detail.question && document.body.dataset.asked !== String(detail.version)) showQuestion(detail);
  fill($("clusters"), ...detail.cluster_sizes.map((size, k) => el("li", {}, swatch(palette(k, dark.matches)), `cluster ${k + 1}: ${size} points`)));
  showAnswers();
  showColours();
  document.body.dataset.details = String(detail.version);
});
line.addEventListener("neighbours", ({ detail }) => {
  const list = (title, points, known) => el("div", {}, el("h3", {}, title),
    el("ol", {}, ...points.map((i) => el("li", { class: known.includes(i) ? "" : "new" }, pointPicture(i, 29), nameOf(i)))));
  fill($("neighbours"), el("p", {}, `Of ${nameOf(detail.point)}`),
    el("div", { class: "near" }, list("before", detail.before, detail.before), list("now", detail.now, detail.before)),
    el("p", { class: "soft" }, "New ones are bold."));
});
line.addEventListener("error", ({ detail }) => { answered = ""; saidAt = null; announce(detail.text, true); if (details) setAsked(details.question); });
line.addEventListener("gone", () => { $("gone").hidden = false; $("gone").textContent = "Not connected to bregmat label. Is it still running? Your answers are in its journal."; });
line.addEventListener("open", () => { $("gone").hidden = true; });

function show(answer) { map.setMarked(answer.points); announce(`${answer.sentence}: marked on the map.`); }
let answerRows = new Map();
function showAnswers() {
  const conflicts = details && details.version === shown.version ? details.contradictions : [];
  const inConflict = new Set(conflicts.flat());
  $("answers-count").textContent = shown.answers.length ? `(${shown.answers.length})` : "";
  const kept = new Map(); // rows of which nothing changed are used again: hundreds of answers cost as little as few
  for (const answer of shown.answers.toReversed()) {
    const isIn = inConflict.has(answer.number), percent = answer.is_met ? 0 : Math.round(100 * answer.violation);
    const key = [answer.number, answer.weight, answer.is_met, percent, isIn].join();
    kept.set(key, answerRows.get(key) ?? answerRow(answer, isIn, act, show));
  }
  answerRows = kept;
  fill($("answers"), ...kept.values());
  if (!shown.answers.length) fill($("answers"), el("li", { class: "soft" }, "None yet."));
  const box = $("contradictions-box"), was = box.hidden;
  box.hidden = !conflicts.length;
  fill($("contradictions"), el("p", { class: "soft" }, "By proof: no metric of these features meets them together."),
    ...conflicts.map((numbers) => el("ul", { class: "conflict" },
      ...shown.answers.filter((answer) => numbers.includes(answer.number)).map((answer) => answerRow(answer, true, act, show)))));
  if (conflicts.length && was) announce(`${conflicts[0].length} answers contradict each other: soften or drop one.`, true);
}

// ---------------------------------------------------------------- keys and buttons
function lasso() {
  map.setLasso(!map.isLasso);
  $("lasso").setAttribute("aria-pressed", String(map.isLasso));
  announce(map.isLasso ? "Lasso: draw around points." : "Lasso off.");
}
let turn = 0;
function toAsked() { if (asked) { map.setCursor(asked.points[turn++ % 2]); } }
const KEYS = {
  s: () => pairOr("same"), d: () => pairOr("different"), c: closer, g: group, n: askName, x: skip, l: lasso, q: toAsked,
  u: () => act({ kind: "undo" }), r: () => act({ kind: "redo" }), m: () => $("map").focus(),
  "+": () => map.zoom(1.4), "=": () => map.zoom(1.4), "-": () => map.zoom(1 / 1.4), 0: () => map.fit(),
  "?": () => $("help-dialog").showModal(), escape: () => { setPicks([]); map.setMarked([]); announce("Nothing picked."); },
};
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input")) return;
  const key = event.key.toLowerCase();
  if (Object.hasOwn(KEYS, key) && !event.repeat) { KEYS[key](); event.preventDefault(); }
});
$("map").addEventListener("keydown", (event) => {
  if (ARROWS[event.key]) { map.step(...ARROWS[event.key]); event.preventDefault(); }
  if ((event.key === "Enter" || event.key === " ") && map.cursor >= 0) { togglePick(map.cursor); event.preventDefault(); }
});
$("map").addEventListener("blur", () => tip(-1));
$("name-input").addEventListener("keydown", (event) => { if (event.key === "Enter") giveName(); });
const CLICKS = {
  same: () => pairOr("same"), different: () => pairOr("different"), closer, group, name: askName, clear: KEYS.escape,
  "ask-same": () => askedIs("same"), "ask-different": () => askedIs("different"), "ask-skip": skip, undo: KEYS.u, redo: KEYS.r,
  help: KEYS["?"], "help-close": () => $("help-dialog").close(), "name-ok": giveName, "name-cancel": () => $("name-dialog").close(),
  lasso, "zoom-in": KEYS["+"], "zoom-out": KEYS["-"], "zoom-fit": KEYS[0],
};
for (const [id, handle] of Object.entries(CLICKS)) $(id).addEventListener("click", handle);
dark.addEventListener("change", showColours);
setPicks([]);
showColours();
