// How the page calls its server: one POST a call, its answer a JSON text. Who is told that the server is busy waits as long as
// it says and asks again by itself; the last refusal stands where the answer would. Nothing typed is touched.

const BUSY = 429, MOST_TRIES = 5, NEWEST_WINS = ['view', 'safe', 'findings'];

class Server {
  // said: (text) => tells the person what is waited for, '' when it is over.
  constructor(functions, session, mostBytes, said) {
    const root = new URL((window.gradio_config.root || '.').replace(/[/]*$/, '/'), location.href);
    Object.assign(this, { mostBytes, said, pauses: 0, line: '', newest: new Map(), held: new Set(), address: new URL('gradio_api/component_server', root).href });
    for (const name of functions) this[name] = (request) => this.call(name, request);
    addEventListener('pagehide', () => navigator.sendBeacon(this.address, bodyOf('page_closed', { session })));
  }
  // The answer; undefined where the server gave none.
  async call(name, request) {
    const body = bodyOf(name, request), lane = NEWEST_WINS.includes(name) ? name + request.panes[0].slot : '', mine = (this.newest.get(lane) || 0) + 1;
    if (lane) this.newest.set(lane, mine);
    for (let tries = 1; ; tries++) {
      const answer = await this.post(name, body);
      if (!answer || answer.status !== BUSY || tries === MOST_TRIES) return answer ? answer.text : undefined;
      await this.pause(answer.after * (0.75 + Math.random() / 2), lane);
      if (lane && mine !== this.newest.get(lane)) return 'null';
    }
  }
  // status/1; null where the server says nothing.
  async status() { try { return await (await fetch(new URL('../status', this.address))).json(); } catch (error) { return null; } }
  // `held`: the lanes whose call waits here.
  async pause(seconds, lane) {
    this.pauses += 1;
    if (lane) this.held.add(lane);
    this.line = t('server_busy', { s: Math.max(1, Math.round(seconds)) });
    this.said(this.line);
    await new Promise((done) => setTimeout(done, 1000 * seconds));
    this.pauses -= 1;
    this.held.delete(lane);
    if (!this.pauses) this.said('');
  }
  // What is too large is not sent: its size is, and the server says in that function's own way what the limit is.
  async post(name, body) {
    const headers = { 'Content-Type': 'application/json', 'X-Inspector-Function': name }, size = body.length * 3 > this.mostBytes ? new Blob([body]).size : 0, large = size > this.mostBytes;
    if (large) headers['X-Inspector-Size'] = String(size);
    try {
      const answer = await fetch(this.address, { method: 'POST', headers, body: large ? '' : body }), text = await answer.json();
      return typeof text === 'string' ? { status: answer.status, after: +(answer.headers.get('Retry-After') || 1), text } : null;
    } catch (error) { return null; }
  }
}
const bodyOf = (name, data) => JSON.stringify({ fn_name: name, data });
