// What the system calls an error, as ENOENT or EADDRINUSE.

export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

export function hasCode(error: unknown, ...codes: string[]): boolean {
  return codes.includes(codeOf(error))
}
