// The file of the admin tokens: their names, roles and digests. The tokens themselves are stored nowhere.
import type { BigIntStats } from 'node:fs'
import { constants, open, stat } from 'node:fs/promises'
import type { Config } from '../../config/config.ts'
import { hasCode, messageOf, replaceFile } from '../../files.ts'
import { checkReaders, type Finding, ok, unsafe, warning } from '../../finding.ts'

export const TOKEN_ROLES = ['read', 'write'] as const
/** More than any deployment needs. The file is parsed in one go. */
const MAX_TOKENS = 100
const MAX_BYTES = 64 * 1024
const NAME = /^[a-z0-9._-]{1,50}$/
const DIGEST = /^[0-9a-f]{64}$/
/** Before the end of a token, as before that of a certificate. */
const WARN_BEFORE_MS = 14 * 24 * 3600_000

export type AdminToken = {
  name: string
  role: (typeof TOKEN_ROLES)[number]
  /** SHA-256 in hex. */
  digest: string
  createdAt: Date
  /** Null for a token that was added before tokens had an end. */
  expiresAt: Date | null
}

/** Its message tells what is wrong with the file. */
export class TokenFileError extends Error {}

/** Why the file of tokens could not be used, and what to do. */
export function explainTokenFile(path: string, error: unknown): string {
  const advice = hasCode(error, 'ENOENT')
    ? 'If the path is right, run "./login-service admin-tokens add" to make it'
    : 'Check ADMIN_TOKENS_FILE and the permissions of the file, or remove it: all tokens are then invalid'
  return `The tokens file ${path} cannot be used: ${messageOf(error)}. ${advice}`
}

/** Empty if the admin API is off. Outside production a broken file is a warning: it is read on each request. */
export async function checkTokens(config: Config, now: Date): Promise<Finding[]> {
  if (config.adminPort === 0) return []
  const { adminTokensFile: path } = config
  let tokens: AdminToken[]
  try {
    ;({ tokens } = await readTokens(path))
  } catch (error) {
    return [unsafe(config)('admin tokens', explainTokenFile(path, error))]
  }
  const readers = await checkReaders(config, 'admin tokens', path)
  const writing = tokens.filter(({ role }) => role === 'write').length
  return [
    readers ?? ok('admin tokens', `${path}: ${tokens.length} tokens, ${writing} of them may write`),
    ...tokens.flatMap(token => {
      const problem = problemWithEnd(token, now)
      const advice = 'add another one, give it to its program and revoke this one'
      return problem
        ? [warning('admin tokens', `the token ${token.name} ${problem}: ${advice}`)]
        : []
    }),
  ]
}

function problemWithEnd(token: AdminToken, now: Date): string | null {
  const { expiresAt } = token
  if (!expiresAt) return 'has no end'
  if (isExpired(token, now)) return `ended at ${expiresAt.toISOString()}`
  const isSoon = expiresAt.getTime() - now.getTime() < WARN_BEFORE_MS
  return isSoon ? `ends at ${expiresAt.toISOString()}` : null
}

export function isExpired({ expiresAt }: AdminToken, now: Date): boolean {
  return expiresAt !== null && expiresAt <= now
}

export function isTokenName(text: string): boolean {
  return NAME.test(text)
}

/** Differs after every change of the file, or of what the path leads to. */
export async function versionOf(path: string): Promise<string> {
  return toVersion(await stat(path, { bigint: true }))
}

/** `version` is that of the content, or an earlier one. */
export async function readTokens(
  path: string,
): Promise<{ tokens: AdminToken[]; version: string; changedAtMs: number }> {
  // Opening a FIFO would wait for its writer.
  const handle = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  try {
    const stats = await handle.stat({ bigint: true })
    if (!stats.isFile()) throw new TokenFileError('it is not a file')
    if (stats.size > MAX_BYTES) throw new TokenFileError(`it has more than ${MAX_BYTES} bytes`)
    const tokens = parse(await handle.readFile('utf8'))
    return { tokens, version: toVersion(stats), changedAtMs: Number(stats.mtimeMs) }
  } finally {
    await handle.close()
  }
}

export async function replaceTokens(path: string, tokens: AdminToken[]): Promise<void> {
  const text = `${JSON.stringify({ tokens }, null, 2)}\n`
  // Checked before it is written: a file that cannot be read would invalidate every token.
  parse(text)
  await replaceFile(path, text, 0o600)
}

function toVersion({ dev, ino, mode, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, mode, size, mtimeNs, ctimeNs].join(' ')
}

function parse(text: string): AdminToken[] {
  let file: unknown
  try {
    file = JSON.parse(text)
  } catch {
    throw new TokenFileError('it is not JSON')
  }
  const list: unknown = Object(file).tokens
  if (!Array.isArray(list)) throw new TokenFileError('it has no list "tokens"')
  if (list.length > MAX_TOKENS) throw new TokenFileError(`it has more than ${MAX_TOKENS} tokens`)
  const tokens = list.map(toToken)
  for (const key of ['name', 'digest'] as const) {
    if (new Set(tokens.map(token => token[key])).size < tokens.length) {
      throw new TokenFileError(`two tokens have the same ${key}`)
    }
  }
  return tokens
}

function toToken(entry: unknown, index: number): AdminToken {
  const { name, role, digest, ...times } = Object(entry) as Record<string, unknown>
  const knownRole = TOKEN_ROLES.find(known => known === role)
  const createdAt = toDate(times.createdAt)
  const expiresAt = times.expiresAt == null ? null : toDate(times.expiresAt)
  if (
    typeof name !== 'string' ||
    !isTokenName(name) ||
    !knownRole ||
    typeof digest !== 'string' ||
    !DIGEST.test(digest) ||
    Number.isNaN(createdAt.getTime()) ||
    Number.isNaN(expiresAt?.getTime())
  ) {
    throw new TokenFileError(
      `token ${index + 1} needs a name, a role, a digest, createdAt and a valid expiresAt`,
    )
  }
  return { name, role: knownRole, digest, createdAt, expiresAt }
}

function toDate(text: unknown): Date {
  return new Date(typeof text === 'string' ? text : Number.NaN)
}
