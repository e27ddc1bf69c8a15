// Waiting with a limit.

export class TimeUp extends Error {}

/** Rejects with TimeUp if the promise is not settled in time. What it waits for continues. */
export async function within<T>(promise: Promise<T>, limitMs: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const timeUp = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeUp(`timeout: ${what}`)), Math.max(1, limitMs))
  })
  try {
    return await Promise.race([promise, timeUp])
  } finally {
    clearTimeout(timer)
  }
}
