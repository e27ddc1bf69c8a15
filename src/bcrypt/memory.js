// The memory of the kernel: one region per lane, then the initial state. In plain JavaScript, because the
// worker imports it: a worker that runs TypeScript needs 22 MiB more.

/** No processor that was tried gains from the sixth. */
export const MAX_LANES = 6

/** Bytes of P and the four S-boxes, with which each region begins. */
export const STATE_BYTES = 4 * 18 + 4 * 1024
/** 18 words: the password and its NUL, repeated. */
export const KEY_AT = STATE_BYTES
/** 18 words: the salt, repeated. */
export const SALT_AT = KEY_AT + 4 * 18
/** Six words: the digest. */
export const OUTPUT_AT = SALT_AT + 4 * 18

/** All of the above, rounded up. */
export const LANE_BYTES = 4_352
export const INITIAL_AT = MAX_LANES * LANE_BYTES
