// Measures whether logins become slower as the tables grow.
import { startBareBcrypt } from '../bare-bcrypt.ts'
import { loopbackAddress } from '../clients.ts'
import { Connection } from '../connection.ts'
import { type Findings, fixed, type Run } from '../findings.ts'
import { linePlot } from '../plot.ts'
import { CHEAP_COST, COST, emailOf, loginRequest, seedUsers } from '../seed.ts'
import { CHEAP_NATIVE, type Deployment, deploy, type Service } from '../service.ts'
import { createRandom, median } from '../statistics.ts'

const ENGINES = ['sqlite', 'postgres'] as const
const SESSIONS_EACH = 5

type Size = {
  engine: string
  users: number
  loginMs: number
  bareHashMs: number
  /** The time of a login without its hash, at the cheap cost. */
  restMs: number
}

/** One growing database per engine. Logins and bare hashes are measured in turn. */
export async function measureGrowth({ isQuick, progress }: Run): Promise<Findings> {
  const sizes = isQuick ? [1_000, 10_000, 30_000] : [1_000, 100_000, 1_000_000]
  const logins = isQuick ? 10 : 60
  const found: Size[] = []
  for (const engine of ENGINES) {
    const deployment = await deploy(engine)
    let from = 0
    for (const users of sizes) {
      await seedUsers(deployment.database.config, {
        from,
        to: users,
        sessionsEach: SESSIONS_EACH,
        onProgress: done => progress(`${engine}: ${done} of ${users} users inserted`),
      })
      from = users
      progress(`${engine}: logins among ${users} users`)
      found.push({ engine, users, ...(await measureSize(deployment, users, logins)) })
    }
    await deployment.remove()
  }
  return toFindings(found, logins)
}

async function measureSize(deployment: Deployment, users: number, logins: number) {
  const service = await deployment.start()
  const { loginMs, hashMs } = await inTurn(service, users, COST, 5, logins)
  await service.stop()
  const cheap = await deployment.start(CHEAP_NATIVE)
  const cheaply = await inTurn(cheap, users, CHEAP_COST, logins * 5, logins * 10)
  await cheap.stop()
  return { loginMs, bareHashMs: hashMs, restMs: cheaply.loginMs - cheaply.hashMs }
}

/** The medians of logins of random users and of bare hashes, measured in turn. */
async function inTurn(
  { target }: Service,
  users: number,
  cost: number,
  warmUpLogins: number,
  logins: number,
) {
  const bare = startBareBcrypt()
  const random = createRandom(users)
  const connection = new Connection(target, loopbackAddress(0))
  const loginMs: number[] = []
  const hashMs: number[] = []
  for (let login = -warmUpLogins; login < logins; login++) {
    const request = loginRequest(emailOf(Math.floor((random() * users) / 2), cost))
    const startMs = performance.now()
    const { status } = await connection.send(request)
    const elapsedMs = performance.now() - startMs
    if (status !== 200) throw new Error(`a login among ${users} users was answered ${status}`)
    const { msEach } = await bare.single(cost)
    if (login < 0) continue
    loginMs.push(elapsedMs)
    hashMs.push(...msEach)
  }
  connection.close()
  await bare.stop()
  return { loginMs: median(loginMs), hashMs: median(hashMs) }
}

function toFindings(found: Size[], logins: number): Findings {
  const normalised = ({ loginMs, bareHashMs }: Size) => loginMs / bareHashMs
  const perEngine = ENGINES.map(engine => ({
    engine,
    sizes: found.filter(size => size.engine === engine),
  }))
  return {
    title: 'logins among many users',
    tables: [
      {
        title: `p50 of ${logins} logins of random users, ${SESSIONS_EACH} sessions and refresh tokens each`,
        head: [
          'engine',
          'users',
          `login, cost ${COST}`,
          'bare hash',
          'login ÷ hash',
          'all but the hash',
        ],
        rows: found.map(size => [
          size.engine,
          size.users.toLocaleString('en'),
          `${fixed(size.loginMs, 1)} ms`,
          `${fixed(size.bareHashMs, 1)} ms`,
          fixed(normalised(size), 3),
          `${fixed(size.restMs, 2)} ms`,
        ]),
      },
    ],
    targets: perEngine.flatMap(({ engine, sizes }) => {
      const [smallest, largest] = [sizes[0], sizes.at(-1)]
      if (!smallest || !largest) return []
      const label = `${largest.users.toLocaleString('en')} ÷ ${smallest.users.toLocaleString('en')}`
      return [
        {
          name: `login ÷ hash, ${label} users, ${engine}`,
          figure: normalised(largest) / normalised(smallest),
          digits: 3,
          unit: '',
          is: 'at most' as const,
          limit: 1.1,
        },
      ]
    }),
    plots: [
      {
        file: 'growth.svg',
        title: 'Everything but the hash over users',
        svg: linePlot({
          title: `All but the hash of a login, by users (p50, cost ${CHEAP_COST})`,
          x: { label: 'users', scale: 'log' },
          y: { label: 'milliseconds', scale: 'linear' },
          lines: perEngine.map(({ engine, sizes }) => ({
            name: engine,
            points: sizes.map(({ users, restMs }) => ({ x: users, y: restMs })),
          })),
        }),
      },
    ],
    measured: found,
  }
}
