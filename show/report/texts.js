// The browser of a run's texts: search, sort and read up to some hundred thousand samples. Only the rows in sight are in
// the document. All texts are set as text.
'use strict';
const popriTexts = (() => {
  const rowHeight = 52;
  const spare = 6; // rows above and below those in sight
  const make = (name, attributes, ...children) => {
    const e = document.createElement(name);
    Object.assign(e, attributes);
    e.append(...children);
    return e;
  };

  // unpack decodes base64 and gzip.
  const unpack = async (base64) => {
    const binary = atob(base64.trim());
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return JSON.parse(await new Response(stream).text());
  };

  const figure = (v) => v.toFixed(4).replace('-', '−');
  const count = (n) => (n < 10000 ? String(n) : n.toLocaleString('en').replaceAll(',', '\u202f'));
  const marks = { c: 'chosen', r: 'rejected', b: 'both' };
  const columns = [
    { key: 'score', name: 'Score', down: true }, { key: 'rank', name: 'Rank' }, { key: 'round', name: 'Round' },
    { key: 'prompt', name: 'Prompt' }, { key: 'mark', name: 'Use', style: 'use' }, { key: 'text', name: 'Text' }];

  // A store holds the samples in columns and answers which of them to show, in which order.
  class Store {
    constructor(data) {
      Object.assign(this, data);
      this.size = data.text.length;
      this.lower = data.text.map((t) => t.toLowerCase());
      this.byPrompt = new Map();
      data.prompt.forEach((p, i) => {
        if (p < 0) return;
        if (!this.byPrompt.has(p)) this.byPrompt.set(p, []);
        this.byPrompt.get(p).push(i);
      });
      this.orders = new Map();
    }

    roundName(i) { return this.names[this.round[i]] || String(this.round[i]); }

    markName(i) { return marks[this.mark[i]] || ''; }

    // order is a permutation of all samples; unknown scores and ranks come last either way.
    order(key, down) {
      const name = key + down;
      if (this.orders.has(name)) return this.orders.get(name);
      const sign = down ? -1 : 1;
      const values = key === 'text' ? this.lower : key === 'mark' ? [...this.mark] : this[key];
      const unknown = (v) => v === null || (key === 'rank' && v === 0) || (key === 'prompt' && v < 0) || v === ' ';
      const list = Array.from({ length: this.size }, (_, i) => i);
      list.sort((a, b) => {
        const x = values[a], y = values[b], u = unknown(x), w = unknown(y);
        if (u || w) return u - w || a - b;
        return (x < y ? -sign : x > y ? sign : 0) || a - b;
      });
      this.orders.set(name, list);
      return list;
    }

    // find returns the samples that have all words, in order.
    find({ words, round, mark, prompt }, key, down) {
      const needles = words.toLowerCase().split(/\s+/).filter(Boolean);
      return this.order(key, down).filter((i) => (round === '' || this.round[i] === round) &&
        (mark === '' || this.mark[i] === mark || (this.mark[i] === 'b' && mark !== ' ')) && (prompt < 0 || this.prompt[i] === prompt) &&
        needles.every((n) => this.lower[i].includes(n)));
    }
  }

  class Browser {
    constructor(box, store) {
      this.store = store;
      this.query = { words: '', round: '', mark: '', prompt: -1 };
      this.sort = store.score.some((s) => s !== null) ? { key: 'score', down: true } : { key: 'round', down: false };
      this.selected = 0;
      this.build(box);
      this.update();
    }

    build(box) {
      const { store } = this;
      this.words = make('input', { type: 'search', placeholder: 'Search the texts' });
      this.words.setAttribute('aria-label', 'Search the texts');
      this.words.addEventListener('input', () => this.ask({ words: this.words.value }));
      const choice = (label, options, set) => {
        const select = make('select', {}, ...options.map(([value, name]) => make('option', { value, textContent: name })));
        select.setAttribute('aria-label', label);
        select.addEventListener('change', () => set(select.value));
        return select;
      };
      const rounds = [...new Set(store.round)].sort((a, b) => a - b);
      const bar = make('div', { className: 'bar-of-tools' }, this.words,
        choice('Round', [['', 'all rounds'], ...rounds.map((r) => [r, store.names[r] || `round ${r}`])],
          (v) => this.ask({ round: v === '' ? '' : Number(v) })),
        choice('Use', [['', 'any use'], ['c', 'chosen'], ['r', 'rejected'], [' ', 'not used']], (v) => this.ask({ mark: v })));
      this.one = make('button', { type: 'button', className: 'button', hidden: true });
      this.one.addEventListener('click', () => this.ask({ prompt: -1 }));
      this.count = make('span', { className: 'count' });
      this.count.setAttribute('role', 'status');
      const save = make('button', { type: 'button', className: 'button', textContent: 'CSV', title: 'Save the samples found as CSV' });
      save.addEventListener('click', () => this.save());
      bar.append(this.one, this.count, save);

      this.heads = make('div', { className: 'row heads' });
      this.heads.setAttribute('role', 'row');
      for (const c of columns) {
        const button = make('button', { type: 'button', textContent: c.name });
        button.addEventListener('click', () => {
          const down = this.sort.key === c.key ? !this.sort.down : Boolean(c.down);
          this.sort = { key: c.key, down };
          this.update();
        });
        const cell = make('div', {}, button);
        cell.setAttribute('role', 'columnheader');
        this.heads.append(cell);
      }
      this.space = make('div', { className: 'space' });
      this.space.setAttribute('role', 'presentation');
      this.list = make('div', { className: 'list', tabIndex: -1 }, this.space);
      this.list.setAttribute('role', 'rowgroup');
      this.list.addEventListener('scroll', () => this.draw(), { passive: true });
      this.space.addEventListener('click', (e) => {
        const row = e.target.closest('.row');
        if (row) this.select(Number(row.dataset.at));
      });
      new ResizeObserver(() => this.draw()).observe(this.list);
      this.grid = make('div', { className: 'samples-grid', tabIndex: 0 }, this.heads, this.list);
      this.grid.addEventListener('keydown', (e) => { if (e.target.tagName !== 'BUTTON') this.key(e); });
      this.grid.setAttribute('role', 'grid');
      this.grid.setAttribute('aria-label', 'Samples; arrow keys choose one, Enter shows its prompt alone');
      this.pane = make('div', { className: 'pane' });
      this.pane.setAttribute('aria-live', 'polite');
      box.replaceChildren(bar, this.grid, this.pane);
    }

    ask(change) {
      Object.assign(this.query, change);
      this.update();
    }

    update() {
      const begun = performance.now();
      this.found = this.store.find(this.query, this.sort.key, this.sort.down);
      this.selected = 0;
      this.list.scrollTop = 0;
      this.space.style.height = `${this.found.length * rowHeight}px`;
      this.grid.setAttribute('aria-rowcount', this.found.length + 1);
      columns.forEach((c, n) => this.heads.children[n].setAttribute('aria-sort',
        c.key !== this.sort.key ? 'none' : this.sort.down ? 'descending' : 'ascending'));
      this.count.textContent = `${count(this.found.length)} of ${count(this.store.size)}`;
      this.one.hidden = this.query.prompt < 0;
      this.one.textContent = `only prompt ${this.query.prompt + 1} ×`;
      this.draw();
      this.show();
      performance.measure('popri-search', { start: begun, end: performance.now() });
    }

    // draw puts the rows in sight into the document.
    draw() {
      const first = Math.max(0, Math.floor(this.list.scrollTop / rowHeight) - spare);
      const last = Math.min(this.found.length, Math.ceil((this.list.scrollTop + this.list.clientHeight) / rowHeight) + spare);
      const rows = [];
      for (let at = first; at < last; at++) rows.push(this.row(at));
      this.space.replaceChildren(...rows);
    }

    row(at) {
      const { store } = this, i = this.found[at];
      const row = make('div', { className: `row${at === this.selected ? ' selected' : ''}`, id: `sample-${at}` });
      row.setAttribute('role', 'row');
      row.setAttribute('aria-rowindex', at + 2);
      row.setAttribute('aria-selected', at === this.selected);
      row.dataset.at = at;
      row.style.top = `${at * rowHeight}px`;
      const texts = [store.score[i] === null ? '–' : figure(store.score[i]), store.rank[i] || '–', store.roundName(i),
        store.prompt[i] < 0 ? '–' : store.prompt[i] + 1, store.markName(i), store.text[i].slice(0, 400) || '(empty)'];
      texts.forEach((t, n) => {
        const cell = make('div', { textContent: t, className: columns[n].style || columns[n].key });
        cell.setAttribute('role', 'gridcell');
        if (n === 5) cell.dir = 'auto';
        if (n === 4 && t) cell.classList.add(t);
        row.append(cell);
      });
      return row;
    }

    key(e) {
      const page = Math.max(1, Math.floor(this.list.clientHeight / rowHeight) - 1);
      const to = { ArrowDown: this.selected + 1, ArrowUp: this.selected - 1, PageDown: this.selected + page,
        PageUp: this.selected - page, Home: 0, End: this.found.length - 1 }[e.key];
      if (e.key === 'Enter' && this.found.length) this.follow(this.found[this.selected]);
      if (to === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
      e.preventDefault();
      this.select(Math.min(this.found.length - 1, Math.max(0, to)));
    }

    select(at) {
      if (at < 0) return;
      this.selected = at;
      const top = at * rowHeight, { scrollTop, clientHeight } = this.list;
      if (top < scrollTop) this.list.scrollTop = top;
      else if (top + rowHeight > scrollTop + clientHeight) this.list.scrollTop = top + rowHeight - clientHeight;
      this.draw();
      this.show();
    }

    // follow shows all samples of the prompt of sample i.
    follow(i) {
      if (this.store.prompt[i] >= 0) this.ask({ prompt: this.store.prompt[i] });
    }

    // about is a text with what is known of it.
    about(i) {
      const { store } = this;
      const words = [`${/^\d+$/.test(store.roundName(i)) ? 'round ' : ''}${store.roundName(i)}`];
      if (store.score[i] !== null) words.push(`score ${figure(store.score[i])}`);
      if (store.rank[i]) words.push(`rank ${store.rank[i]}`);
      if (store.markName(i)) words.push(store.markName(i));
      const quote = make('blockquote', {}, make('span', { className: 'score', textContent: words.join(', ') }), store.text[i] || '(empty)');
      quote.dir = 'auto';
      return quote;
    }

    // show fills the pane with the chosen sample, its prompt, and what else was written for the same prompt.
    show() {
      const { store } = this, i = this.found[this.selected];
      this.grid.setAttribute('aria-activedescendant', this.found.length ? `sample-${this.selected}` : '');
      if (i === undefined) {
        this.pane.replaceChildren(make('p', { className: 'absent', textContent: 'No sample has all of this.' }));
        return;
      }
      const parts = [this.about(i)];
      const prompt = store.prompts[store.prompt[i]];
      if (prompt) {
        const text = make('pre', { textContent: prompt });
        text.dir = 'auto';
        parts.push(make('details', {}, make('summary', {}, make('span', { textContent: `Prompt ${store.prompt[i] + 1}` })), text));
      }
      const same = (store.byPrompt.get(store.prompt[i]) || []).slice()
        .sort((a, b) => store.round[a] - store.round[b] || store.rank[a] - store.rank[b]);
      const sets = [...new Set(same.map((k) => store.round[k]))];
      if (sets.length > 1) { // the same prompt at two times: before and after
        const [before, after] = [sets[0], sets[sets.length - 1]];
        const side = (set) => make('div', {}, make('h3', { textContent: store.names[set] || `Round ${set}` }),
          ...same.filter((k) => store.round[k] === set).slice(0, 12).map((k) => this.about(k)));
        parts.push(make('h3', { textContent: 'The same prompt, before and after' }),
          make('div', { className: 'sides' }, side(before), side(after)));
      } else if (same.length > 1) {
        const best = same.find((k) => store.rank[k] === 1), worst = same.findLast((k) => store.rank[k] > 1);
        const sides = [['Highest score of this prompt', best], ['Lowest score of this prompt', worst]]
          .filter(([, k]) => k !== undefined && k !== i)
          .map(([name, k]) => make('div', {}, make('h3', { textContent: name }), this.about(k)));
        parts.push(make('div', { className: 'sides' }, ...sides));
        const all = make('button', { type: 'button', className: 'button', textContent: `All ${same.length} samples of this prompt` });
        all.addEventListener('click', () => this.follow(i));
        parts.push(all);
      }
      this.pane.replaceChildren(...parts);
    }

    save() {
      const { store } = this;
      const rows = this.found.map((i) => [store.roundName(i), String(store.prompt[i] + 1 || ''), String(store.score[i] ?? ''),
        String(store.rank[i] || ''), store.markName(i), store.text[i], store.prompts[store.prompt[i]] || '']);
      rows.unshift(['round', 'prompt_number', 'score', 'rank', 'use', 'text', 'prompt']);
      popriSave.download('texts.csv', new Blob([popriSave.csv(rows)], { type: 'text/csv' }));
    }
  }

  // open unpacks the data once the section comes near the screen, so that the page's first view does not wait for it.
  return (box) => {
    const data = document.getElementById('texts-data');
    if (!data) return;
    if (typeof DecompressionStream === 'undefined') {
      box.textContent = 'The texts cannot be shown: this browser has no DecompressionStream.';
      return;
    }
    const watcher = new IntersectionObserver(async (entries) => {
      if (!entries.some((e) => e.isIntersecting)) return;
      watcher.disconnect();
      try {
        const begun = performance.now();
        new Browser(box, new Store(await unpack(data.textContent)));
        data.remove();
        performance.measure('popri-open', { start: begun, end: performance.now() });
      } catch (e) {
        box.textContent = `The texts cannot be read: ${e.message}`;
      }
    }, { rootMargin: '400px' });
    watcher.observe(box);
  };
})();
popriSave(document);
for (const box of document.querySelectorAll('.browser')) popriTexts(box);
