// How long things live, in whole seconds as tokens carry them.

export const ACCESS_TOKEN_SECONDS = 3600
export const REFRESH_TOKEN_SECONDS = 7 * 24 * 3600
/** However often it is refreshed, a session ends this long after its login. */
export const SESSION_MAX_SECONDS = 30 * 24 * 3600
