// The user of the operating system that runs a command, for the log and the audit.
import { hostname, userInfo } from 'node:os'
import type { Actor } from '../domain/audit.ts'

export function commandActor(): Actor {
  return { kind: 'user', name: userName(), host: hostname() }
}

/** In a container the user may have no name. */
function userName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}
