// The check of all tables finds what a test has broken by hand, without the constraints that prevent most of it.
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import { own } from '../../support/own.ts'
import { PASSWORD, startTestService } from '../../support/service.ts'
import { AUTH } from '../../support/session-client.ts'
import { findBroken, type INVARIANTS } from './invariants.ts'

const ID = '00000000-0000-4000-8000-00000000000a'
const HEX = 'ab'.repeat(32)
const LATER = '2999-01-01T00:00:00.000Z'

/** For each one, a change that breaks it. */
const CHANGES: Record<keyof typeof INVARIANTS, string> = {
  'a session has no user': `update sessions set user_id = '${ID}'`,
  'a refresh token has no session': `update refresh_tokens set session_id = '${ID}'`,
  'a refresh token and its session have different users': `update refresh_tokens set user_id = '${ID}'`,
  'a session has two valid refresh tokens': 'update refresh_tokens set revoked_at = null',
  'a session that has not ended has no valid refresh token': 'delete from refresh_tokens',
  'an ended session has a valid refresh token': `drop trigger revoke_tokens_of_ended_session;
    update sessions set ended_at = created_at`,
  'a replaced refresh token has no successor': 'update refresh_tokens set successor_id = null',
  'a session has a cookie that was never used, or used one that it does not have': `update sessions set cookie_digest = '${HEX}'`,
  'a session was used before its login, or is idle after its end': `update sessions set created_at = '${LATER}'`,
  'a session that is listed as one of a deleted user is there':
    'insert into ended_sessions (id, ended_at) select id, created_at from sessions',
  'a login code has no session': `insert into login_codes (digest, session_id, callback, challenge, expires_at)
    values ('${HEX}', '${ID}', 'https://app.example.net/', '${'x'.repeat(43)}', '${LATER}')`,
  'a device has no user': `insert into devices values
    ('${ID}', '${ID}', '${HEX}', '${LATER}', '${LATER}', '${LATER}', '')`,
  'a user without a second factor has a recovery code': `insert into recovery_codes (user_id, digest)
    values ('${ID}', '${HEX}')`,
  'a counter of the throttle is negative': 'update login_throttle set pending = -1',
  'a row of the throttle expires before its failures for the day are forgiven': `update login_throttle set clears_at = '${LATER}'`,
  'an attempt is pending for longer than its lease': `update login_throttle set pending = 1, lease_ends_at = '${LATER}'`,
  'a row of the throttle has an email that its scope has not, or lacks one':
    'update login_throttle set email_digest = null',
  'a counter of a user is negative': 'update users set failed_login_attempts = -1',
  'a lock has no end': `update users set locked_by = 'throttle'`,
  'a dummy row is missing or has changed': 'update unknown_user set is_active = 0',
  'a user was not added by an event': `update users set id = '${ID}'`,
  'a user is inactive without an event': 'update users set is_active = 0',
  'a user is locked by an administrator without an event': `update users
    set locked_by = 'administrator', locked_until = '${LATER}'`,
  'a user that cannot log in has a session': 'update users set is_active = 0',
  'an event names a user that is gone': 'delete from users',
  'the key of devices is missing': 'delete from service',
}

describe('the check of all tables', async () => {
  const service = await own(startTestService('sqlite'))
  const { config } = service.database
  assert.ok(config.engine === 'sqlite')
  const email = await service.newUser()
  const { refreshToken } = (await service.login(email, PASSWORD)).json.data
  const refreshed = await service.call({ path: `${AUTH}/refresh`, body: { refreshToken } })
  assert.equal(refreshed.status, 200)

  test('finds nothing wrong with tables that the service has written', async () => {
    assert.deepEqual(await findBroken(service.database, service.now()), [])
  })

  for (const [title, change] of Object.entries(CHANGES)) {
    test(`finds: ${title}`, async () => {
      const database = new DatabaseSync(config.file, {
        enableForeignKeyConstraints: false,
        defensive: false,
      })
      try {
        database.exec(`pragma ignore_check_constraints = on; begin; ${change}`)
        const rows = async (statement: string) => database.prepare(statement).all()
        const found = await findBroken({ rows }, service.now())
        assert.ok(
          found.some(finding => finding.startsWith(`${title}: `)),
          `found only ${found.join(', ') || 'nothing'}`,
        )
      } finally {
        // Rolls back.
        database.close()
      }
    })
  }
})
