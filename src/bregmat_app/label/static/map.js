// The map: points on a canvas, with zoom, picking, lasso, a cursor for the keyboard, and moves from one map to the next.

const MOVE_MS = 400;
const REACH = 14; // pixels around a point that still hit it
const PICTURES_FROM = 120; // points in view up to which their pictures are drawn
const PIXELS_FROM = 3000; // points from which they are written into the pixels as squares: many times cheaper than as many paths
const still = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");

export class PointMap extends EventTarget {
  constructor(canvas, pictureOf) {
    super();
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: true });
    this.pictureOf = pictureOf;
    this.shown = this.from = this.to = null;
    this.codes = null;
    this.palette = () => "#888";
    this.picks = [];
    this.asked = [];
    this.marked = [];
    this.cursor = -1;
    this.hover = -1;
    this.isLasso = false;
    this.path = null;
    this.view = { x: 0, y: 0, scale: 1, isOwn: false };
    this.pending = false;
    this.image = this.pixels = null;
    this.listen();
  }

  // ---------------------------------------------------------------- what is shown
  get n() { return this.to ? this.to.length / 2 : 0; }

  setPositions(positions, then) {
    this.from = this.shown ? this.shown.slice() : positions;
    this.to = positions;
    const fit = this.view.isOwn ? this.view : this.fitted();
    if (still.matches || !this.shown) {
      this.shown = positions;
      this.view = fit;
      this.draw();
      then();
      return;
    }
    const [first, start] = [this.view, performance.now()];
    let isFirst = true;
    const step = (now) => {
      if (this.to !== positions) return; // another map came in between
      const t = Math.min(1, Math.max(0, (now - start) / MOVE_MS)), s = t * t * (3 - 2 * t);
      if (t < 1) {
        this.shown = this.from.map((value, k) => value + s * (positions[k] - value));
        if (!this.view.isOwn) {
          const mix = (name) => first[name] + s * (fit[name] - first[name]);
          this.view = { x: mix("x"), y: mix("y"), scale: mix("scale"), isOwn: false };
        }
        requestAnimationFrame(step);
      } else {
        this.shown = positions;
        if (!this.view.isOwn) this.view = fit;
      }
      this.draw();
      if (isFirst) then();
      isFirst = false;
    };
    requestAnimationFrame(step);
  }

  setColours(codes, palette) { this.codes = codes; this.palette = palette; this.redraw(); }
  setPicks(picks) { this.picks = picks; this.redraw(); }
  setAsked(points) { this.asked = points; this.redraw(); }
  setMarked(points) { this.marked = points; this.redraw(); }
  setLasso(isOn) { this.isLasso = isOn; this.canvas.style.cursor = isOn ? "cell" : ""; }

  setCursor(i) {
    this.cursor = i;
    if (i >= 0) {
      const [x, y] = this.place(i), { width, height } = this.size();
      if (x < 20 || y < 20 || x > width - 20 || y > height - 20) this.centre(i);
    }
    this.redraw();
    this.dispatchEvent(new CustomEvent("cursor", { detail: i }));
  }

  // ---------------------------------------------------------------- places
  size() { return { width: this.canvas.clientWidth, height: this.canvas.clientHeight }; }

  fitted() {
    let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let k = 0; k < this.to.length; k += 2) {
      x0 = Math.min(x0, this.to[k]); x1 = Math.max(x1, this.to[k]);
      y0 = Math.min(y0, this.to[k + 1]); y1 = Math.max(y1, this.to[k + 1]);
    }
    const { width, height } = this.size();
    const scale = 0.92 * Math.min(width / Math.max(x1 - x0, 1e-9), height / Math.max(y1 - y0, 1e-9));
    return { x: (x0 + x1) / 2, y: (y0 + y1) / 2, scale, isOwn: false };
  }

  place(i, at = this.shown) {
    const { width, height } = this.size(), { x, y, scale } = this.view;
    return [width / 2 + scale * (at[2 * i] - x), height / 2 - scale * (at[2 * i + 1] - y)];
  }

  // what `place` says, of all points
  eachPlace(then) {
    const { width, height } = this.size(), { x, y, scale } = this.view, at = this.shown;
    const [left, top] = [width / 2 - scale * x, height / 2 + scale * y];
    for (let i = 0; i < this.n; i++) then(i, left + scale * at[2 * i], top - scale * at[2 * i + 1]);
  }

  centre(i) { this.view = { ...this.view, x: this.shown[2 * i], y: this.shown[2 * i + 1], isOwn: true }; }
  fit() { if (this.to) { this.view = this.fitted(); this.redraw(); } }

  zoom(factor, px, py) {
    if (!this.shown) return;
    const { width, height } = this.size(), view = this.view;
    const [dx, dy] = [(px ?? width / 2) - width / 2, (py ?? height / 2) - height / 2];
    const least = this.fitted().scale / 4, scale = Math.min(Math.max(view.scale * factor, least), 2000 * least);
    const [x, y] = [view.x + dx / view.scale, view.y - dy / view.scale];
    this.view = { x: x - dx / scale, y: y + dy / scale, scale, isOwn: true };
    this.redraw();
  }

  at(px, py, reach = REACH) {
    if (!this.shown) return -1;
    let [best, least] = [-1, reach * reach];
    this.eachPlace((i, x, y) => {
      const d = (x - px) ** 2 + (y - py) ** 2;
      if (d < least) { best = i; least = d; }
    });
    return best;
  }

  // the nearest point from the cursor in a direction: ahead by more than it is aside
  step(dx, dy) {
    if (!this.shown) return;
    if (this.cursor < 0) { const { width, height } = this.size(); this.setCursor(this.at(width / 2, height / 2, Infinity)); return; }
    const [cx, cy] = this.place(this.cursor);
    let [best, least] = [-1, Infinity];
    this.eachPlace((i, x, y) => {
      const ahead = (x - cx) * dx + (y - cy) * dy, aside = Math.abs((x - cx) * dy - (y - cy) * dx);
      if (i !== this.cursor && ahead > 0.5 && aside <= ahead && ahead + aside < least) { best = i; least = ahead + aside; }
    });
    if (best >= 0) this.setCursor(best);
  }

  // ---------------------------------------------------------------- drawing
  redraw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.draw(); });
  }

  draw() {
    if (!this.shown) return;
    const { width, height } = this.size(), ratio = devicePixelRatio || 1, g = this.context, n = this.n;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (!w || !h) return;
    if (this.canvas.width !== w || this.canvas.height !== h) { this.canvas.width = w; this.canvas.height = h; }
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    const size = n > 6000 ? 3 : n > 1500 ? 4.5 : 6;
    if (n > PIXELS_FROM) this.drawSquares(w, h, size, ratio);
    else this.drawDots(width, height, size);
    const inView = this.pictureOf && this.view.isOwn ? this.inView(width, height) : [];
    if (inView.length <= 3 * PICTURES_FROM) this.drawPictures(inView);
    this.drawMarks(g, size);
  }

  drawDots(width, height, size) {
    const g = this.context, paths = new Map();
    g.clearRect(0, 0, width, height);
    this.eachPlace((i, px, py) => {
      const code = this.codes ? this.codes[i] : 0;
      if (!paths.has(code)) paths.set(code, new Path2D());
      const path = paths.get(code);
      path.moveTo(px + size / 2, py);
      path.arc(px, py, size / 2, 0, 7);
    });
    g.globalAlpha = 0.85;
    for (const [code, path] of paths) { g.fillStyle = this.palette(code, dark.matches); g.fill(path); }
    g.globalAlpha = 1;
  }

  // w x h pixels; a square is three quarters opaque: a pixel below it shows through by a quarter
  drawSquares(w, h, size, ratio) {
    if (!this.image || this.image.width !== w || this.image.height !== h) {
      this.image = this.context.createImageData(w, h);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    const pixels = this.pixels, side = Math.max(1, Math.round(size * ratio)), inks = new Map();
    const half = (a, b) => (a & b) + (((a ^ b) & 0xfefefe) >>> 1); // the mean of two colours
    pixels.fill(0);
    this.eachPlace((i, px, py) => {
      const code = this.codes ? this.codes[i] : 0;
      let ink = inks.get(code);
      if (ink === undefined) {
        const rgb = Number.parseInt(this.palette(code, dark.matches).slice(1), 16);
        inks.set(code, (ink = ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16))); // bytes in the order of a picture
      }
      const left = Math.round(px * ratio - side / 2), top = Math.round(py * ratio - side / 2);
      const [x0, x1] = [Math.max(left, 0), Math.min(left + side, w)];
      for (let y = Math.max(top, 0); y < Math.min(top + side, h); y++) {
        for (let k = y * w + x0; k < y * w + x1; k++) {
          const below = pixels[k];
          pixels[k] = below ? 0xf0000000 | half(ink, half(ink, below & 0xffffff)) : 0xbf000000 | ink;
        }
      }
    });
    this.context.putImageData(this.image, 0, 0);
  }

  // points in view, and where they are: i, x, y one after another; up to one more than have their pictures drawn
  inView(width, height) {
    const found = [];
    this.eachPlace((i, px, py) => {
      if (px > -20 && py > -20 && px < width + 20 && py < height + 20 && found.length <= 3 * PICTURES_FROM) found.push(i, px, py);
    });
    return found;
  }

  drawPictures(inView) {
    for (let k = 0; k < inView.length; k += 3) {
      const image = this.pictureOf(inView[k]);
      if (image.complete && image.naturalWidth) {
        this.context.drawImage(image, inView[k + 1] - 14, inView[k + 2] - 14, 28, 28);
        this.context.strokeStyle = this.palette(this.codes ? this.codes[inView[k]] : 0, dark.matches);
        this.context.lineWidth = 2;
        this.context.strokeRect(inView[k + 1] - 14, inView[k + 2] - 14, 28, 28);
      } else image.onload = () => this.redraw();
    }
  }

  drawMarks(g, size) {
    const style = getComputedStyle(this.canvas), ink = style.getPropertyValue("--ink"), paper = style.getPropertyValue("--paper");
    const ring = (i, radius, colour, lineWidth) => {
      const [px, py] = this.place(i);
      g.beginPath(); g.arc(px, py, radius, 0, 7);
      g.lineWidth = lineWidth + 2; g.strokeStyle = paper; g.stroke();
      g.lineWidth = lineWidth; g.strokeStyle = colour; g.stroke();
    };
    const accent = style.getPropertyValue("--accent"), bad = style.getPropertyValue("--bad");
    const number = (i, text) => {
      const [px, py] = this.place(i);
      g.font = "bold 13px system-ui, sans-serif"; g.lineWidth = 4; g.strokeStyle = paper; g.fillStyle = ink;
      g.strokeText(text, px + 9, py - 7); g.fillText(text, px + 9, py - 7);
    };
    this.asked.forEach(({ point, text }, k) => {
      ring(point, size / 2 + (k ? 4 : 9), accent, k ? 1.5 : 3.5);
      number(point, text);
    });
    for (const i of this.marked) ring(i, size / 2 + 5, bad, 2.5);
    this.picks.forEach((i, k) => {
      ring(i, size / 2 + 4, ink, 2.5);
      if (this.picks.length <= 3) number(i, String(k + 1));
    });
    if (this.cursor >= 0) {
      const [px, py] = this.place(this.cursor);
      for (const [lineWidth, colour] of [[4, paper], [2, accent]]) {
        g.lineWidth = lineWidth; g.strokeStyle = colour; g.strokeRect(px - 11, py - 11, 22, 22);
      }
    }
    if (this.path) {
      g.beginPath();
      this.path.forEach(([px, py], k) => (k ? g.lineTo(px, py) : g.moveTo(px, py)));
      g.closePath(); g.fillStyle = accent; g.globalAlpha = 0.15; g.fill(); g.globalAlpha = 1;
      g.lineWidth = 1.5; g.strokeStyle = accent; g.stroke();
    }
  }

  // ---------------------------------------------------------------- mouse, pen, finger
  listen() {
    const canvas = this.canvas;
    let start = null, moved = false;
    const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      [start, moved] = [{ place: at(event), view: this.view }, false];
      if (this.isLasso || event.shiftKey) this.path = [start.place];
    });
    canvas.addEventListener("pointermove", (event) => {
      const [px, py] = at(event);
      if (!start) { this.setHover(this.at(px, py)); return; }
      const [dx, dy] = [px - start.place[0], py - start.place[1]];
      if (!moved && Math.hypot(dx, dy) < 4) return;
      moved = true;
      if (this.path) this.path.push([px, py]);
      else {
        const { scale } = this.view;
        this.view = { ...this.view, x: start.view.x - dx / scale, y: start.view.y + dy / scale, isOwn: true };
      }
      this.redraw();
    });
    const end = (event) => {
      if (!start) return;
      const [px, py] = at(event);
      if (this.path && moved) this.dispatchEvent(new CustomEvent("lasso", { detail: this.inside(this.path) }));
      else if (!moved && event.type === "pointerup") {
        const i = this.at(px, py);
        if (i >= 0) this.dispatchEvent(new CustomEvent("pick", { detail: i }));
      }
      [start, this.path] = [null, null];
      this.redraw();
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("pointerleave", () => this.setHover(-1));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * 0.0015), ...at(event));
    }, { passive: false });
    new ResizeObserver(() => { if (this.to && !this.view.isOwn) this.view = this.fitted(); this.redraw(); }).observe(canvas);
    dark.addEventListener("change", () => this.redraw());
  }

  setHover(i) {
    if (i === this.hover) return;
    this.hover = i;
    this.dispatchEvent(new CustomEvent("hover", { detail: i }));
  }

  inside(path) {
    const found = [];
    this.eachPlace((i, px, py) => {
      let isIn = false;
      for (let a = 0, b = path.length - 1; a < path.length; b = a++) {
        const [ax, ay] = path[a], [bx, by] = path[b];
        if (ay > py !== by > py && px < ((bx - ax) * (py - ay)) / (by - ay) + ax) isIn = !isIn;
      }
      if (isIn) found.push(i);
    });
    return found;
  }
}
