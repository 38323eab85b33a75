// The page: turns keys and buttons into answers, and shows what is learned on the map and in the panel.

import { PointMap } from "./map.js";
import { Line } from "./socket.js";
import { agreementRows, answerRow, el, featureRows, fill, progressItems, statusRows, swatch } from "./panel.js";
import { about, card, nameOf, pointPicture, pointText } from "./points.js";
import { classOf, pointsOf, showQuestion, titleOf } from "./question.js";

const $ = (id) => document.getElementById(id);
const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#b8860b", "#cc3399", "#5b4bc4", "#2b8cbe", "#7a5230", "#c0392b", "#4d7d1f", "#8e44ad", "#167d7f"];
const DARK = ["#56b4e9", "#f5914a", "#35c99a", "#e5c04a", "#ef8ac4", "#a99cf5", "#8fd3f4", "#c89f77", "#f0776b", "#a2d163", "#cf95ea", "#57cfd1"];
const NOTHING = 65535; // code of a point without colour
const palette = (code, isDark) => (code === NOTHING ? (isDark ? "#737d88" : "#9aa3ad") : (isDark ? DARK : LIGHT)[code % LIGHT.length]);
const dark = matchMedia("(prefers-color-scheme: dark)");

const images = new Map();
function picture(i) {
  if (!images.has(i)) { const image = new Image(); image.src = `pictures/${i}`; images.set(i, image); }
  return images.get(i);
}
const map = new PointMap($("map"), about.has_pictures ? picture : null);
const line = new Line();

let shown = null, details = null, question = null, isOpen = false; // isOpen: the question is not answered yet
let clusters = null, picks = [], positions = null, answered = "";
let answeredAt; // time of the last answer
const times = new Map(); // the same by version, until the map of that version is drawn
let colourBy = "group";

$("title").textContent = about.title;
$("made").hidden = !about.made;
$("made").textContent = `Features: ${about.made}.`;
document.title = `${about.title} – bregmat label`;

function spoken(i) {
  const name = legendNames().get(codes()[i]);
  return name ? `${nameOf(i)}, ${name}` : nameOf(i);
}

// ---------------------------------------------------------------- colours
const classNames = about.classes ? [...new Set(about.classes)].filter((name) => name).sort((a, b) => a.localeCompare(b, "en", { numeric: true })) : [];
const classCodes = about.classes ? Uint16Array.from(about.classes, (name) => (name ? classNames.indexOf(name) : NOTHING)) : null;
const blank = new Uint16Array(about.n).fill(NOTHING);
const hasGroups = () => details !== null && details.clusters.some(({ given }) => given);
function codes() {
  if (colourBy === "label") return classCodes;
  return colourBy === "group" && clusters && hasGroups() ? clusters : blank;
}
function legendNames() { // name of each code
  if (colourBy === "label") return new Map(classNames.map((name, code) => [code, name]));
  return new Map(colourBy === "group" && hasGroups() ? details.clusters.map((one) => [one.key - 1, titleOf(one)]) : []);
}
function showColours() {
  map.setColours(codes(), palette);
  fill($("legend"), ...[...legendNames()].map(([code, name]) => el("li", {}, swatch(palette(code, dark.matches)), name)));
}
const ways = [["group", "group found"], ...(about.classes ? [["label", "known label"]] : []), ["none", "nothing"]];
fill($("colour"), ...ways.map(([value, text]) => el("option", { value }, text)));
$("colour").value = colourBy;
$("colour").addEventListener("change", () => { colourBy = $("colour").value; showColours(); });

// ---------------------------------------------------------------- sending answers
function announce(text, isBad = false) { $("announce").textContent = text; $("announce").className = isBad ? "bad" : ""; }
function say(event, words) {
  answered = words;
  if (line.send({ type: "say", event })) answeredAt = performance.now();
  else announce("Not connected: the answer was not sent.", true);
}
const WORDS = { same: "Same", different: "Different", undo: "Undone", redo: "Redone", drop: "Dropped" };
const act = (event) => say(event, WORDS[event.kind]);
function pairOr(kind) {
  if (picks.length === 2) { const points = picks; setPicks([]); act({ kind, points }); }
  else if (picks.length === 0 && isOpen && question.classes.length === 1) choose(kind === "same" ? question.classes[0].key : 0);
  else announce("Pick two points first. Digit keys answer the question.", true);
}
// answers the question: the key of a class, or 0 for none of them
function choose(key) {
  if (!isOpen) return;
  const { point, classes } = question, members = classes.flatMap((one) => one.members.slice(0, 1));
  const chosen = classes.find((one) => one.key === key);
  if (key && !chosen) return;
  setOpen(false);
  if (!key && members.length) say({ kind: "different", points: [point, ...members] }, classes.length > 1 ? "A new group" : "Different");
  else if (!key) { setOpen(true); askName(); }
  else if (chosen.members.length) say({ kind: "same", points: [point, chosen.members[0]] }, classes.length > 1 ? `In ${titleOf(chosen)}` : "Same");
  else say({ kind: "name", points: [point], name: chosen.name }, `Named ${chosen.name}`);
}
function skip() { if (isOpen) { line.send({ type: "skip", point: question.point }); setOpen(false); announce("Skipped."); } }
function setOpen(value) {
  isOpen = value && question !== null;
  map.setAsked(isOpen ? pointsOf(question) : []);
  $("question-box").classList.toggle("waits", !isOpen);
}
function closer() {
  if (picks.length !== 3) { announce("Pick three points for a comparison.", true); return; }
  const points = picks; setPicks([]); say({ kind: "closer", points }, "Comparison");
}
function group() {
  if (picks.length < 2) { announce("Pick two points or more for a group.", true); return; }
  const points = picks; setPicks([]); say({ kind: "group", points }, `Group of ${points.length}`);
}
const knownNames = () => (details ? details.clusters.map(({ name }) => name).filter((name) => name) : []);
let toName = []; // the picked points, or the point of the question
function askName() {
  toName = picks.length || !isOpen ? picks : [question.point];
  if (!toName.length) { announce("Pick points to name.", true); return; }
  $("name-label").textContent = toName.length === 1 ? `Name of the class of ${nameOf(toName[0])}` : `Name of the class of ${toName.length} points`;
  fill($("name-list"), ...knownNames().map((name) => el("option", { value: name })));
  $("name-input").value = "";
  $("name-dialog").showModal();
  $("name-input").focus();
}
function giveName() {
  const name = $("name-input").value.trim();
  if (!name) return;
  const points = toName, isAsked = isOpen && !picks.length && points[0] === question.point;
  $("name-dialog").close(); setPicks([]); $("map").focus();
  if (isAsked) {
    // a new name begins a class, which differs from the others
    const others = question.classes.filter((one) => one.is_known).map((one) => one.members[0]);
    setOpen(false);
    if (others.length && !question.classes.some((one) => one.name === name)) { say({ kind: "different", points: [...points, ...others], name }, `Named ${name}`); return; }
  }
  say({ kind: "name", points, name }, `Named ${name}`);
}
function nameGroup(first) { setPicks([first]); askName(); }

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
  fill(box, pointPicture(i, 128), el("strong", {}, spoken(i)), pointText(i, el("div"), 300));
  const [x, y] = map.place(i), { width, height } = map.size();
  box.style.left = `${Math.min(x + 14, Math.max(0, width - box.offsetWidth - 4))}px`;
  box.style.top = `${y + 14 + box.offsetHeight > height ? Math.max(0, y - 14 - box.offsetHeight) : y + 14}px`;
}

// ---------------------------------------------------------------- messages from the server
function measure(name, start) { if (start !== undefined) performance.measure(name, { start, end: performance.now() }); }
line.addEventListener("positions", ({ detail }) => { positions = detail; });
line.addEventListener("shown", ({ detail }) => {
  shown = detail;
  map.setPositions(positions.positions, () => {
    document.body.dataset.version = String(detail.version);
    measure("answer to map", times.get(detail.version));
    times.delete(detail.version);
  });
  map.setMarked([]);
  $("undo").disabled = !shown.can_undo;
  $("redo").disabled = !shown.can_redo;
  if (answered) announce(`${answered}.`);
  answered = "";
  showProgress();
  fill($("status"), ...statusRows(shown));
  fill($("features"), ...featureRows(shown.features));
  showAnswers();
});
line.addEventListener("question", ({ detail }) => {
  question = detail.question;
  setOpen(true);
  showQuestion(question, choose);
  document.body.dataset.asked = String(detail.version);
  measure("answer to question", answeredAt);
  if (answeredAt !== undefined) times.set(detail.version, answeredAt);
  answeredAt = undefined;
});
line.addEventListener("clusters", ({ detail }) => { clusters = Uint16Array.from(detail.codes, (key) => key - 1); });
function showGroups() {
  fill($("clusters"), ...(hasGroups() ? details.clusters : []).map((one) => el("li", {}, swatch(palette(one.key - 1, dark.matches)),
    `${titleOf(one)}: ${one.size} points (${one.given} given)`,
    one.first.length ? el("button", { type: "button", class: "small", key: `name-${one.key}`, "aria-label": `Name ${titleOf(one)}`, onclick: () => nameGroup(one.first[0]) }, "Name") : null)));
  if (!hasGroups()) fill($("clusters"), el("li", { class: "soft" }, "They begin with your answers."));
}
line.addEventListener("details", ({ detail }) => {
  if (!shown || detail.version !== shown.version) return;
  details = detail;
  showGroups();
  const n = detail.unmeetable.length;
  $("unmeetable").hidden = !n;
  $("unmeetable").textContent = `Not all answers can be met exactly: this is proven for ${n} of them, and it says something about the features, not about your answers. Keep them all. The metric weighs them against each other, and groups and labels use every one.`;
  showProgress();
  $("agreement-box").hidden = !detail.agreement;
  if (detail.agreement) fill($("agreement"), ...agreementRows(detail.agreement));
  showAnswers();
  showColours();
  document.body.dataset.details = String(detail.version);
});
line.addEventListener("neighbours", ({ detail }) => {
  const list = (title, points, known) => el("div", {}, el("h3", {}, title),
    el("ol", {}, ...points.map((i) => el("li", { class: known.includes(i) ? "" : "new" }, pointPicture(i, 29), nameOf(i)))));
  fill($("neighbours"), card(detail.point), el("h3", {}, "Nearest points"),
    el("div", { class: "near" }, list("before", detail.before, detail.before), list("now", detail.now, detail.before)),
    el("p", { class: "soft" }, "New ones are bold."));
});
line.addEventListener("error", ({ detail }) => { answered = ""; answeredAt = undefined; announce(detail.text, true); setOpen(true); });
line.addEventListener("gone", () => { $("gone").hidden = false; $("gone").textContent = "Not connected to bregmat label. Is it still running? Your answers are in its journal."; });
line.addEventListener("open", () => { $("gone").hidden = true; });

function showProgress() { fill($("progress"), ...progressItems(shown, details && details.version === shown.version ? details.progress : null)); }
function show(answer) { map.setMarked(answer.points); announce(`${answer.sentence}: marked on the map.`); }
let answerRows = new Map();
function showAnswers() {
  const conflicts = details && details.version === shown.version ? details.contradictions : [];
  const inConflict = new Set(conflicts.flat());
  $("answers-count").textContent = shown.answers.length ? `(${shown.answers.length})` : "";
  const kept = new Map(); // rows of which nothing changed are used again: hundreds of answers cost as little as few
  for (const answer of shown.answers.toReversed()) {
    const isIn = inConflict.has(answer.number), percent = Math.round(100 * (answer.violation ?? 0));
    const key = [answer.number, answer.met, percent, isIn].join();
    kept.set(key, answerRows.get(key) ?? answerRow(answer, isIn, act, show));
  }
  answerRows = kept;
  fill($("answers"), ...kept.values());
  if (!shown.answers.length) fill($("answers"), el("li", { class: "soft" }, "None yet."));
  const box = $("contradictions-box"), was = box.hidden;
  box.hidden = !conflicts.length;
  fill($("contradictions"), el("p", { class: "soft" }, "They cannot all hold, whatever the features are. Look at them again."),
    ...conflicts.map((numbers) => el("ul", { class: "conflict" },
      ...shown.answers.filter((answer) => numbers.includes(answer.number)).map((answer) => answerRow(answer, true, act, show)))));
  if (conflicts.length && was) announce(`${conflicts[0].length} answers contradict each other: look at them again.`, true);
}

// ---------------------------------------------------------------- keys and buttons
function lasso() {
  map.setLasso(!map.isLasso);
  $("lasso").setAttribute("aria-pressed", String(map.isLasso));
  announce(map.isLasso ? "Lasso: draw around points." : "Lasso off.");
}
let turn = 0;
function toAsked() {
  if (!isOpen) return;
  const points = pointsOf(question);
  $("map").focus();
  map.setCursor(points[turn++ % points.length].point);
}
function enlarge(isLarge) { document.body.classList.toggle("large", isLarge); $("enlarge").setAttribute("aria-pressed", String(isLarge)); }
const KEYS = {
  s: () => pairOr("same"), d: () => pairOr("different"), c: closer, g: group, n: askName, x: skip, l: lasso, q: toAsked,
  u: () => act({ kind: "undo" }), r: () => act({ kind: "redo" }), m: () => $("map").focus(),
  "+": () => map.zoom(1.4), "=": () => map.zoom(1.4), "-": () => map.zoom(1 / 1.4), f: () => map.fit(), 0: () => choose(0),
  v: () => enlarge(!document.body.classList.contains("large")),
  "?": () => $("help-dialog").showModal(), escape: () => { enlarge(false); setPicks([]); map.setMarked([]); announce("Nothing picked."); },
};
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input")) return;
  const key = event.key.toLowerCase();
  if (key.length === 1 && classOf(key) && !event.repeat) choose(classOf(key));
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
  "ask-new": () => choose(0), "ask-name": () => { setPicks([]); askName(); }, "ask-skip": skip, enlarge: KEYS.v, undo: KEYS.u, redo: KEYS.r,
  help: KEYS["?"], "help-close": () => $("help-dialog").close(), "name-ok": giveName, "name-cancel": () => $("name-dialog").close(),
  lasso, "zoom-in": KEYS["+"], "zoom-out": KEYS["-"], "zoom-fit": KEYS.f,
};
for (const [id, handle] of Object.entries(CLICKS)) $(id).addEventListener("click", handle);
dark.addEventListener("change", () => { showColours(); if (details) showGroups(); });
setPicks([]);
showColours();
if (about.n_resumed) announce(`Resumed: ${about.n_resumed} answers of an earlier session are kept.`);
