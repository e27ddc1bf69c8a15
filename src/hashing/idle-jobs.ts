// Jobs that no caller waits for. They run one at a time, when a core is idle.

export type IdleJobs = {
  /** The result of the job; null, without running it, if too many wait. */
  run<T>(job: () => Promise<T>): Promise<T | null>
  /** Must be called when a core may have become idle. */
  startNext(): void
}

export function createIdleJobs(mostWaiting: number, isCoreIdle: () => boolean): IdleJobs {
  const waiting: (() => void)[] = []
  let isRunning = false

  function startNext(): void {
    const begin = !isRunning && isCoreIdle() ? waiting.shift() : undefined
    if (!begin) return
    isRunning = true
    begin()
  }

  return {
    startNext,
    async run(job) {
      if (waiting.length >= mostWaiting) return null
      await new Promise<void>(resolve => {
        waiting.push(resolve)
        startNext()
      })
      try {
        return await job()
      } finally {
        isRunning = false
        startNext()
      }
    },
  }
}
