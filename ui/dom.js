// Nodes, figures and words. What comes from a sandbox goes in as text, never as HTML.

export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function table(heads, rows, attributes = {}) {
  return el('table', attributes,
    el('thead', {}, el('tr', {}, ...heads.map((head) => {
      const isNumber = head.startsWith('#');
      return el('th', { scope: 'col', class: isNumber ? 'number' : null }, isNumber ? head.slice(1) : head);
    }))),
    el('tbody', {}, ...rows));
}

export function bytes(value) {
  if (value === null || value === undefined) return '-';
  const units = ['B', 'K', 'M', 'G', 'T'];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit++; }
  return (unit === 0 ? value : value.toFixed(value < 10 ? 1 : 0)) + units[unit];
}

export function seconds(value) {
  if (value < 60) return `${Math.max(0, Math.round(value))} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.floor(value % 3600 / 60)} min`;
}

export function left(ends) {
  return ends ? seconds((Date.parse(ends) - Date.now()) / 1000) : 'no end';
}

export function clock(time) {
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? time : at.toLocaleTimeString([], { hour12: false }) + '.' + String(at.getMilliseconds()).padStart(3, '0');
}

// What goes on while a page is shown, and ends with it.
export class Page {
  constructor() { this.ends = new AbortController(); }
  get signal() { return this.ends.signal; }
  get isOver() { return this.ends.signal.aborted; }
  end() { this.ends.abort(); }
  async every(ms, action) {
    while (!this.isOver) {
      if (!document.hidden) await action();
      await new Promise((go) => {
        const timer = setTimeout(go, ms);
        this.signal.addEventListener('abort', () => { clearTimeout(timer); go(); }, { once: true });
      });
    }
  }
}
