// Every command that writes keys, certificates, passwords or exports to a file.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadConfig } from '../../../src/config/config.ts'
import { loadTls } from '../../../src/http/connection/tls.ts'
import { loadKeySet } from '../../../src/keys/key-file.ts'
import { allKeysOf, NO_KEYS } from '../../../src/keys/key-set.ts'
import { Failure } from '../../../src/system/failures.ts'
import type { Commands, Ended } from './commands.ts'
import type { Operations } from './loop.ts'
import { createSubjects } from './subjects.ts'

/** What a command that changes a file prints if the database cannot record that. */
const NOT_RECORDED = 'The audit does not have this change'

async function newFolder(commands: Commands) {
  const folder = join(commands.folder, randomUUID())
  await mkdir(folder)
  const keys = join(folder, 'keys.json')
  const run = (...args: string[]) => commands.run(args, '', { SIGNING_KEYS_FILE: keys })
  const has = async (name: string) => (await readdir(folder)).includes(name)
  return { folder, keys, run, has }
}

/** After so many earlier rotations. The first one also makes the key that encrypts. */
export const rotation = (commands: Commands, earlier: number) => async () => {
  const { folder, keys, run } = await newFolder(commands)
  for (let made = 0; made < earlier; made++) await run('keys', 'rotate')
  async function readIds() {
    const set = await loadKeySet(keys).catch(error => {
      if (error.code !== 'ENOENT') throw error
      return NO_KEYS
    })
    return allKeysOf(set).map(({ keyId }) => keyId)
  }
  const before = await readIds()
  return {
    folder,
    run: () => run('keys', 'rotate'),
    async isDone({ error, stderr }: Ended) {
      const added = (await readIds()).filter(id => !before.includes(id))
      for (const id of error === null ? added : []) {
        const events = await createSubjects(commands.store).countEvents(id, 'key.added')
        assert.ok(events === 1 || stderr.includes(NOT_RECORDED), 'a key is not in the audit')
      }
      return added.length === (earlier === 0 ? 3 : 2)
    },
  }
}

export function fileCommands(commands: Commands): Operations<Ended> {
  // If the sync of the folder fails, the new file is in place.
  const rotated = (earlier: number) => async () => ({
    ...(await rotation(commands, earlier)()),
    isInParts: true,
  })
  return {
    'keys rotate that makes the first': rotated(0),
    'keys rotate that adds others': rotated(1),
    async 'the certificate for development'() {
      const { folder, has } = await newFolder(commands)
      const config = loadConfig({ NODE_ENV: 'test', DATA_DIR: folder })
      const ended = { stdout: '', stderr: '', error: null }
      return {
        folder,
        isInParts: true,
        run: () =>
          loadTls(config, new Date()).then(
            () => ended,
            error => ({ ...ended, error }),
          ),
        isDone: () => has('development-cert.pem'),
      }
    },
    async 'users export --output FILE'() {
      const { folder, run, has } = await newFolder(commands)
      return {
        folder,
        run: () => run('users', 'export', '--output', join(folder, 'users.ndjson')),
        isDone: () => has('users.ndjson'),
      }
    },
    async 'users import with temporary passwords and rejected rows'() {
      const { folder, run } = await newFolder(commands)
      const file = join(folder, 'users.ndjson')
      const email = `${randomUUID()}@example.com`
      await writeFile(file, `{"email":"${email}","name":"Name"}\n{"email":"wrong"}\n`)
      return {
        folder,
        isInParts: true,
        async run() {
          const ended = await run('users', 'import', file, '--without-passwords', 'temporary')
          // It fails without a message when rows were rejected, and has said so.
          const isDone = ended.error instanceof Failure && ended.error.message === ''
          return isDone ? { ...ended, error: null } : ended
        },
        async isDone() {
          if ((await commands.store.users.findByEmail(email)) === null) return false
          const passwords = await readFile(`${file}.passwords`, 'utf8')
          assert.ok(passwords.includes(email), 'the password of a stored user is lost')
          return true
        },
      }
    },
  }
}
