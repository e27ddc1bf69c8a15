// Every command that writes to the database, except for "database migrate".
import { randomInt, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Store } from '../../../src/domain/store.ts'
import type { User } from '../../../src/domain/user.ts'
import { loadKeySet } from '../../../src/keys/key-file.ts'
import { clientScopes } from '../../../src/login/scopes.ts'
import { toCountedClient } from '../../../src/system/client-group.ts'
import { digestOf } from '../../../src/system/identifiers.ts'
import { DAY_MS } from '../../support/session-client.ts'
import { changeAt, makeScopes } from '../fixtures.ts'
import { createFixtures } from './command-fixtures.ts'
import type { Commands, Ended } from './commands.ts'
import type { Operation } from './loop.ts'
import { BUDGETS, LIMITS } from './requests.ts'
import { userCommands } from './user-commands.ts'

const AUDIT_DAYS = 30
/** What a command that changes a file prints if the database cannot record that. */
const NOT_RECORDED = 'The audit does not have this change'

export function databaseCommands(commands: Commands, store: Store): Operation<Ended>[] {
  const { run, folder } = commands
  const fixtures = createFixtures(commands, store)
  const { newUser, countEvents, countLive, change } = fixtures

  const isCleared = async ({ email }: User) => {
    const states = await store.throttle.readOfEmail(digestOf(email), LIMITS, new Date())
    return states.every(({ failures }) => failures === 0)
  }
  const newFile = () => join(folder, `${randomUUID()}.json`)

  const tokens = (command: 'add' | 'revoke'): Operation<Ended> => ({
    title: `admin-tokens ${command} NAME`,
    async prepare() {
      const name = randomUUID()
      const add = () => run(['admin-tokens', 'add', name, '--role', 'read'])
      if (command === 'revoke') await add()
      return {
        email: null,
        run: () => (command === 'add' ? add() : run(['admin-tokens', 'revoke', name])),
        async isDone() {
          const all = await store.adminTokens.list({ after: '', limit: 10_000 })
          return all.some(token => token.name === name) === (command === 'add')
        },
        countEvents: countEvents(name, command === 'add' ? 'token.added' : 'token.revoked'),
      }
    },
  })

  const purged = (...options: string[]): Operation<Ended> => ({
    title: ['database purge', ...options].join(' '),
    isInParts: true,
    async prepare() {
      const before = new Date(Date.now() - (AUDIT_DAYS + 1) * DAY_MS)
      const { id, sessionId } = await newUser(before)
      const [target, action] = [randomUUID(), 'database.purged'] as const
      await store.audit.record(changeAt(before), [{ action, target, targetId: null }])
      return {
        email: null,
        run: () => run(['database', 'purge', ...options], '', { AUDIT_DAYS: String(AUDIT_DAYS) }),
        async isDone() {
          const { kind } = await store.sessions.findLive(sessionId, before)
          const devices = await store.devices.list(id, before)
          const events = await countEvents(target, action)()
          return kind !== 'live' && devices.length + events === 0
        },
      }
    },
  })

  return [
    ...userCommands(commands, store, fixtures),
    change(
      ['sessions', 'end', 'EMAIL'],
      'sessions.ended',
      async ({ id }) => (await countLive(id)) === 0,
    ),
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
    change(['throttle', 'clear', '--email', 'EMAIL'], 'throttle.cleared', isCleared, {
      async before({ id, email }) {
        const scopes = makeScopes(email)
        await store.attempts.reserve(scopes, email, new Date())
        await store.attempts.fail(scopes, id, new Date())
      },
    }),
    {
      title: 'throttle clear --client IP',
      async prepare() {
        const network = [randomInt(0x10000), randomInt(0x10000)].map(part => part.toString(16))
        const client = toCountedClient(`2001:db8:${network.join(':')}::1`)
        if (!client) throw new Error('that is not an address')
        const scopes = clientScopes(client, BUDGETS)
        await store.attempts.reserve(scopes, 'unknown@example.com', new Date())
        await store.attempts.fail(scopes, null, new Date())
        return {
          email: null,
          run: () => run(['throttle', 'clear', '--client', client.ip]),
          async isDone() {
            const states = await store.throttle.read(scopes, new Date())
            return states.every(({ failures }) => failures === 0)
          },
          countEvents: countEvents(client.ip, 'throttle.cleared'),
        }
      },
    },
    {
      title: 'keys rotate',
      async prepare() {
        const SIGNING_KEYS_FILE = newFile()
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
            const events = await countEvents(added.keyId, 'key.added')()
            return events === 1 || stderr.includes(NOT_RECORDED)
          },
        }
      },
    },
    tokens('add'),
    tokens('revoke'),
    purged(),
  ]
}
