// Every command that writes to the database.
import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import bcrypt from 'bcrypt'
import type { AuditAction } from '../../src/domain/audit.ts'
import type { Store } from '../../src/domain/store.ts'
import type { User } from '../../src/domain/user.ts'
import { digestOf } from '../../src/identifiers.ts'
import { loadKeySet } from '../../src/keys/key-file.ts'
import { limitsOf } from '../../src/login/scopes.ts'
import { TEST_COST } from '../service.ts'
import { DAY_MS } from '../session-client.ts'
import { changeAt, insertTestUser, makeScopes, NOTHING_DISPLACED } from '../storage/fixtures.ts'
import type { Commands, Ended } from './commands.ts'
import type { Operation } from './loop.ts'
import { matches, NEW_PASSWORD } from './requests.ts'

const HASH = bcrypt.hashSync(NEW_PASSWORD, TEST_COST)
const LIMITS = limitsOf({ pair: 5, email: 20, client: 50, network: 500 })

export function databaseCommands(commands: Commands, store: Store): Operation<Ended>[] {
  const { run, folder } = commands

  /** With a session and a device. */
  async function newUser() {
    const [sessionId, deviceId, tokenId] = [randomUUID(), randomUUID(), randomUUID()]
    const email = `${sessionId}@example.com`
    const scopes = makeScopes(email)
    const now = new Date()
    const expiresAt = new Date(now.getTime() + DAY_MS)
    const id = await insertTestUser(store, email, now)
    await store.attempts.reserve(scopes, email, now)
    const opening = {
      user: { id, passwordHash: 'a hash' },
      session: { id: sessionId, expiresAt, cookieDigest: null, userAgent: '', ip: '::1' },
      refreshToken: { id: tokenId, digest: tokenId, keyId: 'k', issuedAt: now, expiresAt },
      device: { kind: 'new', id: deviceId, digest: digestOf(deviceId), expiresAt },
      displaced: NOTHING_DISPLACED,
    } as const
    await store.attempts.succeed(opening, scopes, now)
    return { id, email, sessionId, deviceId }
  }
  const countEvents = (target: string, action: AuditAction) => async () => {
    const page = { since: null, beforeId: null, limit: 100 }
    const { events } = await store.audit.list(target, page)
    return events.filter(event => event.action === action).length
  }
  const countLive = (id: string) => store.sessions.countLive(id, new Date())

  /** A command about a user that has a session. */
  const change = (
    args: string[],
    action: AuditAction,
    isChanged: (user: User) => boolean | Promise<boolean>,
    how: {
      input?: string
      before?: (user: { id: string; email: string }) => Promise<unknown>
    } = {},
  ): Operation<Ended> => ({
    title: args.join(' '),
    async prepare() {
      const { id, email } = await newUser()
      await how.before?.({ id, email })
      const named = args.map(arg => (arg === 'EMAIL' ? email : arg))
      return {
        email,
        run: () => run(named, how.input),
        async isDone() {
          const user = await store.users.findById(id)
          return user !== null && (await isChanged(user))
        },
        countEvents: countEvents(email, action),
      }
    },
  })
  const ofEmail = async (email: string) =>
    store.throttle.readOfEmail(digestOf(email), LIMITS, new Date())
  const fail = async ({ id, email }: { id: string; email: string }) => {
    const scopes = makeScopes(email)
    await store.attempts.reserve(scopes, email, new Date())
    await store.attempts.fail(scopes, id, new Date())
  }
  const isCleared = async ({ email }: User) =>
    (await ofEmail(email)).every(({ failures }) => failures === 0)

  const imported = (title: string, ...options: string[]): Operation<Ended> => ({
    title: `users import ${title}`,
    // The report of an import is printed after its transaction.
    isInParts: true,
    async prepare() {
      const emails = [randomUUID(), randomUUID()].map(name => `${name}@example.com`)
      const file = join(folder, `${randomUUID()}.ndjson`)
      const hash = options.includes('temporary') ? {} : { passwordHash: HASH }
      const lines = emails.map(email => JSON.stringify({ email, name: 'Name', ...hash }))
      await writeFile(file, `${lines.join('\n')}\n`)
      const found = () => Promise.all(emails.map(email => store.users.findByEmail(email)))
      return {
        email: null,
        run: () => run(['users', 'import', file, ...options]),
        async isDone() {
          const users = (await found()).filter(user => user !== null)
          // One transaction stores the batch.
          if (users.length === 1) throw new Error('half of a batch is stored')
          return users.length === 2
        },
      }
    },
  })

  return [
    ...[['--password-stdin'], ['--generate']].map(
      (options): Operation<Ended> => ({
        title: `users add ${options}`,
        async prepare() {
          const email = `${randomUUID()}@example.com`
          const args = ['users', 'add', email, '--name', 'Name', ...options]
          return {
            email,
            run: () => run(args, NEW_PASSWORD),
            isDone: async () => (await store.users.findByEmail(email)) !== null,
            countEvents: countEvents(email, 'user.added'),
          }
        },
      }),
    ),
    change(
      ['users', 'set', 'EMAIL', '--name', 'Another'],
      'user.changed',
      user => user.name === 'Another',
    ),
    change(
      ['users', 'set-password', 'EMAIL', '--password-stdin'],
      'password.set',
      async user => user.passwordHash !== 'a hash' && matches(NEW_PASSWORD)(user),
      { input: NEW_PASSWORD },
    ),
    change(['users', 'deactivate', 'EMAIL'], 'user.deactivated', user => !user.isActive),
    change(['users', 'activate', 'EMAIL'], 'user.activated', user => user.isActive, {
      before: ({ id }) => store.users.deactivate(id, changeAt()),
    }),
    change(['users', 'lock', 'EMAIL'], 'user.locked', user => user.lockedBy === 'administrator'),
    change(['users', 'unlock', 'EMAIL'], 'user.unlocked', user => user.lockedUntil === null, {
      before: ({ id }) => store.users.lock(id, new Date('9999-01-01'), changeAt()),
    }),
    change(
      ['sessions', 'end', 'EMAIL'],
      'sessions.ended',
      async ({ id }) => (await countLive(id)) === 0,
    ),
    change(['throttle', 'clear', '--email', 'EMAIL'], 'throttle.cleared', isCleared, {
      before: fail,
    }),
    {
      title: 'users export-data EMAIL',
      // It is recorded before anything is read.
      async prepare() {
        const { email } = await newUser()
        return { email, run: () => run(['users', 'export-data', email]) }
      },
    },
    {
      title: 'users delete EMAIL --yes',
      isInParts: true,
      async prepare() {
        const { email } = await newUser()
        const isDone = async () => (await store.users.findByEmail(email)) === null
        return { email, run: () => run(['users', 'delete', email, '--yes']), isDone }
      },
    },
    {
      title: 'sessions end ID',
      async prepare() {
        const { id, email, sessionId } = await newUser()
        return {
          email,
          run: () => run(['sessions', 'end', sessionId]),
          isDone: async () => (await countLive(id)) === 0,
          countEvents: countEvents(sessionId, 'session.ended'),
        }
      },
    },
    {
      title: 'sessions end --all --yes',
      isInParts: true,
      async prepare() {
        const { id, email } = await newUser()
        const isDone = async () => (await countLive(id)) === 0
        return { email, run: () => run(['sessions', 'end', '--all', '--yes']), isDone }
      },
    },
    {
      title: 'devices revoke ID',
      async prepare() {
        const { id, email, deviceId } = await newUser()
        return {
          email,
          run: () => run(['devices', 'revoke', deviceId]),
          isDone: async () => (await store.devices.list(id, new Date())).length === 0,
          countEvents: countEvents(deviceId, 'device.revoked'),
        }
      },
    },
    {
      // It changes a file, and says so if the database cannot record that.
      title: 'keys rotate',
      async prepare() {
        const SIGNING_KEYS_FILE = join(folder, `${randomUUID()}.json`)
        const rotate = () => run(['keys', 'rotate'], '', { SIGNING_KEYS_FILE })
        await rotate()
        const { accessKeys: before } = await loadKeySet(SIGNING_KEYS_FILE)
        return {
          email: null,
          run: rotate,
          async isDone({ stderr }) {
            const { accessKeys } = await loadKeySet(SIGNING_KEYS_FILE)
            const added = accessKeys.find(({ keyId }) => !before.some(old => old.keyId === keyId))
            if (!added) return false
            const isRecorded = (await countEvents(added.keyId, 'key.added')()) === 1
            return isRecorded || stderr.includes('The audit does not have this change')
          },
        }
      },
    },
    imported('of hashes'),
    imported('with temporary passwords', '--without-passwords', 'temporary'),
    {
      title: 'users export',
      prepare: async () => ({ email: null, run: () => run(['users', 'export']) }),
    },
    {
      title: 'database purge',
      isInParts: true,
      prepare: async () => ({ email: null, run: () => run(['database', 'purge']) }),
    },
  ]
}
