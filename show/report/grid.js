// The explorer of an ablation: figures over one axis or two, with the other axes fixed. All texts are set as text.
'use strict';
const popriGrid = (() => {
  const { Plots, make, show, head, signed, summary, short, missing } = popriPlots;

  class Explorer extends Plots {
    constructor(box, data) {
      super();
      Object.assign(this, data);
      const many = this.axes.map((a, i) => i).sort((a, b) => (this.axes[b].values.length > 1) - (this.axes[a].values.length > 1) || a - b);
      const base = this.cells.find((c) => c.default) || this.cells[0];
      this.state = { figure: 0, x: many[0], y: this.axes.length > 1 && this.axes[many[1]].values.length > 1 ? many[1] : -1,
        fixed: [...base.at], spread: 'sd', cell: null };
      this.byPlace = new Map(this.cells.map((c) => [c.at.join(), c]));
      this.seeded = this.cells.some((c) => c.runs.length > 1);
      this.picks = make('div', { className: 'picks' });
      this.status = make('p', { className: 'note', role: 'status' });
      this.plot = make('div');
      this.table = make('div');
      this.runs = make('div', { 'aria-live': 'polite' });
      box.classList.add('explorer');
      box.replaceChildren(this.picks, this.status, this.plot, this.table, this.runs);
      this.build();
      this.draw();
      let width = 0;
      new ResizeObserver(() => {
        if (Math.abs(this.plot.clientWidth - width) < 8) return;
        width = this.plot.clientWidth;
        this.drawPlot();
      }).observe(this.plot);
    }

    get figure() { return this.figures[this.state.figure]; }

    values(cell) { return cell.runs.map((r) => r.figures[this.figure.key]).filter((v) => v !== undefined); }

    sum(cell) { return summary(this.values(cell), this.half); }

    // place is the cell at values of the shown axes.
    place(i, k) {
      const at = [...this.state.fixed];
      at[this.state.x] = i;
      if (this.state.y >= 0) at[this.state.y] = k;
      return this.byPlace.get(at.join());
    }

    // absent says in a word why a cell has no figure, or lacks seeds.
    absent(cell) {
      if (!cell) return 'not run';
      const failed = cell.runs.filter((r) => r.error).length, left = cell.runs.filter((r) => r.left).length;
      if (this.values(cell).length) return failed ? `${failed} of ${cell.runs.length} failed` : left ? 'dropped early' : '';
      return failed ? 'failed' : left ? 'dropped' : 'no figure';
    }

    // pick is a row of choices; it keeps the keyboard's place when it is made again.
    pick(name, label, options, chosen, set) {
      const row = make('div', { className: 'pick', role: 'radiogroup', 'aria-label': label });
      const list = make('div');
      options.forEach(([value, text]) => {
        const input = make('input', { type: 'radio', name, value: String(value), checked: value === chosen });
        input.addEventListener('change', () => { set(value); this.build(`${name} ${value}`); this.draw(); });
        list.append(make('label', { title: text }, input, short(text, 60)));
      });
      row.append(make('span', { textContent: label }), list);
      this.picks.append(row);
    }

    build(focus) {
      const s = this.state;
      this.picks.replaceChildren();
      this.pick('figure', 'Figure', this.figures.map((f, i) => [i, f.name]), s.figure, (v) => { s.figure = v; });
      const axes = this.axes.map((a, i) => [i, a.key]);
      if (axes.length > 1) {
        this.pick('x', 'Along', axes, s.x, (v) => { if (s.y === v) s.y = s.x; s.x = v; });
        this.pick('y', 'and', [[-1, 'nothing else'], ...axes.filter(([i]) => i !== s.x)], s.y, (v) => { s.y = v; });
      }
      this.axes.forEach((a, i) => {
        if (i === s.x || i === s.y) return;
        this.pick(`fixed${i}`, `${a.key} =`, a.values.map((v, k) => [k, v]), s.fixed[i], (k) => { s.fixed[i] = k; });
      });
      if (this.seeded) {
        this.pick('spread', 'Error bars', [['sd', '± standard deviation'], ['half', '95 % interval of the mean']], s.spread,
          (v) => { s.spread = v; });
      }
      if (focus) [...this.picks.querySelectorAll('input')].find((e) => `${e.name} ${e.value}` === focus)?.focus();
    }

    draw() {
      this.status.textContent = this.words();
      this.drawPlot();
      this.drawTable();
      this.drawRuns();
    }

    // words say what is shown.
    words() {
      const s = this.state, fixed = this.axes.map((a, i) => [a, i]).filter(([, i]) => i !== s.x && i !== s.y)
        .map(([a, i]) => `${a.key} = ${a.values[s.fixed[i]]}`);
      const over = this.axes[s.x].key + (s.y >= 0 ? ` × ${this.axes[s.y].key}` : '');
      const better = this.figure.better ? ` ${this.figure.better > 0 ? 'More' : 'Less'} is better.` : '';
      return `${head(this.figure)} over ${over}${fixed.length ? `, where ${fixed.join(', ')}` : ''}: means over ` +
        `${this.seeds.length} ${this.seeds.length === 1 ? 'seed' : 'seeds'}.${better}`;
    }

    shown() {
      const s = this.state, list = [];
      for (let k = 0; k < (s.y >= 0 ? this.axes[s.y].values.length : 1); k++) {
        for (let i = 0; i < this.axes[s.x].values.length; i++) list.push(this.place(i, k));
      }
      return list;
    }

    // best is the shown cell with the best mean, null if fewer than two have one. A run that was dropped took less time and
    // spent less, which is no merit.
    best() {
      const known = this.shown().filter((c) => c && this.values(c).length && !c.runs.some((r) => r.left));
      if (!this.figure.better || known.length < 2) return null;
      return known.reduce((a, c) => ((this.sum(c).mean - this.sum(a).mean) * this.figure.better > 0 ? c : a));
    }

    // alt is what the drawing says, for who does not see it.
    alt(kind) {
      const known = this.shown().filter((c) => c && this.values(c).length).sort((a, b) => this.sum(a).mean - this.sum(b).mean);
      if (!known.length) return `${kind}: no run has this figure`;
      const at = (c) => `${show(this.figure, this.sum(c).mean)} at ${this.named(c)}`;
      const lack = this.shown().filter((c) => this.absent(c)).length;
      return `${kind} of ${head(this.figure)}: lowest ${at(known[0])}, highest ${at(known[known.length - 1])}` +
        (lack ? `; ${lack} without all runs` : '') + '. The table below has all figures.';
    }

    named(cell) {
      const s = this.state;
      return [s.x, s.y].filter((i) => i >= 0).map((i) => `${this.axes[i].key} = ${this.axes[i].values[cell.at[i]]}`).join(', ');
    }

    drawPlot() {
      const s = this.state, width = Math.max(300, Math.min(826, this.plot.clientWidth - 34));
      const numbers = this.axes[s.x].numbers;
      const [kind, svg] = s.y >= 0 ? ['Heat map', this.heat(width)] : numbers ? ['Line chart', this.lines(width, numbers)] : ['Chart', this.bars(width)];
      svg.setAttribute('role', 'img');
      svg.setAttribute('aria-label', this.alt(kind));
      const over = this.axes[s.x].key + (s.y >= 0 ? ` × ${this.axes[s.y].key}` : '');
      const caption = make('figcaption', {}, make('strong', { textContent: `${head(this.figure)} over ${over}` }));
      const bars = s.spread === 'sd' ? 'standard deviations over seeds' : '95 % intervals of the mean (Student’s t)';
      const note = s.y >= 0 ? 'A stronger colour is more; the best has a frame.' : 'Means';
      caption.append(make('span', { textContent: note + (this.seeded ? s.y >= 0 ? ` ± are ${bars}.` : ` with ${bars}; small points are single seeds.` : s.y < 0 ? '.' : '') }));
      const box = make('div', { className: 'scroll' }, svg);
      this.plot.replaceChildren(make('figure', { className: 'plot' }, caption, box));
      popriSave(this.plot);
    }

    choose(cell) {
      this.state.cell = this.state.cell === cell ? null : cell;
      this.draw();
      if (this.state.cell) this.runs.scrollIntoView({ block: 'nearest' });
    }

    // slice fixes an axis at a value and shows the other one alone.
    slice(axis, value) {
      const s = this.state;
      s.fixed[axis] = value;
      if (s.x === axis) s.x = s.y;
      s.y = -1;
      this.build(`fixed${axis} ${value}`);
      this.draw();
    }

    drawTable() {
      const s = this.state, X = this.axes[s.x], f = this.figure, best = this.best();
      const t = make('table'), top = t.createTHead().insertRow(), body = t.createTBody();
      t.createCaption().textContent = 'Means over seeds; small figures are their spread';
      const th = (text, scope, className) => make('th', { textContent: text, scope, className: className || '' });
      const button = (text, label, act) => {
        const b = make('button', { type: 'button', textContent: text, title: label });
        b.setAttribute('aria-label', `${text}: ${label}`);
        b.addEventListener('click', act);
        return b;
      };
      const cellOf = (c) => {
        const td = make('td', { className: `n${c && c === best ? ' best' : ''}${c && !this.values(c).length ? ' failed-cell' : ''}` });
        if (!c) { td.append(missing); return td; }
        const lack = this.absent(c);
        const sum = this.sum(c), half = sum[s.spread];
        td.append(button(sum.n ? show(f, sum.mean) : lack, 'show its runs', () => this.choose(c)));
        const small = sum.n && (lack || (Number.isFinite(half) ? `± ${show(f, half, false)}` : ''));
        if (small) td.append(make('small', { textContent: small }));
        return td;
      };
      const title = make('h3', { textContent: this.words().replace(/: means.*$/, '') });
      if (s.y >= 0) {
        const Y = this.axes[s.y];
        top.append(th(`${Y.key} ↓  ${X.key} →`, 'col'));
        X.values.forEach((v, i) => {
          const e = th('', 'col', 'n');
          e.append(button(short(v, 40), `only ${X.key} = ${v}`, () => this.slice(s.x, i)));
          top.append(e);
        });
        Y.values.forEach((v, k) => {
          const row = body.insertRow(), e = th('', 'row');
          e.append(button(short(v, 60), `only ${Y.key} = ${v}`, () => this.slice(s.y, k)));
          row.append(e, ...X.values.map((_, i) => cellOf(this.place(i, k))));
        });
      } else {
        const spread = s.spread === 'sd' ? '' : ' (± half the 95 % interval)';
        const base = this.shown().find((c) => c && c.default);
        const pairs = (c) => {
          if (!base || !c || c === base) return missing;
          const list = c.runs.map((r) => [r, base.runs.find((o) => o.seed === r.seed)])
            .map(([r, o]) => (o ? r.figures[f.key] - o.figures[f.key] : NaN));
          if (list.some((v) => !Number.isFinite(v))) return missing;
          const sum = summary(list, this.half);
          return signed(f, sum.mean) + (sum.n > 1 ? ` ± ${show(f, sum[s.spread], false)}` : '');
        };
        top.append(th(X.key, 'col'), th(`${head(f)}${this.seeded ? spread : ''}`, 'col', 'n'));
        if (this.seeded) top.append(th('Lowest – highest', 'col', 'n'), th('Seeds', 'col', 'n'));
        if (base) top.append(th('Difference to the default', 'col', 'n'));
        X.values.forEach((v, i) => {
          const c = this.place(i), row = body.insertRow(), e = th(v, 'row');
          if (c && c.default) e.append(make('small', { textContent: 'default' }));
          row.append(e, cellOf(c));
          const sum = c ? this.sum(c) : { n: 0 };
          if (this.seeded) {
            row.append(make('td', { className: 'n', textContent: sum.n > 1 ? `${show(f, sum.low)} – ${show(f, sum.high)}` : missing }),
              make('td', { className: 'n', textContent: String(sum.n) }));
          }
          if (base) row.append(make('td', { className: 'n', textContent: pairs(c) }));
          if (c && c === best) row.className = 'main';
        });
      }
      this.table.replaceChildren(title, make('div', { className: 'scroll' }, t));
      popriSave(this.table);
    }

    drawRuns() {
      const c = this.state.cell;
      if (!c) { this.runs.replaceChildren(); return; }
      const t = make('table'), top = t.createTHead().insertRow(), body = t.createTBody();
      const close = make('button', { type: 'button', className: 'button', textContent: 'Close' });
      close.addEventListener('click', () => this.choose(c));
      for (const name of ['Seed', ...this.figures.map(head), 'Report']) {
        top.append(make('th', { scope: 'col', textContent: name, className: name === 'Seed' || name === 'Report' ? '' : 'n' }));
      }
      for (const r of c.runs) {
        const row = body.insertRow();
        row.append(make('th', { scope: 'row', textContent: String(r.seed) }));
        if (r.error || r.left) {
          const td = make('td', { colSpan: this.figures.length, className: 'error' });
          td.textContent = r.error ? `failed: ${r.error}` : r.left;
          row.append(td);
        } else {
          row.append(...this.figures.map((f) => make('td', { className: 'n', textContent: show(f, r.figures[f.key]) })));
        }
        const td = make('td');
        if (r.report) td.append(make('a', { href: `./${encodeURIComponent(r.name)}/report.html`, textContent: 'report' }));
        else td.append(missing);
        row.append(td);
      }
      const words = this.axes.map((a, i) => `${a.key} = ${a.values[c.at[i]]}`).join(', ');
      t.createCaption().textContent = 'Figures of each seed';
      this.runs.replaceChildren(make('div', { className: 'runs-of' },
        make('h3', { textContent: `The runs of ${words}` }), make('div', { className: 'scroll' }, t), close));
      popriSave(this.runs);
    }
  }

  // everyRun is a file with a row for each run and the figures as they were computed.
  const everyRun = ({ axes, figures, cells }) => popriSave.csv([
    [...axes.map((a) => a.key), 'seed', 'run', ...figures.map((f) => f.key), 'error', 'dropped'],
    ...cells.flatMap((c) => c.runs.map((r) => [...c.at.map((k, i) => axes[i].values[k]), String(r.seed), r.name,
      ...figures.map((f) => String(r.figures[f.key] ?? '')), r.error, r.left || '']))]);

  return (box) => {
    const data = JSON.parse(document.getElementById('grid-data').textContent);
    if (!data.cells?.length || !data.figures?.length || !data.axes?.length) return;
    new Explorer(box, data);
    const save = make('button', { type: 'button', textContent: 'CSV of every run', title: 'Save the figures of every run as CSV' });
    save.addEventListener('click', () => popriSave.download('runs.csv', new Blob([everyRun(data)], { type: 'text/csv' })));
    document.querySelector('#all .tools')?.prepend(save);
    box.parentElement.classList.add('live');
  };
})();
popriSave(document);
popriGrid(document.getElementById('explorer'));
