// Ports: bound, or refused with what to change.
import type { Server } from 'node:net'
import { codeOf, hasCode } from './error-code.ts'
import { StartError } from './start-error.ts'

export function addressOf(host: string, port: number, isEncrypted: boolean): string {
  const name = host.includes(':') ? `[${host}]` : host
  return `${isEncrypted ? 'https' : 'http'}://${name}:${port}`
}

/** Returns the port that was bound. */
export async function listen(
  server: Server,
  port: number,
  host: string,
  variable: string,
): Promise<number> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(port, host, resolve)
    })
  } catch (error) {
    if (hasCode(error, 'EADDRINUSE')) {
      throw new StartError(`Port ${port} is taken: stop the other process or set ${variable}.`)
    }
    const hostVariable = variable.replace('PORT', 'HOST')
    throw new StartError(
      `${host}:${port} cannot be listened on (${codeOf(error)}): set ${hostVariable} or ${variable}.`,
    )
  }
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  return address.port
}
