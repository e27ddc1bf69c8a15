// Loaded into a process before its own code: what it does every minute, it does every 200 ms.
const { setInterval } = globalThis

const faster: typeof setInterval = Object.assign(
  (callback: (...values: unknown[]) => void, ms?: number, ...values: unknown[]) =>
    setInterval(callback, ms === 60_000 ? 200 : ms, ...values),
  setInterval,
)
globalThis.setInterval = faster
