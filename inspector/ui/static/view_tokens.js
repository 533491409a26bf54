// The token flow of all panes, its colours and its legend.

const LEGEND_FLAGS = [['special', ''], ['added', ''], ['inserted', '\u2295'], ['from_content', '\u26a0'], ['look_alike', '']];
const originLegend = (item) => { for (const kind of Object.values(KINDS)) item('ti-seg o-' + kind, t('kind_' + kind)); };
const tokenLegend = ({ state }, item, node) => {
  if (state.colour === 'origin') originLegend(item);
  if (state.colour === 'surprise') surpriseLegend(item);
  if (state.colour === 'id' || state.colour === 'turn') item('ti-dim', t('legend_' + state.colour));
  if (state.colour === 'alternate') { item('ti-tok k0', t('legend_token')); item('ti-tok k1', t('legend_token')); }
  for (const [flag, mark] of LEGEND_FLAGS) item('ti-tok k0 f-' + flag + (flag === 'from_content' ? ' f-special' : ''), mark + t('flag_' + flag));
  const group = el('span', 'ti-group k0');
  group.append(el('span', '', '\u00e9'), el('span', 'ti-part', '1'), el('span', 'ti-part', '2'));
  node.append(group, el('span', 'ti-dim', t('legend_group')));
};

VIEW_MODELS.tokens = {
  flow: true, gutter: 54, steps: true, colours: ['alternate', 'id', 'origin', 'turn', 'trained', 'surprise'], legend: tokenLegend,
  model: (state, cols) => { if (state.colour === 'surprise') placeHeat(state); return tokensModel(state, cols, state.colour); },
  switches: (bench, host) => {
    host.append(bench.check('show_ids', FLOW.ids, (on) => { FLOW.ids = on; bench.draw(true); }));
    if (bench.state.colour === 'surprise') surpriseSwitch(bench, host);
  },
  arrived: (bench) => { if (bench.state.colour === 'surprise') bench.drawTools(); },
  copies: { key: 'copy_ids', text: (bench, q) => JSON.stringify(Array.from(bench.state.panes[q].ids)) },
};
