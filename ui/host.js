// What this host can enforce, as "brig doctor" says it.
import { get } from './api.js';
import { el, table } from './dom.js';

export async function showHost(main, page) {
  const report = await get('/host', { signal: page.signal });
  const version = await get('/health');
  main.append(el('h1', {}, 'Host'), el('p', { class: 'faint' }, `brig ${version.version || ''}`),
    el('div', { class: 'scroll' }, table(['', 'Feature', 'What is there', 'What it is for', 'Remedy'], (report.host || []).map((one) => el('tr', {},
      el('td', { class: one.ok ? 'good' : 'bad' }, one.ok ? 'yes' : 'no'), el('td', {}, one.title || one.name),
      el('td', { class: 'break' }, one.detail), el('td', {}, one.why), el('td', { class: 'break' }, one.remedy))))));
  if (report.differences?.length) {
    main.append(el('h2', {}, 'What is different here'), table(['Wall', 'Here', 'Remedy'], report.differences.map((one) => el('tr', {},
      el('td', {}, one.wall), el('td', { class: 'break' }, one.here), el('td', { class: 'break' }, one.remedy)))));
  }
}
