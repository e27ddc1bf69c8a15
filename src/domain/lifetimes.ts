// Lifetimes of tokens, sessions, cookies and devices, in whole seconds as in tokens; and the length of a day.

export const DAY_MS = 24 * 3600_000
export const ACCESS_TOKEN_SECONDS = 3600
export const REFRESH_TOKEN_SECONDS = 7 * 24 * 3600
/** The use of a cookie is stored at most this often. */
export const COOKIE_TOUCH_SECONDS = 60
/**
 * A login on a device ends the user's sessions there that were used neither by cookie nor by token for
 * this long: twice the time after which an application refreshes its access token.
 */
export const ABANDONED_SECONDS = 2 * ACCESS_TOKEN_SECONDS
/**
 * The grace period: for this long, a replaced refresh token gets the same successor again. Longer than a
 * failover or stall of the database: a refresh may be stored although its caller got a 500.
 */
export const REFRESH_GRACE_SECONDS = 60
/** It covers the way from the login page to the application, which redeems the code at once. */
export const CODE_SECONDS = 60
/** Absolute expiry of a session of the console: a working day. */
export const CONSOLE_SESSION_SECONDS = 12 * 3600
/** How much clocks may differ when an access token is verified. */
export const CLOCK_TOLERANCE_SECONDS = 30
/**
 * For this long an ended session is stored, and services that verify access tokens can learn of its end: longer than they
 * accept its token.
 */
export const ENDED_LISTED_SECONDS = ACCESS_TOKEN_SECONDS + 5 * 60
/** For this long the row of a replaced refresh token is kept. The token ends its session without a row too. */
export const REPLACED_KEPT_SECONDS = ENDED_LISTED_SECONDS
/** A temporary password is valid for this long, unless an administrator says otherwise. */
export const TEMPORARY_PASSWORD_SECONDS = 72 * 3600
export const TEMPORARY_PASSWORD_MIN_SECONDS = 3600
export const TEMPORARY_PASSWORD_MAX_SECONDS = 30 * 24 * 3600
/** Idle expiry: a device without a login for this long is forgotten. */
export const DEVICE_IDLE_SECONDS = 180 * 24 * 3600
/** Absolute expiry, from the first login on the device. */
export const DEVICE_MAX_SECONDS = 365 * 24 * 3600
