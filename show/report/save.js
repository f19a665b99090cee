// Buttons that save figures as SVG and PNG, and tables as CSV and LaTeX; values of the points of figures.
'use strict';
// The value of a point is written below its figure while a pointer or the focus is on it. Arrows go from point to point.
(() => {
  const read = (e) => {
    const point = e.target.closest?.('.value');
    const line = point?.closest('figure')?.querySelector('.reading');
    if (line) line.textContent = point.getAttribute('aria-label');
  };
  document.addEventListener('pointerover', read);
  document.addEventListener('focusin', read);
  document.addEventListener('keydown', (e) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    const point = e.target.closest?.('.value');
    if (!step || !point) return;
    const all = [...point.parentNode.querySelectorAll('.value')];
    all[all.indexOf(point) + step]?.focus();
    e.preventDefault();
  });
})();

const popriSave = (() => {
  const element = (name, attributes, ...children) => {
    const e = document.createElement(name);
    Object.assign(e, attributes);
    e.append(...children);
    return e;
  };

  const download = (name, blob) => {
    const link = element('a', { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const words = (node) => node.textContent.replace(/\s+/g, ' ').trim();

  const fileName = (title) => {
    const slug = title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-+|-+$/g, '').slice(0, 60);
    return slug || 'popri';
  };

  // A saved figure has the colours of the light page, whatever the screen shows, because it goes to paper and slides.
  const lightColours = () => {
    for (const sheet of document.styleSheets) {
      for (const rule of sheet.cssRules) {
        if (rule.selectorText === ':root') return (name) => rule.style.getPropertyValue(name).trim();
      }
    }
    return () => '#000';
  };

  const namespace = 'http://www.w3.org/2000/svg';

  // svgOf is a figure as a file of its own: its title above and its legend below the drawing.
  const svgOf = (figure) => {
    const colour = lightColours();
    const drawing = figure.querySelector('svg');
    const [, , width, height] = drawing.getAttribute('viewBox').split(' ').map(Number);
    const legend = [...figure.querySelectorAll('.legend li')];
    const top = 20, bottom = legend.length ? 18 : 0;
    const make = (name, attributes, text) => {
      const e = document.createElementNS(namespace, name);
      for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
      if (text !== undefined) e.textContent = text;
      return e;
    };
    const full = height + top + bottom;
    const svg = make('svg', { xmlns: namespace, viewBox: `0 0 ${width} ${full}`, width: width * 2, height: full * 2,
      'font-family': 'Helvetica, Arial, sans-serif' });
    svg.append(make('rect', { width, height: full, fill: '#fff' }));
    svg.append(make('text', { x: 4, y: 14, 'font-size': 11, 'font-weight': 600, fill: colour('--ink') },
      words(figure.querySelector('figcaption strong'))));
    const inner = make('g', { transform: `translate(0 ${top})` });
    inner.append(...[...drawing.childNodes].filter((n) => !n.matches?.('.value')).map((n) => n.cloneNode(true)));
    svg.append(inner);
    let x = 4;
    for (const item of legend) {
      const key = item.querySelector('.key');
      const name = /var\((--[a-z0-9]+)\)/.exec(key.getAttribute('style'));
      const y = full - 7;
      svg.append(make('path', { d: `M${x} ${y - 3}h12`, 'stroke-width': 2, stroke: name ? colour(name[1]) : '#000',
        'stroke-dasharray': key.classList.contains('dashed') ? '4 3' : 'none' }));
      svg.append(make('text', { x: x + 16, y, 'font-size': 9, fill: colour('--muted') }, words(item)));
      x += 26 + words(item).length * 5;
    }
    return new XMLSerializer().serializeToString(svg).replace(/var\((--[a-z0-9]+)\)/g, (_, name) => colour(name));
  };

  const saveSVG = (figure, name) => download(name + '.svg', new Blob([svgOf(figure)], { type: 'image/svg+xml' }));

  const savePNG = async (figure, name) => {
    const image = new Image();
    image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(svgOf(figure));
    await image.decode();
    const canvas = element('canvas', { width: image.width * 2, height: image.height * 2 });
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => download(name + '.png', blob), 'image/png');
  };

  // cells are a table's rows; what stands small below a figure follows it in brackets.
  const cells = (table) => [...table.rows].map((row) => [...row.cells].filter((c) => !c.matches('.track, .bar')).map((c) => {
    const small = c.querySelector('small');
    const copy = c.cloneNode(true);
    copy.querySelectorAll('small').forEach((s) => s.remove());
    const text = words(copy) || (c.querySelector('span') ? words(c) : '');
    return { text: small ? `${text} (${words(small)})` : text, number: c.classList.contains('n'), bold: row.classList.contains('main') };
  }));

  // A number in a file has no spaces between its digits and an ordinary minus. A text that a spreadsheet would take for a
  // formula gets an apostrophe.
  const csvCell = (text) => {
    let t = text;
    if (/^[−+-]?[\d\s\u202f.]+(\s?%)?$/.test(t)) t = t.replace(/[\s\u202f]/g, '').replace('−', '-');
    else if (/^[=+@\t-]/.test(t)) t = "'" + t;
    return /[",\n\r]/.test(t) ? `"${t.replace(/"/g, '""')}"` : t;
  };
  const csv = (rows) => '\ufeff' + rows.map((r) => r.map(csvCell).join(',')).join('\r\n') + '\r\n';

  const symbols = { '\\': '\\textbackslash{}', '{': '\\{', '}': '\\}', '%': '\\%', '&': '\\&', '#': '\\#', $: '\\$', _: '\\_',
    '^': '\\textasciicircum{}', '~': '\\textasciitilde{}', ε: '$\\varepsilon$', δ: '$\\delta$', σ: '$\\sigma$', '∞': '$\\infty$',
    '−': '$-$', '±': '$\\pm$', '×': '$\\times$', '·': '$\\cdot$', '–': '--', '\u202f': '\\,', '\u2009': '\\,', '…': '\\dots{}' };
  const powers = { '⁻': '-', '⁰': 0, '¹': 1, '²': 2, '³': 3, '⁴': 4, '⁵': 5, '⁶': 6, '⁷': 7, '⁸': 8, '⁹': 9 };
  const tex = (text) => text.replace(/[⁻⁰¹²³⁴-⁹]+/g, (p) => `\u0001${[...p].map((c) => powers[c]).join('')}\u0002`)
    .replace(/[\\{}%&#$_^~εδσ∞−±×·–\u202f\u2009…]/g, (c) => symbols[c])
    .replace(/\u0001([-\d]+)\u0002/g, '$^{$1}$');
  const latex = (rows, title) => {
    const spec = rows[rows.length - 1].map((c) => (c.number ? 'r' : 'l')).join('');
    const line = (r) => '  ' + r.map((c) => (c.bold ? `\\textbf{${tex(c.text)}}` : tex(c.text))).join(' & ') + ' \\\\';
    return [`% ${title}; needs \\usepackage{booktabs}`, `\\begin{tabular}{${spec}}`, '  \\toprule', line(rows[0]), '  \\midrule',
      ...rows.slice(1).map(line), '  \\bottomrule', '\\end{tabular}', ''].join('\n');
  };

  const tools = (title, kinds) => {
    const bar = element('span', { className: 'tools' });
    for (const [label, action] of kinds) {
      const button = element('button', { type: 'button', textContent: label, title: `Save “${title}” as ${label}` });
      button.setAttribute('aria-label', button.title);
      button.addEventListener('click', () => action(fileName(title)));
      bar.append(button);
    }
    return bar;
  };

  const titleOf = (table) => {
    const near = table.closest('.runs-of, details, section');
    const title = near && near.querySelector('h3, summary code, h2');
    for (let e = table.closest('.scroll'); e; e = e.previousElementSibling) {
      if (/^H[23]$/.test(e.tagName)) return words(e);
    }
    return title ? words(title) : document.title;
  };

  // add puts the buttons beside all figures and tables below root that have none yet.
  const add = (root) => {
    for (const figure of root.querySelectorAll('figure.plot')) {
      if (figure.querySelector('.tools')) continue;
      const title = words(figure.querySelector('figcaption strong'));
      figure.append(tools(title, [['SVG', (n) => saveSVG(figure, n)], ['PNG', (n) => savePNG(figure, n)]]));
    }
    for (const table of root.querySelectorAll('table')) {
      const box = table.closest('.scroll') || table;
      if (box.nextElementSibling?.matches('.tools')) continue;
      const title = titleOf(table);
      box.after(tools(title, [
        ['CSV', (n) => download(n + '.csv', new Blob([csv(cells(table).map((r) => r.map((c) => c.text)))], { type: 'text/csv' }))],
        ['LaTeX', (n) => download(n + '.tex', new Blob([latex(cells(table), title)], { type: 'text/plain' }))]]));
    }
  };
  return Object.assign(add, { csv, latex, svgOf, cells, download });
})();
