// Part of Bench: what the server says of itself, in the help dialog, for as long as it is open there.

const STATUS_MS = 2000;

class ServerStatus {
  listenServer() {
    const box = this.$('.ti-server');
    box.addEventListener('toggle', () => this.watchServer(box));
  }
  // Each time it comes into sight; the newest loop is the one that goes on.
  async watchServer(box) {
    const mine = (this.watching = (this.watching || 0) + 1);
    while (mine === this.watching && box.open && box.closest('dialog').open) {
      this.drawServer(await this.server.status());
      await new Promise((done) => setTimeout(done, STATUS_MS));
    }
  }
  drawServer(said) {
    const rows = said ? serverRows(said) : [], table = this.$('.ti-server tbody'), fault = this.$('.ti-server .ti-err');
    fault.hidden = Boolean(said && !said.error);
    fault.textContent = said ? said.error || '' : t('server_gone');
    table.replaceChildren(...rows.map(([name, text]) => { const row = el('tr'), head = el('th', '', t('server_' + name)); head.scope = 'row'; row.append(head, el('td', '', text)); return row; }));
  }
}
// What is said, in rows: [name, text].
const serverRows = ({ mode, isolation, limits, children, admission: calls, model }) => {
  const has = (yes, what) => t(yes ? 'server_yes' : 'server_no', { what: t('server_' + what) }), rows = [['mode', t('server_' + mode)]];
  if (isolation) rows.push(['isolation', [has(isolation.seccomp, 'seccomp'), has(isolation.landlock, 'landlock'), has(Object.values(isolation.rlimits).some((value) => value !== null), 'rlimits')].join(' \u00b7 ')]);
  if (isolation && isolation.notes.length) rows.push(['notes', isolation.notes.join(' \u00b7 ')]);
  rows.push(['limits', t('server_limits_are', { cpu: number(limits.cpu_s), wall: number(limits.wall_s), memory: number(limits.memory_mb), bytes: (calls.most_body_bytes / 1e6).toFixed(1) })]);
  if (isolation) rows.push(['children', t('server_children_are', { ...children, most: limits.children })]);
  rows.push(['calls', t('server_calls_are', { running: calls.running, places: calls.places, waiting: calls.waiting, most: calls.most_waiting, model: calls.running_model, model_places: calls.places_model })]);
  rows.push(['share', t('server_share_are', { running: calls.most_session_running, waiting: calls.most_session_waiting, address: calls.most_address_running })]);
  rows.push(['refused', t('server_refused_are', { admitted: number(calls.admitted), refused: number(calls.refused), unheard: number(calls.unheard) })]);
  rows.push(['model', t(model.running ? 'server_model_runs' : 'server_model_none', { starts: model.starts })], ['privacy', t('server_kept')]);
  return rows;
};
