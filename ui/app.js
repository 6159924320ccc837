// Which page is shown: by what stands behind the # of the address.
import { call, key, Refused } from './api.js';
import { el, Page } from './dom.js';
import { showHost } from './host.js';
import { showSandbox } from './sandbox.js';
import { showSandboxes } from './sandboxes.js';

const main = document.getElementById('main');
const state = document.getElementById('state');
const leave = document.getElementById('leave');
let page = null;

export function say(text, isBad = false) {
  state.textContent = text;
  state.className = isBad ? 'bad' : '';
}

function askForKey(message) {
  const field = el('input', { id: 'key', type: 'password', autocomplete: 'off', spellcheck: 'false', required: true });
  main.replaceChildren(el('form', {
    class: 'key',
    onsubmit: (event) => {
      event.preventDefault();
      key.set(field.value.trim());
      show();
    },
  },
  el('h1', {}, 'A key, please'),
  el('label', { for: 'key' }, 'The one that "brig serve" printed at its first start, or another from "brig key create".'),
  field,
  el('button', {}, 'Enter'),
  message ? el('p', { class: 'bad', role: 'alert' }, message) : null));
  field.focus();
}

const routes = [
  [/^\/?$/, showSandboxes],
  [/^\/host$/, showHost],
  [/^\/sandbox\/([a-z0-9]+)(?:\/([a-z]+))?$/, showSandbox],
];

async function show() {
  const path = location.hash.slice(1) || '/';
  const route = routes.find(([pattern]) => pattern.test(path)) || routes[0];
  page?.end();
  page = new Page();
  const mine = page;
  leave.hidden = !key.get();
  for (const link of document.querySelectorAll('header nav a')) {
    if (link.getAttribute('href').slice(1) === path) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  say('');
  try {
    await call('GET', '/sandboxes?limit=1');
    if (mine.isOver) return;
    main.replaceChildren();
    await route[1](main, mine, ...(path.match(route[0]) || []).slice(1));
  } catch (error) {
    if (mine.isOver) return;
    if (error instanceof Refused && error.status === 401) {
      askForKey(key.get() ? error.message : '');
      key.forget();
      leave.hidden = true;
    } else {
      main.replaceChildren(el('p', { class: 'bad', role: 'alert' }, error.message));
    }
  }
}

leave.addEventListener('click', () => { key.forget(); show(); });
addEventListener('hashchange', () => { show().then(() => main.focus()); });
show();
