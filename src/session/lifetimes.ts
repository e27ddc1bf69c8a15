// How long things live, in whole seconds as tokens carry them.

export const ACCESS_TOKEN_SECONDS = 3600
export const REFRESH_TOKEN_SECONDS = 7 * 24 * 3600
/** However often it is refreshed, a session ends this long after its login. */
export const SESSION_MAX_SECONDS = 30 * 24 * 3600
/** A session cookie that is not used for so long is dead; its refresh token is not. */
export const COOKIE_IDLE_SECONDS = 30 * 60
/** A used cookie is written down at most this often. */
export const COOKIE_TOUCH_SECONDS = 60
/**
 * A login on a device ends the user's sessions there that were used neither by cookie nor by token for
 * this long: twice the time after which an application refreshes its access token.
 */
export const ABANDONED_SECONDS = 2 * ACCESS_TOKEN_SECONDS
/** For so long after a rotation the old token gets the same successor once more. */
export const REFRESH_GRACE_SECONDS = 10
/** By how much clocks may differ when an access token is verified. */
export const CLOCK_TOLERANCE_SECONDS = 30
export const DEVICE_SECONDS = 180 * 24 * 3600
