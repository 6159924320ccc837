// Everything about files that the field's JavaScript client has, against a daemon that E2B_API_URL names.
import assert from 'node:assert'
import { Sandbox, FileType, FilesystemEventType, FileNotFoundError, NotFoundError } from 'e2b'

const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
const files = sandbox.files

// There and back, in every form that the client has for it.
const info = await files.write('hello.txt', 'hällo')
assert.deepEqual([info.name, info.path, info.type], ['hello.txt', '/home/user/hello.txt', FileType.FILE])
assert.equal(await files.read('hello.txt'), 'hällo')
const data = new Uint8Array(1_000_003).map((_, i) => i * 7)
await files.write('dir/sub/data.bin', data.buffer)
assert.deepEqual(await files.read('dir/sub/data.bin', { format: 'bytes' }), data)
await files.write('blob.bin', new Blob([data]))
assert.deepEqual(new Uint8Array(await (await files.read('blob.bin', { format: 'blob' })).arrayBuffer()), data)
await files.write('stream.bin', new Blob([data]).stream())
let length = 0
for await (const piece of await files.read('stream.bin', { format: 'stream' })) length += piece.length
assert.equal(length, data.length)
await files.write('empty', '')
assert.equal(await files.read('empty'), '')
const written = await files.write(Array.from({ length: 20 }, (_, i) => ({ path: `many/ä "${i}".txt`, data: `${i}` })))
assert.deepEqual(written.map(w => w.path), Array.from({ length: 20 }, (_, i) => `/home/user/many/ä "${i}".txt`))
assert.equal(await files.read('many/ä "7".txt'), '7')

// What is there.
const entry = await files.getInfo('hello.txt')
assert.deepEqual([entry.size, entry.mode, entry.permissions, entry.owner], [6, 0o644, '-rw-r--r--', 'user'])
assert(Math.abs(entry.modifiedTime.getTime() - Date.now()) < 300_000)
assert(await files.exists('hello.txt'))
assert(!(await files.exists('nothing')))
assert.deepEqual((await files.list('dir', { depth: 2 })).map(e => e.path), ['/home/user/dir/sub', '/home/user/dir/sub/data.bin'])
await sandbox.commands.run('ln -s hello.txt link')
assert.equal((await files.getInfo('link')).symlinkTarget, '/home/user/hello.txt')

// Folders and names.
assert(await files.makeDir('new/folder'))
assert(!(await files.makeDir('new/folder')))
assert.equal((await files.rename('hello.txt', 'new/folder/moved.txt')).path, '/home/user/new/folder/moved.txt')
await files.remove('new')
assert(!(await files.exists('new')))
for (const act of [() => files.read('nothing'), () => files.getInfo('nothing'), () => files.list('nothing'),
  () => files.rename('nothing', 'x'), () => files.watchDir('nothing', () => {})])
  await assert.rejects(act, e => e instanceof (FileNotFoundError ?? NotFoundError) || e instanceof NotFoundError)
await assert.rejects(() => files.read('dir'))
await assert.rejects(() => files.write('dir', 'x'))

// Metadata.
try {
  await files.write('meta.txt', 'x', { metadata: { Author: 'me' } })
  assert.deepEqual((await files.getInfo('meta.txt')).metadata, { author: 'me' })
} catch (e) {
  if (!`${e}`.includes('501')) throw e
}

// Addresses that are signed.
const form = new FormData()
form.append('file', new Blob(['signed']), 'n')
const put = await fetch(await sandbox.uploadUrl('signed file.txt', { useSignatureExpiration: 60_000 }), { method: 'POST', body: form })
assert.equal(put.status, 200)
const got = await fetch(await sandbox.downloadUrl('signed file.txt', { useSignatureExpiration: 60_000 }))
assert.equal(await got.text(), 'signed')

// Watching.
const seen = []
let arrived
const done = new Promise(resolve => { arrived = resolve })
const watch = await files.watchDir('dir', event => {
  seen.push(event)
  if (event.type === FilesystemEventType.WRITE && event.name === 'sub/below.txt') arrived()
}, { recursive: true })
await files.write('dir/watched.txt', 'x')
await files.write('dir/sub/below.txt', 'x')
await done
assert(seen.some(e => e.name === 'watched.txt' && e.type === FilesystemEventType.WRITE))
await watch.stop()

await sandbox.kill()
console.log('all of it')
