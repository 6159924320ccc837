// The daemon's own API, with the key that the person gave. It stays in this tab.

const place = 'brig-key';

export const key = {
  get: () => sessionStorage.getItem(place) || '',
  set: (value) => sessionStorage.setItem(place, value),
  forget: () => sessionStorage.removeItem(place),
};

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

function headers(more) {
  return key.get() ? { 'X-API-Key': key.get(), ...more } : { ...more };
}

export async function call(method, path, { body, signal, accept } = {}) {
  const answer = await fetch('/v1' + path, {
    method, signal, credentials: 'omit', cache: 'no-store',
    headers: headers({ ...(body ? { 'Content-Type': 'application/json' } : {}), ...(accept ? { Accept: accept } : {}) }),
    body: body ? JSON.stringify(body) : undefined,
  });
  if (!answer.ok) {
    let message = `${answer.status} ${answer.statusText}`;
    try { message = (await answer.json()).message || message; } catch { /* not ours: the status says it */ }
    throw new Refused(answer.status, message);
  }
  return answer;
}

export async function get(path, options) {
  return (await call('GET', path, options)).json();
}

// Server-sent events by fetch: an EventSource cannot bear a key.
export async function stream(path, onEvent, signal) {
  const answer = await call('GET', path, { accept: 'text/event-stream', signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const data = block.split('\n').filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart()).join('\n');
      if (data) onEvent(JSON.parse(data));
    }
  }
}

export function terminalSocket(id, rows, columns) {
  const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
  const protocols = ['brig.terminal', ...(key.get() ? [`brig.key.${key.get()}`] : [])];
  const socket = new WebSocket(`${scheme}://${location.host}/v1/sandboxes/${id}/terminal?rows=${rows}&columns=${columns}`, protocols);
  socket.binaryType = 'arraybuffer';
  return socket;
}
