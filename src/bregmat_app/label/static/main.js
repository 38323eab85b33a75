// The page: turns keys and buttons into answers, and shows what is learned on the map and in the panel.

import { PointMap } from "./map.js";
import { Line } from "./socket.js";
import { agreementRows, answerRow, el, featureRows, fill, statusRows, swatch } from "./panel.js";
import { about, card, nameOf, pointPicture, pointText } from "./points.js";
import { pointsOf, showQuestion } from "./question.js";

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
let colourBy = about.classes ? "label" : "cluster";

$("title").textContent = about.title;
document.title = `${about.title} – bregmat label`;

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

// ---------------------------------------------------------------- sending answers
function announce(text, isBad = false) { $("announce").textContent = text; $("announce").className = isBad ? "bad" : ""; }
function say(event, words) {
  answered = words;
  if (line.send({ type: "say", event })) answeredAt = performance.now();
  else announce("Not connected: the answer was not sent.", true);
}
const WORDS = { same: "Same", different: "Different", undo: "Undone", redo: "Redone", soften: "Softened", drop: "Dropped" };
const act = (event) => say(event, WORDS[event.kind]);
function pairOr(kind) {
  if (picks.length === 2) { const points = picks; setPicks([]); act({ kind, points }); }
  else if (picks.length === 0 && isOpen && question.groups.length === 1) choose(kind === "same" ? 0 : -1);
  else announce("Pick two points first. Digit keys answer the question.", true);
}
// answers the question: the place of a group, or -1 for none of them
function choose(k) {
  if (!isOpen || k >= question.groups.length) return;
  const { point, groups } = question, members = groups.map((group) => group.members[0]);
  setOpen(false);
  if (k < 0) say({ kind: "different", points: [point, ...members] }, groups.length > 1 ? "A new group" : "Different");
  else say({ kind: "same", points: [point, members[k]] }, groups.length > 1 ? `Group ${k + 1}` : "Same");
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
  const missed = shown.answers.filter((answer) => answer.met === "no").length;
  if (answered) announce(`${answered}. ${shown.answers.length - missed} of ${shown.answers.length} answers met or nearly met.`);
  answered = "";
  fill($("status"), ...statusRows(shown));
  fill($("features"), ...featureRows(shown.features));
  showAnswers();
  if (colourBy === "named") showColours();
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
line.addEventListener("clusters", ({ detail }) => { clusters = Uint16Array.from(detail.codes); });
line.addEventListener("details", ({ detail }) => {
  if (!shown || detail.version !== shown.version) return;
  details = detail;
  fill($("clusters"), ...detail.cluster_sizes.map((size, k) => el("li", {}, swatch(palette(k, dark.matches)), `cluster ${k + 1}: ${size} points`)));
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

function show(answer) { map.setMarked(answer.points); announce(`${answer.sentence}: marked on the map.`); }
let answerRows = new Map();
function showAnswers() {
  const conflicts = details && details.version === shown.version ? details.contradictions : [];
  const inConflict = new Set(conflicts.flat());
  $("answers-count").textContent = shown.answers.length ? `(${shown.answers.length})` : "";
  const kept = new Map(); // rows of which nothing changed are used again: hundreds of answers cost as little as few
  for (const answer of shown.answers.toReversed()) {
    const isIn = inConflict.has(answer.number), percent = Math.round(100 * (answer.violation ?? 0));
    const key = [answer.number, answer.weight, answer.met, percent, isIn].join();
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
function toAsked() { if (isOpen) map.setCursor(pointsOf(question)[turn++ % (question.groups.length + 1)]); }
function enlarge(isLarge) { $("question-box").classList.toggle("large", isLarge); $("enlarge").setAttribute("aria-pressed", String(isLarge)); }
const KEYS = {
  s: () => pairOr("same"), d: () => pairOr("different"), c: closer, g: group, n: askName, x: skip, l: lasso, q: toAsked,
  u: () => act({ kind: "undo" }), r: () => act({ kind: "redo" }), m: () => $("map").focus(),
  "+": () => map.zoom(1.4), "=": () => map.zoom(1.4), "-": () => map.zoom(1 / 1.4), f: () => map.fit(), 0: () => choose(-1),
  v: () => enlarge(!$("question-box").classList.contains("large")),
  "?": () => $("help-dialog").showModal(), escape: () => { enlarge(false); setPicks([]); map.setMarked([]); announce("Nothing picked."); },
};
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input")) return;
  const key = event.key.toLowerCase();
  if (key >= "1" && key <= "9" && key.length === 1 && !event.repeat) choose(Number(key) - 1);
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
  "ask-new": () => choose(-1), "ask-skip": skip, enlarge: KEYS.v, undo: KEYS.u, redo: KEYS.r,
  help: KEYS["?"], "help-close": () => $("help-dialog").close(), "name-ok": giveName, "name-cancel": () => $("name-dialog").close(),
  lasso, "zoom-in": KEYS["+"], "zoom-out": KEYS["-"], "zoom-fit": KEYS.f,
};
for (const [id, handle] of Object.entries(CLICKS)) $(id).addEventListener("click", handle);
dark.addEventListener("change", showColours);
setPicks([]);
showColours();
