// The commands, requests and log events of administrators, which programs rely on.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OPERATIONS } from '../../src/admin/operations.ts'

const NAMES = `
listUsers     | users list       | GET /users                   |
addUser       | users add        | POST /users                  | admin.user_added
getUser       | users show       | GET /users/:user             |
changeUser    | users set        | PATCH /users/:user           | admin.user_changed
deleteUser    | users delete     | DELETE /users/:user          | admin.user_deleted
getUserData   | users export-data| GET /users/:user/data        | admin.user_data_exported
setPassword   | users set-password | PUT /users/:user/password  | admin.password_set
activateUser  | users activate   |                              | admin.user_activated
deactivateUser| users deactivate |                              | admin.user_deactivated
lockUser      | users lock       | PUT /users/:user/lock        | admin.user_locked
unlockUser    | users unlock     | DELETE /users/:user/lock     | admin.user_unlocked
listSessions  | sessions list    | GET /users/:user/sessions    |
endSessions   |                  | DELETE /users/:user/sessions | admin.sessions_ended
endSession    |                  | DELETE /sessions/:id         | admin.session_ended
getThrottle   | throttle show    | GET /throttle                |
clearThrottle | throttle clear   | DELETE /throttle             | admin.throttle_cleared
listAudit     | audit list       | GET /audit                   |
addToken      | admin-tokens add |                              | admin.token_added
listTokens    | admin-tokens list|                              |
revokeToken   | admin-tokens revoke |                           | admin.token_revoked
`

test('the operations of administrators have these names', () => {
  const expected = NAMES.trim()
    .split('\n')
    .map(line => line.split('|').map(cell => cell.trim()))
  const found = Object.entries(OPERATIONS).map(([id, { command, request, event }]) => [
    ...[id, command ?? '', request ?? '', event ?? ''],
  ])
  assert.deepEqual(found, expected)
})
