// A hostile header, address or body costs the service about as much CPU time as a plain request of the
// same route.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Connection } from '../../bench/connection.ts'
import { FORWARDED_INPUTS, INPUTS, type Input, PIECES } from '../parser-inputs.ts'
import { startTestService, type TestService, UNLIMITED } from '../service.ts'

/** A hostile request has 15 KB more to decrypt and to read than a plain one. */
const MAX_RATIO = 5
/** A plain request that takes less counts as this long, because shorter times are mostly noise. */
const FLOOR_MS = 1
const REPETITIONS = 5
/** Noise such as a garbage collection only adds time, so one measurement within the limit is enough. */
const MEASUREMENTS = 20

const SERVICES: [caller: string, env: Record<string, string>, inputs: Input[]][] = [
  ['a direct caller', { RETURN_TO_ORIGINS: 'https://app.example.com' }, INPUTS],
  ['a caller behind a proxy', { TRUST_PROXY: '127.0.0.1/32, 10.0.0.0/8' }, FORWARDED_INPUTS],
]

for (const [caller, env, inputs] of SERVICES) {
  describe(`the CPU time that ${caller} can take`, () => {
    let service: TestService
    let connection: Connection
    before(async () => {
      service = await startTestService('sqlite', { ...UNLIMITED, ...env })
      const { port, protocol } = new URL(service.url)
      const certificateFile = join(service.dataDir, 'development-cert.pem')
      const certificate = protocol === 'https:' ? await readFile(certificateFile) : null
      connection = new Connection({ port: Number(port), certificate }, '127.0.0.1')
    })
    after(async () => {
      connection.close()
      await service.stop()
    })

    /** The time of client and service together, which share this process. */
    async function cpuMsOf(request: Buffer): Promise<number> {
      const start = process.cpuUsage()
      const { status } = await connection.send(request)
      const { user, system } = process.cpuUsage(start)
      assert.ok(status >= 200, `answered ${status}`)
      return (user + system) / 1_000
    }

    async function medianCpuMsOf(request: Buffer): Promise<number> {
      const times: number[] = []
      for (let i = 0; i < REPETITIONS; i++) times.push(await cpuMsOf(request))
      return times.toSorted((a, b) => a - b)[Math.floor(REPETITIONS / 2)] ?? 0
    }

    for (const { name, plain, hostile } of inputs) {
      test(`is that of a plain request, whatever is in ${name}`, async context => {
        await medianCpuMsOf(plain)
        let plainMs = await medianCpuMsOf(plain)
        let worst = { ms: 0, piece: '' }
        for (const piece of PIECES) {
          const request = hostile(piece)
          let isWithin = false
          for (let i = 0; i < MEASUREMENTS && !isWithin; i++) {
            if (i > 0) plainMs = await medianCpuMsOf(plain)
            const ms = await cpuMsOf(request)
            isWithin = ms <= MAX_RATIO * Math.max(plainMs, FLOOR_MS)
            if (ms > worst.ms && (isWithin || i === MEASUREMENTS - 1)) worst = { ms, piece }
          }
          assert.ok(isWithin, `${JSON.stringify(piece)}: ${worst.ms} ms, plain ${plainMs} ms`)
        }
        const figures = `${worst.ms.toFixed(2)} ms, plain ${plainMs.toFixed(2)} ms`
        context.diagnostic(`at most ${figures}, with ${JSON.stringify(worst.piece)}`)
      })
    }
  })
}
