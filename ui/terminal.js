// A shell in the sandbox. With xterm.js where it was there when brig was built, else plain: keys go, text comes.
import { terminalSocket } from './api.js';
import { el } from './dom.js';

const encoder = new TextEncoder();

async function full(place, page) {
  const { Terminal } = await import('./xterm.mjs');
  document.head.append(el('link', { rel: 'stylesheet', href: '/ui/xterm.css' }));
  const terminal = new Terminal({ cursorBlink: true, fontSize: 14, screenReaderMode: true });
  terminal.open(place);
  // As many cells as there is room for; a cell is as large as the renderer says.
  const fit = () => {
    const cell = terminal._core?._renderService?.dimensions?.css?.cell;
    const columns = Math.max(20, Math.floor((place.clientWidth - 24) / (cell?.width || 8.5)));
    const rows = Math.max(5, Math.floor((place.clientHeight - 12) / (cell?.height || 17)));
    terminal.resize(columns, rows);
  };
  fit();
  addEventListener('resize', fit, { signal: page.signal });
  page.signal.addEventListener('abort', () => terminal.dispose());
  return {
    rows: terminal.rows, columns: terminal.cols,
    write: (data) => terminal.write(data),
    onInput: (send) => { terminal.onData((text) => send(encoder.encode(text))); terminal.onBinary((text) => send(Uint8Array.from(text, (c) => c.charCodeAt(0)))); },
    onResize: (send) => terminal.onResize(({ rows, cols }) => send(rows, cols)),
    focus: () => terminal.focus(),
  };
}

const keys = { Enter: '\r', Backspace: '\x7f', Tab: '\t', Escape: '\x1b', ArrowUp: '\x1b[A', ArrowDown: '\x1b[B', ArrowRight: '\x1b[C', ArrowLeft: '\x1b[D', Delete: '\x1b[3~', Home: '\x1b[H', End: '\x1b[F' };

function plain(place) {
  const screen = el('pre', { class: 'plain', tabindex: '0', role: 'log', 'aria-label': 'Terminal' });
  const decoder = new TextDecoder();
  place.append(screen);
  return {
    rows: 24, columns: 80,
    write: (data) => {
      const text = typeof data === 'string' ? data : decoder.decode(data, { stream: true });
      screen.append(text.replace(/\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|.)/g, '').replace(/\r/g, ''));
      screen.scrollTop = screen.scrollHeight;
    },
    onInput: (send) => screen.addEventListener('keydown', (event) => {
      const text = event.ctrlKey && /^[a-z]$/i.test(event.key) ? String.fromCharCode(event.key.toUpperCase().charCodeAt(0) - 64)
        : keys[event.key] ?? (event.key.length === 1 && !event.ctrlKey && !event.metaKey ? event.key : null);
      if (text === null) return;
      event.preventDefault();
      send(encoder.encode(text));
    }),
    onResize: () => {},
    focus: () => screen.focus(),
  };
}

export async function showTerminal(place, page, id) {
  const frame = el('div', { class: 'terminal' });
  const status = el('p', { class: 'faint', role: 'status' }, 'Tab belongs to the shell here; Ctrl+Shift+F6 leaves it.');
  place.append(frame, status);
  frame.addEventListener('keydown', (event) => {
    if (event.key === 'F6' && event.ctrlKey && event.shiftKey) { event.preventDefault(); event.stopPropagation(); document.querySelector('[role=tab][aria-selected=true]').focus(); }
  }, { capture: true });
  let terminal;
  try {
    terminal = await full(frame, page);
  } catch {
    frame.replaceChildren();
    terminal = plain(frame);
    status.textContent += ' This brig was built without xterm.js: the terminal is plain.';
  }
  const socket = terminalSocket(id, terminal.rows, terminal.columns);
  const send = (data) => { if (socket.readyState === WebSocket.OPEN) socket.send(data); };
  let how = 'The connection has ended.';
  socket.onopen = () => terminal.focus();
  socket.onmessage = ({ data }) => {
    if (typeof data !== 'string') { terminal.write(new Uint8Array(data)); return; }
    const { exited } = JSON.parse(data);
    if (exited) how = exited.signal ? `The shell was ended by ${exited.signal}.` : `The shell has ended with ${exited.exit_code}.`;
  };
  socket.onclose = () => { if (!page.isOver) status.textContent = `${how} Open this tab again for another.`; };
  terminal.onInput(send);
  terminal.onResize((rows, columns) => send(JSON.stringify({ resize: { rows, columns } })));
  page.signal.addEventListener('abort', () => socket.close());
}
