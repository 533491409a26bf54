// Only differences: stretches of rows that are alike in every pane become one line, which can be opened. No DOM but that line.

const FOLD_AROUND = 1, FOLD_LEAST = 4;  // rows kept beside a difference; a shorter stretch is not worth a line

// [first, after last] of every stretch that is folded. Nothing is folded while it is not known what is alike.
const foldsOf = (rows) => {
  if (rows.stale.some(Boolean)) return [];
  const folds = [];
  for (let k = 0; k < rows.n;) {
    if (rows.tag[k] !== SAME) { k++; continue; }
    let end = k;
    while (end < rows.n && rows.tag[end] === SAME) end++;
    const from = k ? k + FOLD_AROUND : k, to = end < rows.n ? end - FOLD_AROUND : end;
    if (to - from >= FOLD_LEAST) folds.push([from, to]);
    k = end;
  }
  return folds;
};
// A fold is known by the number of its first row in each pane: it stays open while what precedes it stays.
const foldKey = (rows, [from]) => rows.own.map((own) => own[from]).join();

// A model of the grid with the stretches folded but those in `opened`; `again()` draws it after one was opened.
const foldedModel = (model, rows, opened, again) => {
  const folds = foldsOf(rows).filter((fold) => !opened.has(foldKey(rows, fold))), shown = [], at = new Uint32Array(rows.n);
  for (let k = 0, f = 0; k < rows.n;) {
    const fold = folds[f] && folds[f][0] === k ? folds[f++] : null, end = fold ? fold[1] : k + 1;
    at.fill(shown.length, k, end);
    shown.push(fold || k);
    k = end;
  }
  const isFold = (d) => typeof shown[d] !== 'number', label = (d) => t('rows_alike', { n: number(shown[d][1] - shown[d][0]) });
  const open = (d) => { opened.add(foldKey(rows, shown[d])); again(); };
  const paintFold = (d, host) => {
    const cell = el('span', 'ti-foldcell'), node = el('button', 'ti-unfold', '\u2026 ' + label(d));
    node.type = 'button'; node.title = t('open_rows');
    node.addEventListener('click', (event) => { event.stopPropagation(); open(d); });
    node.addEventListener('keydown', (event) => { if (event.key === 'Enter' || event.key === ' ') event.stopPropagation(); });
    cell.append(node);
    host.appendChild(gridCell(cell));
  };
  return {
    ...model, rows: shown.length,
    lines: (q, d) => (isFold(d) ? (q ? 0 : 1) : model.lines(q, shown[d])),
    gutter: (q, d, j) => (isFold(d) ? '' : model.gutter(q, shown[d], j)),
    rowClass: (d) => (isFold(d) ? 'ti-fold' : model.rowClass(shown[d])),
    cellClass: (q, d) => (isFold(d) ? '' : model.cellClass(q, shown[d])),
    paint: (q, d, j, host) => { if (isFold(d)) paintFold(d, host); else model.paint(q, shown[d], j, host); },
    ...(model.look ? { look: (q, d, j) => (isFold(d) ? foldKey(rows, shown[d]) + label(d) : model.look(q, shown[d], j)) } : {}),
    place: (q, i) => { const [k, j] = model.place(q, i), d = at[k]; return [d, isFold(d) ? 0 : j]; },
    // Open the fold that hides a token; whether there was one.
    unfold: (q, i) => { const d = at[rows.ofToken(q, i)]; if (!isFold(d)) return false; opened.add(foldKey(rows, shown[d])); return true; },
  };
};
