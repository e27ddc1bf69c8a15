// Removes the second factors of a user that has lost them.
import { ALARMING_GUESSES } from '../../domain/second-factor.ts'
import { named, object } from '../../http/openapi/operation.ts'
import { Failure, userNotFound } from '../../system/failures.ts'
import { ADDED_USER_FIELDS, INTEGER } from '../api/schemas.ts'
import { operation } from '../operation.ts'
import { changeNow } from './deps.ts'
import { describeEnd, PASSWORD_SHOWN, printPassword } from './passwords.ts'
import { DEFAULT_END, generatePassword } from './temporary-password.ts'
import { findUser } from './user.ts'

export const resetSecondFactor = operation(
  {
    command: 'users reset-second-factor',
    event: 'admin.second_factor_reset',
    request: 'DELETE /users/:user/second-factor',
    summary: 'Remove the second factors of a user',
    description: `With the recovery codes. Ends all sessions. After ${ALARMING_GUESSES} wrong codes with the right password, only together with a new password.`,
    examples: ['ann@example.org --generate'],
    for: 'administrator',
    form: {
      path: 'second-factor/reset',
      title: 'Two-step login',
      about:
        'Only if the phone and the recovery codes are lost. Ends all sessions. Make sure of the person that asks for it: a thief of the password needs only you.',
      label: 'Reset two-step login',
      question: name => `Reset two-step login of ${name}?`,
      isFor: ({ factors }) => factors.length > 0,
      needsRecentLogin: () => true,
      done: 'Two-step login is reset, and all sessions have ended.',
    },
    fields: {
      generate: {
        type: 'boolean',
        about: 'Also generate a temporary password, and print it once.',
        input: { label: 'Also give a temporary password', initial: 'on' },
      },
    },
    data: named(
      'ResetSecondFactor',
      object(
        {
          email: ADDED_USER_FIELDS.email,
          removed: { ...INTEGER, description: 'How many factors.', examples: [1] },
          ...PASSWORD_SHOWN,
        },
        ['email', 'removed'],
      ),
    ),
    failures: ['PASSWORD_KNOWN'],
  },
  async (deps, { named, generate = false }) => {
    const user = await findUser(deps, named)
    const { id, email } = user
    if (!generate && user.failedSecondSteps >= ALARMING_GUESSES) throw passwordKnown(user)
    const password = generate ? generatePassword() : null
    const hash = password && (await deps.hashPassword(password))
    const temporaryUntil = DEFAULT_END(deps.clock())
    const replaced = hash ? { hash, temporaryUntil } : null
    const removed = await deps.store.secondFactors.reset(id, replaced, changeNow(deps))
    if (removed === null) throw userNotFound(email)
    const end = replaced ? { temporaryUntil } : {}
    const data = { email, removed, ...(password && { password }), ...end }
    if (removed === 0 && !replaced) {
      return { data, said: `${email} has no second factor: nothing was changed.` }
    }
    const rest = replaced ? describeEnd(end) : ' The password alone is enough now.'
    const done = removed > 0 ? 'Removed the second factor' : 'Set the password'
    const sentence = `${done} of ${email} and ended all sessions.${rest}`
    return { data, said: { facts: { email, removed, ...end }, sentence } }
  },
  printPassword,
)

/** Without its second factor, the account would be open to a thief that knows the password and asks for the reset. */
function passwordKnown({ email, failedSecondSteps }: { email: string; failedSecondSteps: number }) {
  return new Failure(
    `The second factor of ${email} stays: the right password came with a wrong code ${failedSecondSteps} times, so somebody may know the password, and may be the one that asks for this. Make sure of the person, and add generate: a temporary password then replaces it.`,
    { code: 'password-known', field: 'generate' },
  )
}
