// Measures the processor time of a login without its hash, in the process of the service.
import { startBareBcrypt } from '../bare-bcrypt.ts'
import { BLOCKED, block, loopbackAddress } from '../clients.ts'
import { demandOnly, runClosedLoop } from '../closed-loop.ts'
import { type Findings, fixed, type Run } from '../findings.ts'
import { CHEAP_COST, loginRequest, rightLogins } from '../seed.ts'
import { CHEAP_NATIVE, deploy, type Service } from '../service.ts'

const USERS = 2_000
const CONNECTIONS = 4
const ENGINES = ['sqlite', 'postgres'] as const
/** Lets few addresses send thousands of wrong passwords. The other budgets keep their defaults. */
const ENV = { ...CHEAP_NATIVE, THROTTLE_CLIENT_FAILURES: '1000000000' }

type Kind = { name: string; status: number; hashes: number; request: (index: number) => Buffer }

const KINDS: Kind[] = [
  { name: 'login, 200', status: 200, hashes: 1, request: rightLogins(USERS, CHEAP_COST) },
  {
    name: 'unknown email, 401',
    status: 401,
    hashes: 1,
    request: index => loginRequest(`unknown${index}@example.com`),
  },
  {
    name: 'too many attempts, 429',
    status: 429,
    hashes: 0,
    request: () => loginRequest(BLOCKED),
  },
  { name: 'empty email, 400', status: 400, hashes: 0, request: () => loginRequest('') },
]

export async function measureOverhead({ isQuick, progress }: Run): Promise<Findings> {
  const sliceMs = isQuick ? 1_500 : 10_000
  const bare = startBareBcrypt()
  progress('the bare hash')
  const { cpuMsEach: hashMs } = await bare.saturate(CHEAP_COST, sliceMs)
  await bare.stop()
  const costs: { engine: string; name: string; cpuMs: number; withoutHashMs: number }[] = []
  for (const engine of ENGINES) {
    const deployment = await deploy(engine, USERS)
    const service = await deployment.start(ENV)
    await block(service.target, BLOCKED)
    for (const kind of KINDS) {
      progress(`${kind.name} on ${engine}`)
      const cpuMs = await cpuPerRequest(service, kind, sliceMs)
      costs.push({ engine, name: kind.name, cpuMs, withoutHashMs: cpuMs - kind.hashes * hashMs })
    }
    await deployment.remove()
  }
  return {
    title: `processor time besides the hash, at cost ${CHEAP_COST}`,
    tables: [
      {
        title: `Time on the cores, one bare hash of cost ${CHEAP_COST} being ${fixed(hashMs, 2)} ms`,
        head: ['', 'engine', 'in all', 'without the hash'],
        rows: costs.map(({ engine, name, cpuMs, withoutHashMs }) => [
          name,
          engine,
          `${fixed(cpuMs, 2)} ms`,
          `${fixed(withoutHashMs, 2)} ms`,
        ]),
      },
    ],
    targets: costs
      .filter(({ name }) => name === KINDS[0]?.name)
      .map(({ engine, withoutHashMs }) => ({
        name: `a login besides its hash, ${engine}`,
        figure: withoutHashMs,
        digits: 2,
        unit: 'ms',
        is: 'below',
        limit: 2,
      })),
    plots: [],
    measured: { hashMs, costs },
  }
}

async function cpuPerRequest(service: Service, kind: Kind, sliceMs: number): Promise<number> {
  const { target } = service
  // All requests come from the address for which one email is blocked.
  const addressOf = () => loopbackAddress(0)
  const loop = { target, connections: CONNECTIONS, request: kind.request, addressOf }
  // A warm-up, because the first thousands of requests run in code that is not yet optimised.
  demandOnly(await runClosedLoop({ ...loop, durationMs: sliceMs }), kind.status)
  const beforeMs = await service.cpuMs()
  const lanes = await runClosedLoop({ ...loop, durationMs: sliceMs })
  demandOnly(lanes, kind.status)
  return ((await service.cpuMs()) - beforeMs) / lanes.flat().length
}
