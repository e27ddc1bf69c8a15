// Sends a login or a change of the password.
import { call } from './api.js'
import { say, text } from './dom.js'

/**
 * @typedef {{ email: string, currentPassword: string, newPassword: string }} PasswordChange
 * @typedef {import('./api.js').Answer & { advice?: import('./dom.js').TextKey }} ChangeAnswer
 */

const RETRY_DEFAULT_SECONDS = 2
const RETRY_MAX_SECONDS = 30

/** The new password of a change whose answer was lost, until it is known whether the change was made. */
let unconfirmed = ''

/**
 * Tries an overloaded service once more, after the time in its Retry-After header.
 * @param {'/login' | '/password'} path
 * @param {object} body
 */
export async function sendCredentials(path, body) {
  const first = await call('POST', path, body)
  if (first.status !== 503) return first
  say(text('busyRetrying'), 'information')
  const seconds = Math.min(first.retryAfterSeconds ?? RETRY_DEFAULT_SECONDS, RETRY_MAX_SECONDS)
  await new Promise(resolve => setTimeout(resolve, seconds * 1000))
  return call('POST', path, body)
}

/**
 * If the answer is lost, a login with the new password shows whether the change was made. If that cannot be
 * found out either, the next attempt does it, when the current password is not right any more.
 * @param {PasswordChange} change
 * @returns {Promise<ChangeAnswer>}
 */
export async function sendChange(change) {
  const { email, newPassword } = change
  const first = await sendCredentials('/password', change)
  if (isLost(first)) unconfirmed = newPassword
  else if (first.status !== 401 || !unconfirmed) return first
  // The user may have chosen another password since.
  const second =
    unconfirmed === newPassword
      ? await sendCredentials('/login', { email, password: unconfirmed })
      : await sendCredentials('/password', { ...change, currentPassword: unconfirmed })
  if (isLost(second)) return { ...second, advice: 'changeUnclear' }
  if (second.status !== 401) return second
  unconfirmed = ''
  return isLost(first) ? { ...second, advice: 'changeFailed' } : second
}

/**
 * True if the service may have done what it was asked. It has not if it is overloaded (503).
 * @param {import('./api.js').Answer} answer
 */
function isLost({ status }) {
  return status === 0 || (status >= 500 && status !== 503)
}

/** A password must not stay in the page. */
export function forgetUnconfirmed() {
  unconfirmed = ''
}
