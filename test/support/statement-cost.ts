// What PostgreSQL is sent, and answers.
import pg from 'pg'

/** What the driver sends during a call, and gets. A round trip begins with what is sent while no answer is awaited. */
export async function costOf(call: () => Promise<unknown>) {
  const original = pg.Client.prototype.query
  const cost = { statements: 0, roundTrips: 0, rows: 0 }
  let unanswered = 0
  async function query(this: pg.Client, ...parameters: unknown[]) {
    cost.statements++
    if (unanswered++ === 0) cost.roundTrips++
    const result = await Reflect.apply(original, this, parameters)
    unanswered--
    cost.rows += result.rowCount ?? 0
    return result
  }
  Reflect.set(pg.Client.prototype, 'query', query)
  try {
    await call()
    return cost
  } finally {
    Reflect.set(pg.Client.prototype, 'query', original)
  }
}
