// Every command that writes keys, certificates, passwords or exports to a file.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadConfig } from '../../../src/config/config.ts'
import type { Store } from '../../../src/domain/store.ts'
import { loadTls } from '../../../src/http/connection/tls.ts'
import { loadKeySet } from '../../../src/keys/key-file.ts'
import { Failure } from '../../../src/system/failures.ts'
import type { Commands, Ended } from './commands.ts'
import type { Operation } from './loop.ts'

export function fileCommands(commands: Commands, store: Store): Operation<Ended>[] {
  async function newFolder() {
    const folder = join(commands.folder, randomUUID())
    await mkdir(folder)
    const env = { SIGNING_KEYS_FILE: join(folder, 'keys.json') }
    const run = (...args: string[]) => commands.run(args, '', env)
    return { folder, env, run }
  }
  const isAudited = async (target: string) => {
    const page = { since: null, beforeId: null, limit: 10 }
    return (await store.audit.list(target, page)).events.length > 0
  }

  const keys = (title: string, rotations: number): Operation<Ended> => ({
    title: `keys rotate ${title}`,
    async prepare() {
      const { folder, env, run } = await newFolder()
      for (let made = 0; made < rotations; made++) await run('keys', 'rotate')
      const path = env.SIGNING_KEYS_FILE
      const idsOf = async () => {
        const set = await loadKeySet(path).catch(error => {
          if (error.code !== 'ENOENT') throw error
          return { accessKeys: [], refreshKeys: [] }
        })
        return [...set.accessKeys, ...set.refreshKeys].map(({ keyId }) => keyId)
      }
      const before = await idsOf()
      return {
        email: null,
        folder,
        run: () => run('keys', 'rotate'),
        async isDone({ error }) {
          const added = (await idsOf()).filter(id => !before.includes(id))
          if (error === null) {
            for (const id of added) assert.ok(await isAudited(id), 'a key is not in the audit')
          }
          return added.length === 2
        },
      }
    },
  })

  const certificate: Operation<Ended> = {
    title: 'the certificate for development',
    isInParts: true,
    async prepare() {
      const { folder } = await newFolder()
      const config = loadConfig({ NODE_ENV: 'test', DATA_DIR: folder })
      return {
        email: null,
        folder,
        async run() {
          const ended = { stdout: '', stderr: '', error: null }
          return loadTls(config, new Date()).then(
            () => ended,
            error => ({ ...ended, error }),
          )
        },
        isDone: async () => (await readdir(folder)).includes('development-cert.pem'),
      }
    },
  }

  const exported: Operation<Ended> = {
    title: 'users export --output FILE',
    async prepare() {
      const { folder, run } = await newFolder()
      const file = join(folder, 'users.ndjson')
      return {
        email: null,
        folder,
        run: () => run('users', 'export', '--output', file),
        isDone: async () => (await readdir(folder)).includes('users.ndjson'),
      }
    },
  }

  const imported: Operation<Ended> = {
    title: 'users import with temporary passwords and rejected rows',
    isInParts: true,
    async prepare() {
      const { folder, run } = await newFolder()
      const file = join(folder, 'users.ndjson')
      const email = `${randomUUID()}@example.com`
      await writeFile(file, `{"email":"${email}","name":"Name"}\n{"email":"wrong"}\n`)
      return {
        email: null,
        folder,
        async run() {
          const ended = await run('users', 'import', file, '--without-passwords', 'temporary')
          // It fails without a message when rows were rejected, and has said so.
          const isDone = ended.error instanceof Failure && ended.error.message === ''
          return isDone ? { ...ended, error: null } : ended
        },
        async isDone() {
          if ((await store.users.findByEmail(email)) === null) return false
          const passwords = await readFile(`${file}.passwords`, 'utf8')
          assert.ok(passwords.includes(email), 'the password of a stored user is lost')
          return true
        },
      }
    },
  }

  return [
    ...[keys('that makes the first', 0), keys('that adds others', 1)],
    ...[certificate, exported, imported],
  ]
}
