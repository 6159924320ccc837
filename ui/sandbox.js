// One sandbox: its events as they come, processes, files, a terminal, its policy and what really holds it.
import { call, get, stream } from './api.js';
import { say } from './app.js';
import { bytes, clock, el, left, table } from './dom.js';
import { showTerminal } from './terminal.js';

const EVENTS_SHOWN = 1000;

async function showEvents(place, page, id) {
  const kind = el('select', { id: 'kind', 'aria-label': 'Kind' }, ...['all kinds', 'sandbox', 'exec', 'file', 'net', 'dns', 'syscall', 'limit', 'output'].map((name) => el('option', { value: name.includes(' ') ? '' : name }, name)));
  const verdict = el('select', { id: 'verdict', 'aria-label': 'Verdict' }, ...['all verdicts', 'allow', 'deny'].map((name) => el('option', { value: name.includes(' ') ? '' : name }, name)));
  const body = el('tbody');
  const count = el('span', { class: 'faint' });
  const shown = (event) => (!kind.value || event.kind === kind.value) && (!verdict.value || event.verdict === verdict.value);
  const all = [];
  const row = (event) => el('tr', { 'data-seq': event.seq },
    el('td', { class: 'mono faint' }, clock(event.time)),
    el('td', {}, event.kind),
    el('td', {}, event.action || ''),
    el('td', { class: event.verdict }, event.verdict || ''),
    el('td', { class: 'mono break' }, event.object ?? event.object_base64 ?? ''),
    el('td', { class: 'break' }, [event.rule, event.reason, event.allow_with].filter(Boolean).join(' · ')));
  const redraw = () => {
    body.replaceChildren(...all.filter(shown).map(row));
    count.textContent = `${body.childElementCount} of ${all.length}`;
  };
  kind.onchange = redraw;
  verdict.onchange = redraw;
  place.append(el('div', { class: 'bar' }, kind, verdict, count),
    el('div', { class: 'rows', tabindex: '0', 'aria-label': 'Events', role: 'region' }, el('table', {},
      el('thead', {}, el('tr', {}, ...['Time', 'Kind', 'Action', 'Verdict', 'What', 'Rule, and what would allow it'].map((head) => el('th', { scope: 'col' }, head)))), body)));
  // The newest first: it is what somebody waits for.
  await stream(`/sandboxes/${id}/events`, (event) => {
    all.unshift(event);
    if (all.length > EVENTS_SHOWN) all.pop();
    if (shown(event)) body.prepend(row(event));
    while (body.childElementCount > EVENTS_SHOWN) body.lastChild.remove();
    count.textContent = `${body.childElementCount} of ${all.length}`;
  }, page.signal);
}

async function showProcesses(place, page, id) {
  await page.every(2000, async () => {
    const list = (await get(`/sandboxes/${id}/processes`, { signal: page.signal })).processes;
    const known = new Set(list.map((one) => one.pid));
    const rows = [];
    const add = (parent, depth) => {
      for (const one of list.filter((other) => parent === null ? !known.has(other.parent) : other.parent === parent)) {
        rows.push(el('tr', {}, el('td', { class: 'number mono' }, String(one.pid)),
          el('td', { class: 'mono break' }, ' '.repeat(depth * 2) + one.command.join(' ')),
          el('td', {}, one.state), el('td', { class: 'number' }, bytes(one.memory)), el('td', { class: 'number' }, `${(one.cpu_ms / 1000).toFixed(2)} s`)));
        if (depth < 40) add(one.pid, depth + 1);
      }
    };
    add(null, 0);
    place.replaceChildren(rows.length ? table(['#Pid', 'Command', 'State', '#Memory', '#CPU'], rows) : el('p', { class: 'faint' }, 'Nothing runs.'));
  });
}

async function showFiles(place, page, id) {
  const path = el('input', { id: 'path', class: 'wide mono', value: '/home/user', 'aria-label': 'Folder' });
  const list = el('div', { class: 'scroll' });
  const join = (name) => (path.value.endsWith('/') ? path.value : `${path.value}/`) + name;
  const download = async (file) => {
    const blob = await (await call('GET', `/sandboxes/${id}/files?path=${encodeURIComponent(file)}`, { signal: page.signal })).blob();
    const link = el('a', { href: URL.createObjectURL(blob), download: file.split('/').pop() });
    link.click();
    URL.revokeObjectURL(link.href);
  };
  const guarded = (action) => async (event) => {
    event?.preventDefault();
    try { say(''); await action(event); } catch (error) { if (!page.isOver) say(error.message, true); }
  };
  const open = guarded(async () => {
    const folder = await get(`/sandboxes/${id}/files?path=${encodeURIComponent(path.value)}`, { signal: page.signal });
    if (!folder.entries) { say('this is no folder', true); return; }
    const rows = folder.entries.map((entry) => el('tr', {},
      el('td', { class: 'mono faint' }, entry.mode),
      el('td', { class: 'break' }, el('button', {
        class: 'mono',
        onclick: guarded(async () => {
          if (entry.kind === 'directory') { path.value = join(entry.path); await open(); } else if (entry.kind === 'file') await download(join(entry.path));
        }),
      }, entry.path + (entry.kind === 'directory' ? '/' : '')), entry.target ? ` → ${entry.target}` : ''),
      el('td', { class: 'number' }, entry.kind === 'file' ? bytes(entry.size) : entry.kind),
      el('td', { class: 'faint' }, entry.modified ? new Date(entry.modified).toLocaleString() : '')));
    list.replaceChildren(rows.length ? table(['Mode', 'Name', '#Size', 'Changed'], rows) : el('p', { class: 'faint' }, 'It is empty.'),
      folder.truncated ? el('p', { class: 'faint' }, 'There is more than is shown.') : '');
  });
  place.append(el('form', { class: 'bar', onsubmit: open }, path, el('button', {}, 'Open'),
    el('button', { type: 'button', onclick: guarded(async () => { path.value = path.value.replace(/\/+[^/]*\/*$/, '') || '/'; await open(); }) }, 'Up')), list);
  await open();
}

async function showReport(place, page, id) {
  const report = await get(`/sandboxes/${id}/report`, { signal: page.signal });
  place.append(el('h2', {}, 'What really holds it'),
    el('div', { class: 'scroll' }, table(['Wall', 'Mechanism', 'What it does'], report.enforcement.map((wall) => el('tr', {},
      el('td', {}, wall.name), el('td', {}, wall.mechanism), el('td', { class: 'break' }, wall.value))))),
    el('h2', {}, 'Policy'), el('pre', {}, JSON.stringify(report.policy, null, 2)));
}

const tabs = [
  ['events', 'Events', showEvents], ['processes', 'Processes', showProcesses], ['files', 'Files', showFiles],
  ['terminal', 'Terminal', showTerminal], ['report', 'Policy and walls', showReport],
];

export async function showSandbox(main, page, id, wanted = 'events') {
  const [name, , action] = tabs.find(([other]) => other === wanted) || tabs[0];
  const facts = el('dl');
  const place = el('section', { id: 'panel', role: 'tabpanel', 'aria-label': name });
  const list = el('div', { role: 'tablist', 'aria-label': 'Parts' }, ...tabs.map(([other, title]) => el('button', {
    role: 'tab', id: `tab-${other}`, 'aria-selected': String(other === name), 'aria-controls': 'panel', tabindex: other === name ? '0' : '-1',
    onclick: () => { location.hash = `#/sandbox/${id}/${other}`; },
  }, title)));
  list.addEventListener('keydown', (event) => {
    const at = tabs.findIndex(([other]) => other === name);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    location.hash = `#/sandbox/${id}/${tabs[(to + tabs.length) % tabs.length][0]}`;
  });
  main.append(el('h1', {}, 'Sandbox ', el('span', { class: 'mono' }, id)), facts, list, place);
  page.every(2000, async () => {
    try {
      const one = await get(`/sandboxes/${id}`, { signal: page.signal });
      const usage = one.usage || {};
      facts.replaceChildren(...Object.entries({
        State: one.state, Template: one.template, 'Time left': left(one.ends),
        Memory: one.usage ? `${bytes(usage.memory)} now${usage.memory_peak ? `, ${bytes(usage.memory_peak)} at most` : ''}${usage.memory_limit ? `, of ${bytes(usage.memory_limit)}` : ''}` : '-',
        CPU: one.usage ? `${(usage.cpu_ms / 1000).toFixed(2)} s` : '-',
      }).flatMap(([term, value]) => [el('dt', {}, term), el('dd', { class: term === 'State' ? value : null }, value)]));
    } catch (error) {
      if (page.isOver) return;
      facts.replaceChildren(el('dt', {}, 'State'), el('dd', { class: 'bad' }, error.status === 404 ? 'it has ended' : error.message));
      if (error.status === 404) page.end();
    }
  });
  try {
    await action(place, page, id);
  } catch (error) {
    if (!page.isOver) place.append(el('p', { class: 'bad', role: 'alert' }, error.message));
  }
}
