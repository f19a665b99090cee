// The live page: it shows each section that arrives. All that comes from the run is set as text; only drawings, which the
// server made, are set as HTML.
(() => {
  const $ = (id) => document.getElementById(id);
  const make = (name, text, className) => {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  };
  const say = (id, text) => { if ($(id).textContent !== text) $(id).textContent = text; };

  // The token came in the address's fragment, which browsers send to nobody. It is taken out of the address bar.
  const token = new URLSearchParams(location.hash.slice(1)).get('token') || sessionStorage.getItem('token') || '';
  if (token) sessionStorage.setItem('token', token);
  if (location.hash) history.replaceState(null, '', location.pathname);

  let head = null, stage = null, base = null; // base: where the rate of a stage is counted from

  const duration = (seconds) => {
    const s = Math.max(0, Math.round(seconds));
    if (s < 90) return `${s} s`;
    if (s < 5400) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, '0')} s`;
    return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, '0')} min`;
  };

  // tick shows what changes with the clock alone.
  const tick = () => {
    if (!head) return;
    const now = Date.now();
    const live = head.status === 'running';
    say('seen', head.last ? `last event ${duration((now - head.last) / 1000)} ago` : '');
    $('bar').hidden = !(live && stage && stage.total > 0);
    if (!live || !stage || !stage.name) {
      say('stage', live ? 'between two stages' : head.status === 'complete' ? 'complete' : head.status === 'waiting' ? 'before the first stage' : 'no stage is under way');
      say('pace', '');
      return;
    }
    say('stage', stage.round ? `Round ${stage.round}: ${stage.name}` : stage.name);
    const parts = [`${duration((now - stage.begun) / 1000)} so far`];
    if (stage.total > 0) {
      $('bar').max = stage.total;
      $('bar').value = stage.done;
      parts.unshift(`${stage.done} of ${stage.total}`);
    }
    // The first update is where counting begins: loading before it says nothing of the rest.
    const key = `${stage.round} ${stage.name} ${stage.begun}`;
    if (stage.done > 0 && (!base || base.key !== key)) base = { key, done: stage.done, seen: stage.seen };
    const spent = base && base.key === key ? (stage.seen - base.seen) / 1000 : 0;
    if (spent >= 2 && stage.done > base.done) {
      const rate = (stage.done - base.done) / spent;
      parts.push(rate >= 1 ? `${rate.toFixed(1)} a second` : `${(1 / rate).toFixed(1)} s each`);
      const left = (stage.total - stage.done) / rate - (now - stage.seen) / 1000;
      if (stage.total > stage.done) parts.push(`about ${duration(left)} left`);
    }
    say('pace', parts.join(' · '));
  };

  const table = (id, caption, { head: names, rows }) => {
    const box = $(id);
    box.replaceChildren();
    if (!rows || !rows.length) return;
    const t = make('table');
    t.createCaption().textContent = caption;
    const cell = (tag, text, i, scope) => {
      const c = make(tag, text, i || names[0] === 'Round' ? 'n' : '');
      if (scope) c.scope = scope;
      return c;
    };
    const top = t.createTHead().insertRow();
    names.forEach((n, i) => top.append(cell('th', n, i, 'col')));
    const body = t.createTBody();
    for (const row of rows) {
      const r = body.insertRow();
      row.forEach((text, i) => r.append(i ? cell('td', text, i) : cell('th', text, i, 'row')));
    }
    const scroll = make('div', undefined, 'scroll');
    scroll.append(t);
    box.append(scroll);
    popriSave(box);
  };

  // drawings replaces pictures only if they differ, so that a picture that stays does not flicker.
  const drawings = (id) => ({ html }) => {
    const fresh = make('template');
    fresh.innerHTML = html;
    const list = [...fresh.content.children], box = $(id);
    list.forEach((figure, i) => {
      const old = box.children[i];
      if (old && old.dataset.drawn === figure.outerHTML) return;
      figure.dataset.drawn = figure.outerHTML;
      // The point that has the focus keeps it.
      const focused = old ? [...old.querySelectorAll('.value')].indexOf(document.activeElement) : -1;
      if (old) old.replaceWith(figure); else box.append(figure);
      if (focused >= 0) figure.querySelectorAll('.value')[focused]?.focus();
    });
    while (box.children.length > list.length) box.lastElementChild.remove();
    popriSave(box);
  };

  const texts = (list, title, note) => {
    const box = make('div');
    box.append(make('h3', title));
    for (const t of list || []) {
      const quote = make('blockquote');
      quote.dir = 'auto';
      if (t.score !== null) {
        const mark = t.mark ? `, ${t.mark}` : '';
        quote.append(make('span', `score ${t.score.toFixed(4).replace('-', '−')}${t.rank ? `, rank ${t.rank}` : ''}${mark}`, 'score'));
      }
      quote.append(t.text || '(empty)');
      box.append(quote);
    }
    if (note) box.append(make('p', note, 'note'));
    return box;
  };

  const show = {
    problem(text) {
      $('problem').hidden = !text;
      $('problem').lastElementChild.textContent = text;
    },
    head(h) {
      head = h;
      say('title', h.title || 'Loading the run…');
      $('report').hidden = !h.report;
      say('report', h.status === 'running' ? 'The report as it was last written' : 'The report of this run');
      document.title = `${h.status === 'running' ? '▶ ' : ''}${h.done}/${h.planned} · ${h.title || 'popri watch'}`;
      say('subtitle', h.subtitle);
      say('status', h.status);
      $('status').className = `status ${h.status}`;
      say('note', h.note);
      say('rounds', h.planned ? `${h.done} of ${h.planned} complete` : 'not known yet');
      $('stop').hidden = !(h.may_stop && token);
      $('stop').disabled = !h.can_stop && !h.requested;
      say('stop', h.requested ? 'Withdraw the stop' : 'Stop after this round');
      say('asked', h.requested ? 'The run was asked to stop after this round. Until the round ends, the request can be withdrawn.' : '');
      tick();
    },
    stage(s) { stage = s; tick(); },
    privacy(p) {
      if (p.problem) { show.problem(p.problem); return; }
      say('epsilon', p.share || 'not known yet');
      $('gauge').hidden = !p.epsilon;
      if (!p.epsilon) return;
      $('gauge').max = p.epsilon;
      $('gauge').value = p.spent;
      say('guarantee', p.words);
      $('warnings').replaceChildren(...(p.warnings || []).map((w) => {
        const box = make('p', undefined, 'warning');
        box.append(make('b', 'Mind'), make('span', w));
        return box;
      }));
    },
    charts(c) {
      $('no-rounds').hidden = !!c.html;
      drawings('charts')(c);
    },
    steps: drawings('steps'),
    table: (t) => table('table', 'Figures of each round', t),
    times(t) {
      $('no-times').hidden = !!(t.rows && t.rows.length);
      table('times', 'Time and memory of each stage, all rounds together', t);
    },
    texts(t) {
      say('of', t.problem ? `The texts cannot be read: ${t.problem}` : !t.round ? 'No texts are there yet.'
        : `Round ${t.round}, ${t.samples} samples${t.scored ? '' : ', which are not scored yet'}.`);
      $('texts').replaceChildren(...(t.scored
        ? [texts(t.best, 'Highest scores'), texts(t.worst, 'Lowest scores')] : t.round ? [texts(t.best, 'The first ones')] : []));
    },
  };

  const source = new EventSource('/events');
  for (const [name, draw] of Object.entries(show)) {
    source.addEventListener(name, (e) => draw(JSON.parse(e.data)));
  }
  source.onopen = () => say('link', '');
  source.onerror = () => say('link', head ? `the page's server has ended; this starts another: ${head.again}` : 'popri watch does not answer; trying again');
  setInterval(tick, 1000);

  $('stop').addEventListener('click', async () => {
    const withdraw = head && head.requested;
    if (!withdraw && !confirm('Stop the run after this round? popri run --resume goes on with it.')) return;
    const answer = await fetch('/stop', { method: withdraw ? 'DELETE' : 'POST', headers: { 'X-Popri-Token': token } });
    if (!answer.ok) say('asked', await answer.text());
  });
})();
