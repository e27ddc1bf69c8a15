// The throttle, as administrators read it. A reservation never waits for these statements.
import type { Selectable } from 'kysely'
import type { Limits, ScopeState, ThrottleStore } from '../../domain/throttle.ts'
import type { Engine } from './engine.ts'
import type { Schema } from './schema.ts'
import { keysOf } from './throttle-rows.ts'
import { STATE_COLUMNS, type StateRow, stateOf, statesOf } from './throttle-state.ts'

type ScopeRow = StateRow & Pick<Selectable<Schema['login_throttle']>, 'scope' | 'email_digest'>

export function createThrottle(engine: Engine): ThrottleStore {
  const selected = () => engine.db.selectFrom('login_throttle').select(STATE_COLUMNS)
  const selectedWithScope = () => selected().select(['scope', 'email_digest'])

  return {
    async readScopes(scopes, now) {
      const rows = await engine.retrying(() =>
        selected().where('key', 'in', keysOf(scopes)).execute(),
      )
      return statesOf(scopes, rows, now)
    },

    async readScopesOfEmail(emailDigest, limits, now) {
      const rows = await engine.retrying(() =>
        selectedWithScope().where('email_digest', '=', emailDigest).execute(),
      )
      return rows.map(row => toState(row, limits, now))
    },

    async listScopes({ afterKey, limit }, limits, now) {
      const rows = await engine.retrying(() =>
        selectedWithScope().where('key', '>', afterKey).orderBy('key').limit(limit).execute(),
      )
      return rows.map(row => toState(row, limits, now))
    },
  }
}

function toState(row: ScopeRow, limits: Limits, now: Date): ScopeState {
  const { key, scope: name, email_digest: emailDigest } = row
  return stateOf({ name, key, emailDigest, ...limits[name] }, row, now)
}
