// All sandboxes of this key's tenant, with live state, usage and the time that is left.
import { call, get } from './api.js';
import { say } from './app.js';
import { bytes, el, left, table } from './dom.js';

function meter(used, limit) {
  if (!limit) return el('span', {}, bytes(used));
  const part = Math.min(100, Math.round(used / limit * 100));
  const fill = el('span');
  fill.style.width = `${part}%`;
  return el('span', { title: `${part} %` }, `${bytes(used)} `, el('span', { class: 'meter', role: 'img', 'aria-label': `${part} % of ${bytes(limit)}` }, fill));
}

async function act(button, method, path, body) {
  button.disabled = true;
  try {
    await call(method, path, { body });
    say('');
  } catch (error) {
    say(error.message, true);
  }
  button.disabled = false;
}

function row(one, refresh) {
  const isPaused = one.state === 'paused';
  const button = (text, method, path, more = {}) => el('button', {
    ...more,
    'aria-label': `${text} ${one.id}`,
    onclick: async (event) => { await act(event.target, method, path, method === 'POST' ? {} : undefined); refresh(); },
  }, text);
  const usage = one.usage || {};
  return el('tr', { 'data-id': one.id },
    el('td', {}, el('a', { class: 'mono', href: `#/sandbox/${one.id}` }, one.id)),
    el('td', { class: one.state }, one.state),
    el('td', {}, one.template),
    el('td', { class: 'number' }, one.usage ? meter(usage.memory, usage.memory_limit) : '-'),
    el('td', { class: 'number' }, one.usage ? `${(usage.cpu_ms / 1000).toFixed(2)} s` : '-'),
    el('td', { class: 'number' }, one.usage ? String(usage.processes) : '-'),
    el('td', { class: 'number' }, left(one.ends)),
    el('td', {}, ...Object.entries(one.metadata).map(([name, value]) => el('div', { class: 'faint break' }, `${name}: ${value}`))),
    el('td', {}, button(isPaused ? 'Resume' : 'Pause', 'POST', `/sandboxes/${one.id}/${isPaused ? 'resume' : 'pause'}`), ' ',
      button('Kill', 'DELETE', `/sandboxes/${one.id}`, { class: 'danger' })));
}

export async function showSandboxes(main, page) {
  const place = el('div', { class: 'scroll' });
  const count = el('span', { class: 'wide faint', role: 'status' });
  const refresh = async () => {
    try {
      const list = (await get('/sandboxes?usage=true&limit=100', { signal: page.signal })).sandboxes;
      if (page.isOver) return;
      count.textContent = list.length === 1 ? '1 sandbox' : `${list.length} sandboxes`;
      const focused = document.activeElement?.getAttribute('aria-label') || document.activeElement?.textContent;
      const had = place.contains(document.activeElement);
      place.replaceChildren(list.length
        ? table(['Sandbox', 'State', 'Template', '#Memory', '#CPU', '#Processes', '#Time left', 'Metadata', ''], list.map((one) => row(one, refresh)))
        : el('p', { class: 'faint' }, 'None lives. "New sandbox" makes one; so do Sandbox.create() and curl.'));
      // The row is another one now: who was in it with the keyboard stays there.
      if (had) [...place.querySelectorAll('a, button')].find((node) => (node.getAttribute('aria-label') || node.textContent) === focused)?.focus();
    } catch (error) {
      if (!page.isOver) say(error.message, true);
    }
  };
  main.append(el('h1', {}, 'Sandboxes'),
    el('div', { class: 'bar' }, count,
      el('button', { id: 'new', onclick: async (event) => { await act(event.target, 'POST', '/sandboxes', {}); refresh(); } }, 'New sandbox')),
    place);
  page.every(2000, refresh);
}
