// Signal handlers: SIGTERM and SIGINT end the service or a long command, SIGHUP reloads files.
import { isatty } from 'node:tty'

const STDIN = 0

export function isOnTerminal(): boolean {
  return isatty(STDIN)
}

/**
 * Resolves with the first signal that asks for the end. The listeners stay, so that a repeated
 * signal does not end the process at once.
 */
export function awaitEnd(reload: () => void): Promise<string> {
  const hadTerminal = isOnTerminal()
  return new Promise(resolve => {
    process.on('SIGTERM', resolve).on('SIGINT', resolve)
    process.on('SIGHUP', signal => {
      // A terminal that closes sends SIGHUP too. The service must then end, after the logins in progress.
      if (hadTerminal && !isOnTerminal()) resolve(signal)
      else reload()
    })
  })
}

const FORWARDED_WITHIN_MS = 1_000

/**
 * Aborts on SIGINT or SIGTERM, so that a command can stop after the step in progress. A signal that comes a second or more
 * later ends the process at once. One that comes sooner is the same: the terminal sends it to all processes, and the
 * launcher forwards it.
 */
export async function untilInterrupted<T>(
  command: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const signals = ['SIGINT', 'SIGTERM'] as const
  const stopListening = () => {
    for (const signal of signals) process.off(signal, abort)
  }
  const abort = () => {
    controller.abort()
    setTimeout(stopListening, FORWARDED_WITHIN_MS).unref()
  }
  for (const signal of signals) process.on(signal, abort)
  try {
    return await command(controller.signal)
  } finally {
    // After an interruption the same signal may still be on its way from the launcher.
    if (!controller.signal.aborted) stopListening()
  }
}
