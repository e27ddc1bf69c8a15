// Times and durations as they are typed. A time without a zone is UTC: the zone of the machine would make the
// same command mean something else on another one.
import { WrongUse } from '../../system/failures.ts'

const TIME = /^(\d{4}-\d\d-\d\d)(?:(T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(Z|[+-]\d\d:\d\d)?)?$/
const DURATION = /^([1-9]\d{0,4})([mhd])$/
const UNIT_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** PostgreSQL has no year 0, and takes 10000 in another form. */
const FIRST_TIME = new Date('0001-01-01T00:00:00Z')
const LAST_TIME = new Date('9999-12-31T23:59:59.999Z')

/** A moment that is known once the time of the database is. */
export type Moment = (now: Date) => Date

export function parseTypedTime(label: string, typed: string): Date {
  const time = findTime(typed)
  if (time) return time
  throw new WrongUse(
    `${label} takes a time such as 2030-01-31T12:00 (UTC) or 2030-01-31T12:00+09:00.`,
  )
}

/** A time, or a duration from now on. */
export const endParser = (label: string) => momentParser(label, 1)
/** A time, or a duration until now. */
export const startParser = (label: string) => momentParser(label, -1)

function momentParser(label: string, direction: 1 | -1) {
  return (typed: string): Moment => {
    const time = findTime(typed)
    if (time) return () => time
    const [, amount, unit = ''] = DURATION.exec(typed) ?? []
    const durationMs = Number(amount) * (UNIT_MS[unit] ?? Number.NaN)
    if (durationMs > 0) return now => new Date(now.getTime() + direction * durationMs)
    throw new WrongUse(
      `${label} takes a time such as 2030-01-31T12:00 (UTC) or a duration such as 90m, 2h or 30d.`,
    )
  }
}

function findTime(typed: string): Date | null {
  const [, day = '', clock = '', zone = 'Z'] = TIME.exec(typed) ?? []
  const time = new Date(clock === '' ? day : day + clock + zone)
  // February 30 would silently become March 2.
  const isTime =
    isValid(new Date(day), day) && isValid(time) && time >= FIRST_TIME && time <= LAST_TIME
  return isTime ? time : null
}

function isValid(time: Date, start = ''): boolean {
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(start)
}
