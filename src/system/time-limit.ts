// Waiting with a limit.

export class TimeUp extends Error {}

/** Rejects with TimeUp if the promise is not settled in time. What it waits for continues. */
export function within<T>(promise: Promise<T>, limitMs: number, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new TimeUp(`timeout: ${what}`)), Math.max(1, limitMs))
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
