// Everything of the control plane that the field's JavaScript client has, against a daemon that E2B_API_URL names.
// Runs with the newest client and with the last one that used the older routes: the name of the package is the argument.
import assert from 'node:assert'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const require = createRequire(process.cwd() + '/')
const { Sandbox, NotFoundError, SandboxError } = await import(pathToFileURL(require.resolve(process.argv[2])))

const mark = crypto.randomUUID()
let sandbox = await Sandbox.create({ metadata: { 'k a': 'v&b', ü: mark + '=%' }, envs: { A: 'b' }, timeoutMs: 120_000 })
const info = await sandbox.getInfo()
assert.equal(info.sandboxId, sandbox.sandboxId)
assert.equal(info.templateId, 'base')
assert.equal(info.state, 'running')
assert.deepEqual(info.metadata, { 'k a': 'v&b', ü: mark + '=%' })
assert.ok(Math.abs(info.endAt - info.startedAt - 120_000) < 2000)
assert.ok(await sandbox.isRunning())

// Lists, filters, pages.
const found = Sandbox.list({ query: { metadata: { 'k a': 'v&b', ü: mark + '=%' } } })
assert.deepEqual((await found.nextItems()).map((s) => s.sandboxId), [sandbox.sandboxId])
assert.ok(!found.hasNext)
assert.deepEqual(await Sandbox.list({ query: { metadata: { 'k a': 'v', ü: mark + '=%' } } }).nextItems(), [])
const others = []
for (let i = 0; i < 5; i++) others.push(await Sandbox.create({ metadata: { page: mark }, timeoutMs: 120_000 }))
const pages = Sandbox.list({ query: { metadata: { page: mark } }, limit: 2 })
const seen = []
while (pages.hasNext) seen.push(...(await pages.nextItems()).map((s) => s.sandboxId))
assert.deepEqual(seen, others.map((s) => s.sandboxId).reverse())

// Time.
await sandbox.setTimeout(600_000)
assert.ok((await sandbox.getInfo()).endAt - info.startedAt >= 600_000)
await sandbox.setTimeout(100_000)
assert.ok((await sandbox.getInfo()).endAt - info.startedAt <= 160_000)
assert.equal((await Sandbox.connect(sandbox.sandboxId)).sandboxId, sandbox.sandboxId)

// Pause.
assert.ok(await sandbox.pause())
assert.ok(!(await sandbox.pause()))
assert.equal((await sandbox.getInfo()).state, 'paused')
assert.ok(!(await sandbox.isRunning()))
const paused = await Sandbox.list({ query: { state: ['paused'] } }).nextItems()
assert.ok(paused.some((s) => s.sandboxId === sandbox.sandboxId))
sandbox = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 120_000 })
assert.ok(await sandbox.isRunning())

// What it uses.
const metrics = await sandbox.getMetrics()
assert.ok(metrics.length > 0 && metrics[0].memTotal > 0 && metrics[0].cpuCount >= 1)

// Snapshots and copies.
const snapshot = await sandbox.createSnapshot()
const listed = await Sandbox.listSnapshots({ sandboxId: sandbox.sandboxId }).nextItems()
assert.deepEqual(listed.map((s) => s.snapshotId), [snapshot.snapshotId])
others.push(await Sandbox.create(snapshot.snapshotId, { timeoutMs: 120_000 }))
assert.ok(await Sandbox.deleteSnapshot(snapshot.snapshotId))
assert.ok(!(await Sandbox.deleteSnapshot(snapshot.snapshotId)))
const copies = await sandbox.fork({ count: 2, timeoutMs: 60_000 })
assert.equal(copies.length, 2)
others.push(...copies)

// The way out.
await sandbox.updateNetwork({ denyOut: ['0.0.0.0/0'], allowOut: ['1.1.1.1'] })
assert.deepEqual((await sandbox.getInfo()).network.denyOut, ['0.0.0.0/0'])
await assert.rejects(sandbox.updateNetwork({ allowOut: ['10.0.0.1'] }), /private/)

// What is not there.
await assert.rejects(Sandbox.create('nobody-has-this'), (error) => error instanceof SandboxError && /nobody-has-this/.test(error.message))
for (const other of others) {
  const id = other.sandboxId ?? other.sandbox.sandboxId
  assert.ok(await Sandbox.kill(id))
  assert.ok(!(await Sandbox.kill(id)))
}
assert.ok(await sandbox.kill())
assert.ok(!(await sandbox.isRunning()))
await assert.rejects(Sandbox.connect(sandbox.sandboxId), NotFoundError)
await assert.rejects(sandbox.getInfo(), NotFoundError)
await assert.rejects(sandbox.setTimeout(5000), NotFoundError)

// The end of its time.
const short = await Sandbox.create({ timeoutMs: 1000 })
while (await short.isRunning()) await new Promise((done) => setTimeout(done, 100))
console.log('all of it')
