// The test command: one PostgreSQL for all files, then Node's test runner over what was asked for.
import { spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { startPostgres } from './postgres-server.ts'

const asked = process.argv.slice(2)
const files =
  asked.length > 0 ? asked : ['src/**/*.test.ts', 'test/storage/*.contract.ts', 'test/*.test.ts']

const postgres = process.env.TEST_DATABASE_URL ? null : await startPostgres()
const runner = spawn(process.execPath, ['--test', '--test-concurrency=2', ...files], {
  stdio: 'inherit',
  env: {
    ...process.env,
    TEST_DATABASE_URL: process.env.TEST_DATABASE_URL ?? postgres?.url,
    // Hundreds of processes start: each would strip the types anew.
    NODE_COMPILE_CACHE: resolve('node_modules/.cache'),
  },
})
// A signal to the group reaches the runner by itself; this process stays to stop the server.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => runner.kill(signal))
process.exitCode = await new Promise<number>(resolve =>
  runner.once('exit', code => resolve(code ?? 1)),
)
await postgres?.stop()
