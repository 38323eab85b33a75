// Elements of the panel. Whatever comes from the data is inserted as text, never as markup.

export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "key") node.dataset.key = value;
    else if (value !== false && value !== null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

// replaces the children and keeps the keyboard focus on the child with the same key
export function fill(parent, ...children) {
  const key = parent.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  parent.replaceChildren(...children.filter((child) => child !== null));
  if (key === null || key === undefined) return;
  const again = parent.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (again) again.focus();
}

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function swatch(colour) {
  return svg("svg", { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("circle", { cx: 5, cy: 5, r: 5, fill: colour }));
}

export function statusRows(shown) {
  const all = shown.answers.length, count = (met) => shown.answers.filter((answer) => answer.met === met).length;
  const met = count("yes"), nearly = count("nearly");
  const row = (name, value, kind = "") => [el("dt", {}, name), el("dd", { class: kind }, value)];
  if (!all) return row("Answers", "none yet: nothing is learned");
  const small = (x) => (x === null ? "not known" : x === 0 ? "0" : x.toExponential(1));
  return [
    ...row("Status", shown.status === "OPTIMAL" ? "OPTIMAL: proven optimal" : shown.status, shown.status === "OPTIMAL" ? "good" : "bad"),
    ...row("Gap", `${small(shown.gap)} (tolerance: ${small(shown.tol)})`),
    ...row("Answers met", nearly ? `${met} of ${all}, ${nearly} more within 10 %` : `${met} of ${all}`, met + nearly === all ? "good" : ""),
    ...row("Constraints", String(shown.n_rows)),
    ...row("Learned in", `${(1000 * shown.seconds).toFixed(0)} ms`),
  ];
}

// how far the labelling is; the second argument is null while it is computed
export function progressItems(shown, progress) {
  const n = shown.answers.length, percent = (x) => (x > 0 && x < 0.01 ? "under 1 %" : `${Math.round(100 * x)} %`);
  const items = [el("li", {}, n === 1 ? "1 answer" : `${n} answers`)];
  if (!n || !progress) return items;
  items.push(el("li", {}, `${percent(progress.decided)} of the points decided`));
  if (progress.changed !== null) items.push(el("li", {}, `the last ${progress.recent} answers changed ${percent(progress.changed)} of the labels`));
  if (progress.is_enough) items.push(el("li", { class: "good" }, "more answers will change little: you can stop"));
  return items;
}

export function agreementRows({ accuracy, nmi }) {
  const row = (name, text) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, text));
  return [row("points in the right cluster", `${Math.round(100 * accuracy)} %`), row("mutual information (NMI)", nmi.toFixed(2))];
}

export function featureRows(features) {
  if (!features.length) return [el("p", { class: "soft" }, "No feature has gained or lost weight.")];
  const most = Math.max(...features.map((feature) => Math.abs(feature.gain)), 0.3);
  return features.map(({ name, gain }) => {
    const width = (48 * Math.abs(gain)) / most;
    const bar = svg("rect", { x: gain > 0 ? 50 : 50 - width, y: 1, width, height: 8, fill: gain > 0 ? "var(--good)" : "var(--bad)" });
    const axis = svg("line", { x1: 50, x2: 50, y1: 0, y2: 10, stroke: "var(--edge)" });
    const factor = 2 ** gain;
    return el("div", { class: "feature" }, el("span", {}, name),
      svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, bar, axis),
      el("span", { class: "num" }, `× ${factor >= 100 ? factor.toFixed(0) : factor.toPrecision(3)}`));
  });
}

export function answerRow(answer, contradicts, act, show) {
  const off = `${Math.max(1, Math.round(100 * (answer.violation ?? 0)))} %`;
  const state = contradicts ? ["contradicts", "bad"] : { yes: ["met", "good"], nearly: [`nearly met (${off})`, ""], no: [`missed by ${off}`, ""] }[answer.met];
  return el("li", {},
    el("button", { type: "button", class: "what", key: `show-${answer.number}`, onclick: () => show(answer) }, answer.sentence),
    el("span", { class: `state ${state[1]}` }, state[0]),
    el("button", {
      type: "button", class: "small", key: `drop-${answer.number}`, "aria-label": `Drop: ${answer.sentence}`,
      onclick: () => act({ kind: "drop", answer: answer.number }),
    }, "Drop"));
}
