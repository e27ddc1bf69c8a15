// Loaded into a process before its own code: moves the machine's clock by the milliseconds in a file, which
// a test may replace at any time, or stops it at the time after "=". The monotonic clock goes on.
import { readFileSync } from 'node:fs'

const MachineDate = Date
const file = process.env.MOVED_CLOCK_FILE ?? ''
const now = () => {
  const text = readFileSync(file, 'utf8')
  return text.startsWith('=') ? Number(text.slice(1)) : MachineDate.now() + Number(text)
}

globalThis.Date = new Proxy(MachineDate, {
  construct: (date, given) => Reflect.construct(date, given.length === 0 ? [now()] : given),
  get: (date, name) => (name === 'now' ? now : Reflect.get(date, name)),
})
