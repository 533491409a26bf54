// One tab stop for a group of controls ([data-rove]): the arrows go from one to the next, Home and End to the ends. Lists and
// text inputs keep stops of their own, because the arrows are theirs. Which control is the stop is settled when Tab is pressed:
// groups are drawn anew all the time.

const ROVED = 'button, summary, input[type=checkbox]', NOT_ROVED = '.ti-menusheet, .ti-paneopts, .ti-revs, .ti-notes[open] p';
const rovedIn = (host) => Array.from(host.querySelectorAll(ROVED)).filter((node) => !node.closest(NOT_ROVED) && !node.disabled && node.getClientRects().length);
const settleStops = (root) => {
  for (const host of root.querySelectorAll('[data-rove]')) {
    const nodes = rovedIn(host), at = nodes.includes(host.roveAt) ? host.roveAt : nodes[0];
    for (const node of nodes) node.tabIndex = node === at ? 0 : -1;
  }
};
const listenRoving = (root) => {
  root.addEventListener('focusin', ({ target }) => { const host = target.closest('[data-rove]'); if (host && target.matches(ROVED)) host.roveAt = target; });
  document.addEventListener('keydown', (event) => { if (event.key === 'Tab') settleStops(root); }, true);
  root.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], end = { Home: 0, End: -1 }[event.key], host = event.target.closest('[data-rove]');
    if (!host || (step === undefined && end === undefined) || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || !event.target.matches(ROVED) || event.target.closest(NOT_ROVED)) return;
    const nodes = rovedIn(host), to = end === undefined ? nodes[(nodes.indexOf(event.target) + step + nodes.length) % nodes.length] : nodes.at(end);
    event.preventDefault(); event.stopPropagation();
    to.focus();
  });
};
