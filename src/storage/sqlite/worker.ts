// The thread that uses the SQLite file for the service. Operations that arrive while it syncs a commit wait,
// and then share the next commit (`group-commit.ts`).
import { parentPort, workerData } from 'node:worker_threads'
import { operationOf } from '../../domain/operations.ts'
import { openStore } from '../open-store.ts'
import { checkDeadline, deadlines } from './deadline.ts'
import type { Answer, Call } from './thread.ts'

const store = await openStore({ engine: 'sqlite', file: workerData })
const running = new Set<Promise<void>>()

async function run({ id, operation, values, deadlineMs }: Call): Promise<void> {
  const post = (answer: Answer) => parentPort?.postMessage(answer)
  if (operation === 'close') await Promise.all(running)
  try {
    checkDeadline(deadlineMs)
    const execute = operation === 'close' ? store.close : operationOf(store, operation)
    post({ id, result: await deadlines.run(deadlineMs, () => execute(...values)) })
  } catch (error) {
    post({ id, error, properties: { ...Object(error) } })
  }
}

parentPort?.on('message', (call: Call) => {
  const ended = run(call).then(() => {
    running.delete(ended)
  })
  running.add(ended)
})
