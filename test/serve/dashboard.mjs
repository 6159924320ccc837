// The dashboard in a real browser. Says what it saw, a line of JSON each; the test judges.
//
//	node dashboard.mjs MODULES CHROMIUM URL KEY SANDBOX FOLDER
import { createRequire } from 'node:module';

const [modules, chromium, url, key, sandbox, folder] = process.argv.slice(2);
const { chromium: browserType } = createRequire(`${modules}/`)('playwright-core');
const say = (name, value) => console.log(JSON.stringify({ name, value }));

const browser = await browserType.launch({ executablePath: chromium, args: ['--no-sandbox'] });
const errors = [];

async function open(scheme) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width: 1200, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  page.on('console', (message) => { if (message.type() === 'error') errors.push(message.text()); });
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('request', (request) => { if (!request.url().startsWith(url) && !request.url().startsWith(url.replace('http', 'ws')) && !request.url().startsWith('blob:') && !request.url().startsWith('data:')) errors.push(`went to ${request.url()}`); });
  await page.goto(url);
  return page;
}

async function enter(page, text) {
  await page.fill('#key', text);
  await page.keyboard.press('Enter');
}

const page = await open('light');
await enter(page, 'e2b_wrong');
await page.waitForSelector('[role=alert]');
say('refused', await page.textContent('[role=alert]'));

await enter(page, key);
await page.waitForSelector(`tr[data-id="${sandbox}"]`);
say('row', await page.textContent(`tr[data-id="${sandbox}"]`));
await page.screenshot({ path: `${folder}/dashboard-sandboxes.png` });

// One more, by the button, seen without a reload.
const before = await page.locator('tr[data-id]').count();
await page.click('#new');
await page.waitForFunction((n) => document.querySelectorAll('tr[data-id]').length > n, before);
const made = (await page.locator('tr[data-id]').evaluateAll((rows) => rows.map((row) => row.dataset.id))).find((id) => id !== sandbox);
say('made', made);
await page.click(`[aria-label="Pause ${made}"]`);
await page.waitForSelector(`tr[data-id="${made}"] td.paused`);
await page.click(`[aria-label="Kill ${made}"]`);
await page.waitForFunction((id) => !document.querySelector(`tr[data-id="${id}"]`), made);
say('killed', made);

// With the keyboard alone: to the sandbox, along its parts.
await page.focus(`tr[data-id="${sandbox}"] a`);
await page.keyboard.press('Enter');
await page.waitForSelector('#tab-events[aria-selected=true]');
await page.waitForSelector('tr[data-seq]');
say('events', await page.locator('tr[data-seq]').count());
await page.selectOption('#verdict', 'deny');
await page.waitForFunction(() => [...document.querySelectorAll('tr[data-seq]')].every((row) => row.children[3].textContent === 'deny'));
say('denied', await page.locator('tr[data-seq]').allTextContents());
await page.screenshot({ path: `${folder}/dashboard-events.png` });
await page.focus('#tab-events');
await page.keyboard.press('ArrowRight');
await page.waitForSelector('#tab-processes[aria-selected=true]');
await page.waitForFunction(() => document.querySelector('#panel').textContent.includes('sleep'));
say('processes', await page.textContent('#panel'));
await page.goto(`${url}/#/sandbox/${sandbox}/files`);
await page.waitForSelector('#panel table');
say('files', await page.textContent('#panel table'));
await page.goto(`${url}/#/sandbox/${sandbox}/report`);
await page.waitForSelector('#panel table');
say('report', await page.textContent('#panel table'));

await page.goto(`${url}/#/sandbox/${sandbox}/terminal`);
await page.waitForSelector('.xterm-helper-textarea, .plain');
say('terminal', await page.locator('.xterm').count() > 0 ? 'xterm' : 'plain');
await page.waitForTimeout(1000);
await page.keyboard.type('echo $((6*7))-from-inside');
await page.keyboard.press('Enter');
await page.waitForFunction(() => document.querySelector('.terminal').textContent.includes('42-from-inside'));
say('typed', true);
await page.screenshot({ path: `${folder}/dashboard-terminal.png` });

await page.goto(`${url}/#/host`);
await page.waitForSelector('main table');
say('host', await page.textContent('main table'));

const dark = await open('dark');
await enter(dark, key);
await dark.waitForSelector(`tr[data-id="${sandbox}"]`);
say('dark', await dark.evaluate(() => getComputedStyle(document.body).backgroundColor));
say('light', await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
await dark.screenshot({ path: `${folder}/dashboard-dark.png` });
// The names of a sandbox's files are text, whatever they look like.
say('hostile', await page.evaluate(() => window.hacked === undefined));
say('errors', errors.filter((text) => !text.includes('401')));
await browser.close();
