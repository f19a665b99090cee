// The drawings of an ablation: a heat map, lines or bars, from the state of the explorer. Texts are set as text.
'use strict';
const popriPlots = (() => {
  const make = (name, attributes, ...children) => {
    const e = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key in e) e[key] = value; else e.setAttribute(key, value);
    }
    e.append(...children);
    return e;
  };
  const drawn = (name, attributes, text) => {
    const e = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const short = (text, limit) => ([...text].length > limit ? [...text].slice(0, limit - 1).join('') + '…' : text);
  const missing = '–';

  // show writes a figure as the page's tables do: an upper bound is rounded up.
  const show = (f, v, bound = f.bound) => {
    if (!Number.isFinite(v)) return missing;
    const power = 10 ** f.decimals;
    const text = (bound ? Math.ceil(v * f.scale * power - 1e-9) / power : v * f.scale).toFixed(f.decimals);
    return (/[1-9]/.test(text) ? text : text.replace('-', '')).replace('-', '−');
  };
  const head = (f) => (f.unit ? `${f.name}, ${f.unit}` : f.name);
  const signed = (f, v) => (v >= 0 ? '+' : '') + show(f, v, false);

  // summary is the mean of the known values with its spread: half the width of what an error bar shows.
  const summary = (values, half) => {
    const n = values.length, mean = values.reduce((a, v) => a + v, 0) / n;
    const sd = n > 1 ? Math.sqrt(values.reduce((a, v) => a + (v - mean) ** 2, 0) / (n - 1)) : NaN;
    return { n, values, mean, sd, half: n > 1 ? sd * half[n] : NaN, low: Math.min(...values), high: Math.max(...values) };
  };

  const ticks = (low, high) => {
    if (!(high > low)) { const d = Math.abs(low) * 0.05 || 0.5; low -= d; high += d; }
    const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((f) => f * power).find((s) => s >= rough * (1 - 1e-9));
    const list = [];
    for (let i = Math.floor(low / step + 1e-9); i * step < high + step * (1 - 1e-9) && list.length < 12; i++) list.push(i * step);
    const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9) + (Math.abs(step / power - 2.5) < 1e-9 ? 1 : 0));
    return { list, text: (v) => (v === 0 ? 0 : v).toFixed(digits).replace('-', '−') };
  };

  // Plots draws the cells that its heir's place returns.
  class Plots {
    // hit makes an element choose a cell by a click; the table below does the same for the keyboard.
    hit(element, cell) {
      element.classList.add('hit');
      element.append(drawn('title', {}, cell.runs.map((r) => `${r.name}: ${r.error ? `failed: ${r.error}` : r.left || show(this.figure, r.figures[this.figure.key])}`).join('\n')));
      element.addEventListener('click', () => this.choose(cell));
      return element;
    }

    svg(width, height) {
      const e = drawn('svg', { viewBox: `0 0 ${width} ${height}`, 'font-size': 12 });
      e.style.minWidth = `${width}px`;
      return e;
    }

    text(svg, x, y, text, { quiet, anchor = 'start', ...more } = {}) {
      const e = drawn('text', { x, y, 'text-anchor': anchor, 'font-size': quiet ? 11 : 12, fill: `var(--${quiet ? 'muted' : 'ink'})`, ...more }, text);
      if (quiet) e.classList.add('quiet');
      svg.append(e);
      return e;
    }

    heat(room) {
      const s = this.state, X = this.axes[s.x], Y = this.axes[s.y];
      const left = Math.min(room * 0.32, 16 + 7 * Math.max(...Y.values.map((v) => Math.min(24, [...v].length)), 4));
      const cell = Math.max(70, Math.min(150, (room - left - 8) / X.values.length)), tall = 46, top = 68;
      const width = left + cell * X.values.length + 8, height = top + tall * Y.values.length + 8;
      const svg = this.svg(width, height);
      const means = this.shown().filter((c) => c && this.values(c).length).map((c) => this.sum(c).mean);
      const low = Math.min(...means), high = Math.max(...means), best = this.best();
      this.text(svg, left + cell * X.values.length / 2, 16, `${short(X.key, Math.floor(width / 8))} →`, { quiet: true, anchor: 'middle' });
      this.text(svg, 2, 36, `${short(Y.key, Math.floor(width / 8))} ↓`, { quiet: true });
      X.values.forEach((v, i) => {
        const e = this.text(svg, left + cell * (i + 0.5), top - 10, short(v, Math.floor(cell / 7.5)), { anchor: 'middle' });
        this.edge(e, s.x, i);
      });
      const frames = [];
      Y.values.forEach((v, k) => {
        this.edge(this.text(svg, left - 8, top + tall * (k + 0.5) + 4, short(v, Math.floor(left / 7)), { anchor: 'end' }), s.y, k);
        X.values.forEach((_, i) => {
          const c = this.place(i, k), x = left + cell * i + 1, y = top + tall * k + 1;
          const at = { x, y, width: cell - 2, height: tall - 2, rx: 4 };
          const lack = this.absent(c), known = c && this.values(c).length > 0;
          if (known) {
            const sum = this.sum(c), share = high > low ? (sum.mean - low) / (high - low) : 0.5;
            svg.append(this.hit(drawn('rect', { ...at, fill: 'var(--s1)', 'fill-opacity': (0.06 + 0.44 * share).toFixed(3) }), c));
            const half = sum[s.spread], second = lack || (Number.isFinite(half) ? `± ${show(this.figure, half, false)}` : '');
            this.text(svg, x + cell / 2 - 1, y + (second ? 19 : 26), show(this.figure, sum.mean), { anchor: 'middle', 'font-weight': 600, 'pointer-events': 'none' });
            if (second) this.text(svg, x + cell / 2 - 1, y + 35, short(second, Math.floor(cell / 6)), { anchor: 'middle', 'font-size': 11, 'pointer-events': 'none' });
          } else {
            const e = drawn('rect', { ...at, fill: 'none', stroke: 'var(--muted)', 'stroke-dasharray': '4 3', 'pointer-events': 'all' });
            svg.append(c ? this.hit(e, c) : e);
            this.text(svg, x + cell / 2 - 1, y + 27, lack, { quiet: true, anchor: 'middle', 'pointer-events': 'none' });
          }
          if (c && c === best) frames.push(drawn('rect', { ...at, fill: 'none', stroke: 'var(--s2)', 'stroke-width': 2.5, 'pointer-events': 'none' }));
          if (c && c === s.cell) frames.push(drawn('rect', { ...at, fill: 'none', stroke: 'var(--ink)', 'stroke-width': 2, 'pointer-events': 'none' }));
        });
      });
      svg.append(...frames);
      return svg;
    }

    // edge makes a heading of the heat map slice by a click.
    edge(element, axis, value) {
      element.classList.add('hit');
      element.append(drawn('title', {}, `only ${this.axes[axis].key} = ${this.axes[axis].values[value]}`));
      element.addEventListener('click', () => this.slice(axis, value));
    }

    // range is that of all means, single seeds and error bars, in shown numbers.
    range(zero) {
      const f = this.figure, all = [];
      for (const c of this.shown()) {
        if (!c || !this.values(c).length) continue;
        const sum = this.sum(c), half = sum[this.state.spread] || 0;
        all.push(sum.mean - half, sum.mean + half, sum.low, sum.high);
      }
      if (!all.length) return [0, 1];
      let low = Math.min(...all) * f.scale, high = Math.max(...all) * f.scale;
      if (zero(low, high)) { low = Math.min(low, 0); high = Math.max(high, 0); }
      return [low, high];
    }

    lines(width, numbers) {
      const s = this.state, X = this.axes[s.x], f = this.figure, height = 330, left = 56, right = 24, top = 14, bottom = 50;
      const svg = this.svg(width, height), t = ticks(...this.range(() => false));
      const [low, high] = [t.list[0], t.list[t.list.length - 1]];
      const positive = Math.min(...numbers) > 0, log = positive && Math.max(...numbers) / Math.min(...numbers) > 30;
      const scale = (v) => (log ? Math.log(v) : v), from = scale(Math.min(...numbers)), to = scale(Math.max(...numbers));
      const px = (i) => left + 18 + (width - left - right - 36) * (scale(numbers[i]) - from) / (to - from || 1);
      const py = (v) => top + (height - top - bottom) * (1 - (v - low) / (high - low));
      for (const v of t.list) {
        svg.append(drawn('path', { d: `M${left} ${py(v)}H${width - right}`, stroke: 'var(--grid)', 'stroke-width': 1 }));
        this.text(svg, left - 8, py(v) + 4, t.text(v), { quiet: true, anchor: 'end' });
      }
      const order = numbers.map((_, i) => i).sort((a, b) => numbers[a] - numbers[b]);
      let last = -1e9;
      for (const i of order) { // labels that would touch are left out
        const label = short(X.values[i], 12), half = label.length * 3.4;
        if (px(i) - half < last + 6) continue;
        last = px(i) + half;
        this.text(svg, px(i), height - bottom + 18, label, { quiet: true, anchor: 'middle' });
      }
      this.text(svg, (left + width - right) / 2, height - 8, short(X.key, 60) + (log ? ' (logarithmic)' : ''), { quiet: true, anchor: 'middle' });
      const known = order.filter((i) => this.place(i) && this.values(this.place(i)).length);
      svg.append(drawn('path', { d: known.map((i, n) => `${n ? 'L' : 'M'}${px(i)} ${py(this.sum(this.place(i)).mean * f.scale)}`).join(''),
        fill: 'none', stroke: 'var(--s1)', 'stroke-width': 1.8 }));
      for (const i of order) this.marks(svg, this.place(i), { x: px(i), along: py, upright: true, lack: height - bottom - 6 });
      return svg;
    }

    // marks draws a cell's mean, error bar and seeds along one direction, or a cross where there is no figure.
    marks(svg, cell, { x, y, along, upright, lack }) {
      const f = this.figure, s = this.state, at = (v) => (upright ? [x, along(v)] : [along(v), y]);
      if (!cell || !this.values(cell).length) {
        const [cx, cy] = upright ? [x, lack] : [lack, y], word = this.absent(cell);
        const cross = drawn('path', { d: `M${cx - 4} ${cy - 4}l8 8m0 -8l-8 8`, stroke: 'var(--warn)', 'stroke-width': 1.8, 'pointer-events': 'bounding-box' });
        svg.append(cell ? this.hit(cross, cell) : cross);
        this.text(svg, upright ? cx : cx + 10, upright ? cy - 9 : cy + 4, word, { quiet: true, anchor: upright ? 'middle' : 'start' });
        return;
      }
      const sum = this.sum(cell), half = sum[s.spread], mean = sum.mean * f.scale;
      if (Number.isFinite(half)) {
        const [a, b] = at((sum.mean - half) * f.scale), [c, d] = at((sum.mean + half) * f.scale);
        const cap = upright ? `M${a - 4} ${b}h8M${c - 4} ${d}h8` : `M${a} ${b - 4}v8M${c} ${d - 4}v8`;
        svg.append(drawn('path', { d: `M${a} ${b}L${c} ${d}${cap}`, stroke: 'var(--s1)', 'stroke-width': 1.5, fill: 'none' }));
      }
      if (sum.n > 1) {
        for (const v of sum.values) {
          const [a, b] = at(v * f.scale);
          svg.append(drawn('circle', { cx: upright ? a + 8 : a, cy: upright ? b : b + 8, r: 2, fill: 'var(--s2)' }));
        }
      }
      const [cx, cy] = at(mean), chosen = cell === s.cell;
      svg.append(this.hit(drawn('circle', { cx, cy, r: chosen ? 6.5 : 4.5, fill: 'var(--s1)', stroke: chosen ? 'var(--ink)' : 'var(--card)', 'stroke-width': 1.5 }), cell));
    }

    bars(width) {
      const s = this.state, X = this.axes[s.x], f = this.figure, row = 40, top = 8, bottom = 44;
      const left = Math.min(width * 0.42, 22 + 6.6 * Math.max(...X.values.map((v) => [...v].length)));
      const right = 18, height = top + row * X.values.length + bottom, svg = this.svg(width, height);
      // A bar begins at zero. Where that would hide the differences, points alone stand on a scale that need not.
      const zero = (low, high) => low <= 0 || high - low >= 0.25 * high;
      const range = this.range(zero), t = ticks(...range), low = t.list[0], high = t.list[t.list.length - 1];
      const px = (v) => left + (width - left - right) * (v - low) / (high - low);
      for (const v of t.list) {
        svg.append(drawn('path', { d: `M${px(v)} ${top}V${height - bottom}`, stroke: 'var(--grid)', 'stroke-width': 1 }));
        this.text(svg, px(v), height - bottom + 18, t.text(v), { quiet: true, anchor: 'middle' });
      }
      this.text(svg, (left + width - right) / 2, height - 6, head(f), { quiet: true, anchor: 'middle' });
      X.values.forEach((v, i) => {
        const c = this.place(i), y = top + row * (i + 0.5);
        this.text(svg, left - 8, y + 4, short(v, Math.floor(left / 6.6)), { anchor: 'end' }).append(drawn('title', {}, v));
        if (c && this.values(c).length && low <= 0 && high >= 0) {
          const a = px(0), b = px(this.sum(c).mean * f.scale);
          svg.append(this.hit(drawn('rect', { x: Math.min(a, b), y: y - 11, width: Math.abs(b - a), height: 22, rx: 2, fill: 'var(--s1)', 'fill-opacity': 0.28 }), c));
        }
        this.marks(svg, c, { y, along: px, upright: false, lack: left + 10 });
      });
      return svg;
    }
  }

  return { Plots, make, show, head, signed, summary, short, missing };
})();
