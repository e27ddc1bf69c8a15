// Notices that the process has no file descriptor left. Node then closes new connections at once, without a sign.
import { close, open } from 'node:fs'
import { devNull } from 'node:os'
import { hasCode } from './files.ts'
import type { Log } from './log/log.ts'

const CHECK_EVERY_MS = 1_000

export function watchDescriptors(log: Log): { close: () => void } {
  let isUsedUp = false
  const watching = setInterval(() => {
    open(devNull, (error, descriptor) => {
      const isNowUsedUp = hasCode(error, 'EMFILE') || hasCode(error, 'ENFILE')
      if (isNowUsedUp && !isUsedUp) {
        log.error(
          { event: 'descriptors.used_up' },
          'no file descriptor is left, so connections are refused: raise the limit of open files (LimitNOFILE in systemd)',
        )
      }
      if (!isNowUsedUp && isUsedUp) log.info({ event: 'descriptors.free_again' })
      isUsedUp = isNowUsedUp
      if (!error) close(descriptor)
    })
  }, CHECK_EVERY_MS).unref()
  return { close: () => clearInterval(watching) }
}
