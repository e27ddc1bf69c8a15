// doctor: what is configured, what is unsafe, whether TLS, keys, database and clock are in order.
import { Command } from 'commander'
import { type Config, ConfigError, loadConfig } from '../config.ts'
import { daysLeft, loadTls } from '../http/tls.ts'
import { createPasswords } from '../login/passwords.ts'
import { isOpenToOthers, loadKeySet } from '../session/key-file.ts'
import { describeDatabase, openStore } from '../storage/open-store.ts'
import type { Store } from '../storage/store.ts'
import type { Context } from './context.ts'
import { Refusal } from './terminal.ts'

type Finding = { check: string; state: 'ok' | 'warning' | 'problem'; detail: string }

const EXPIRY_WARNING_DAYS = 14
const CLOCK_TOLERANCE_MS = 5_000
/** When this was written: a clock before it is wrong, and tokens would be born expired. */
const RELEASED = new Date('2026-11-01T00:00:00Z')

export function doctorCommand(context: Context): Command {
  return new Command('doctor')
    .description('check the configuration and everything that it points to')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const findings = await examine(context)
      if (json) context.terminal.printJson(findings)
      else context.terminal.printTable(findings)
      const problems = findings.filter(({ state }) => state === 'problem').length
      if (problems > 0)
        throw new Refusal(`${problems} ${problems === 1 ? 'problem' : 'problems'} found.`)
    })
}

async function examine({ env, clock }: Context): Promise<Finding[]> {
  let config: Config
  try {
    config = loadConfig(env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(problem('configuration'))
  }
  const now = clock()
  return [
    ...checkConfiguration(config),
    ...(await checkTls(config, now)),
    ...(await checkKeys(config)),
    ...(await checkDatabase(config, now)),
    await checkPasswords(config),
    checkClock(now),
  ]
}

function checkConfiguration(config: Config): Finding[] {
  const { environment, corsOrigins, warnings } = config
  return [
    environment === 'production'
      ? ok('configuration')('production')
      : warning('configuration')(
          `${environment}: set NODE_ENV=production to refuse unsafe settings`,
        ),
    ok('cors')(
      corsOrigins
        ? corsOrigins.join(', ')
        : environment === 'production'
          ? 'none'
          : 'any, for development',
    ),
    ...warnings.map(warning('configuration')),
  ]
}

async function checkTls(config: Config, now: Date): Promise<Finding[]> {
  const findings: Finding[] = []
  if (config.trustedProxies.length > 0) {
    findings.push(ok('proxy')(`trusts ${config.trustedProxies.join(', ')}`))
  }
  try {
    const tls = await loadTls(config, now)
    if (!tls) return [...findings, ok('tls')('ended by the proxy in front')]
    const days = Math.floor(daysLeft(tls.cert, now))
    const term = `certificate valid for ${days} more days`
    if (days < 0) findings.push(problem('tls')('the certificate has expired: renew it'))
    else if (days < EXPIRY_WARNING_DAYS) findings.push(warning('tls')(`${term}: renew it soon`))
    else if (!config.tls)
      findings.push(warning('tls')(`development ${term}: browsers will not trust it`))
    else findings.push(ok('tls')(term))
  } catch (error) {
    findings.push(problem('tls')(`the certificate cannot be used: ${messageOf(error)}`))
  }
  return findings
}

async function checkKeys({ signingKeysFile: path, environment }: Config): Promise<Finding[]> {
  try {
    const { accessKeys, refreshKeys } = await loadKeySet(path)
    if (await isOpenToOthers(path)) {
      const found = environment === 'production' ? problem : warning
      return [found('keys')(`${path} can be read by others: chmod 600 it`)]
    }
    return [
      ok('keys')(
        `${accessKeys.length} for access tokens, ${refreshKeys.length} for refresh tokens`,
      ),
    ]
  } catch (error) {
    const found = environment === 'production' ? problem : warning
    return [found('keys')(`${path}: ${messageOf(error)}; "keys rotate" makes the file`)]
  }
}

async function checkDatabase(config: Config, now: Date): Promise<Finding[]> {
  const store = openStore(config.database)
  try {
    const pending = (await store.listMigrations()).filter(({ appliedAt }) => appliedAt === null)
    if (pending.length > 0) {
      return [
        warning('database')(
          `${describeDatabase(config.database)}: not up to date; run "database migrate"`,
        ),
      ]
    }
    await store.checkWritable(now)
    return [
      ok('database')(describeDatabase(config.database)),
      await checkHashes(store, config.bcryptCost),
      await checkDatabaseClock(store, now),
    ]
  } catch (error) {
    return [problem('database')(`${describeDatabase(config.database)}: ${messageOf(error)}`)]
  } finally {
    await store.close()
  }
}

async function checkHashes(store: Store, bcryptCost: number): Promise<Finding> {
  const costs = await store.countHashCosts()
  const above = costs.filter(({ cost }) => cost !== null && cost > bcryptCost)
  const unusable = costs.filter(({ cost }) => cost === null || cost > 15)
  const users = (some: { users: number }[]) => some.reduce((sum, { users }) => sum + users, 0)
  if (unusable.length > 0) {
    return warning('hashes')(
      `${users(unusable)} users have a hash that cannot be evaluated: set new passwords`,
    )
  }
  if (above.length > 0) {
    return warning('hashes')(
      `${users(above)} users have a hash above BCRYPT_COST ${bcryptCost}: their logins take longer than others'`,
    )
  }
  return ok('hashes')(`${users(costs)} users, none above BCRYPT_COST ${bcryptCost}`)
}

async function checkDatabaseClock(store: Store, now: Date): Promise<Finding> {
  const databaseNow = await store.readClock()
  if (databaseNow === null) return ok('database clock')('this machine’s')
  const apartMs = Math.abs(databaseNow.getTime() - now.getTime())
  return apartMs <= CLOCK_TOLERANCE_MS
    ? ok('database clock')('agrees with this machine’s')
    : warning('database clock')(
        `${Math.round(apartMs / 1000)} s apart from this machine’s: synchronise both`,
      )
}

async function checkPasswords({ bcryptCost }: Config): Promise<Finding> {
  const passwords = await createPasswords(bcryptCost, 1)
  const start = performance.now()
  await passwords.verify('', null)
  const ms = Math.round(performance.now() - start)
  const found = ms < 1_000 ? ok : warning
  return found('passwords')(
    `bcrypt cost ${bcryptCost} takes ${ms} ms here${ms < 1_000 ? '' : ': a login cannot stay under a second'}`,
  )
}

function checkClock(now: Date): Finding {
  return now > RELEASED
    ? ok('clock')(now.toISOString())
    : problem('clock')(`${now.toISOString()} is in the past: set it, tokens depend on it`)
}

const finding =
  (state: Finding['state']) =>
  (check: string) =>
  (detail: string): Finding => ({ check, state, detail })
const ok = finding('ok')
const warning = finding('warning')
const problem = finding('problem')

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
