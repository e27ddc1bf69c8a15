import { describe, test } from 'node:test'
import { proveNoAnswerIsLost } from '../crash-cycles.ts'
import { ENGINES } from '../engines.ts'
import { createDeployment } from '../process.ts'

const CYCLES = 12

describe(`after ${CYCLES} kills (SIGKILL) under load`, { concurrency: true }, () => {
  for (const engine of ENGINES) {
    test(`no answered login is lost on ${engine}`, async () => {
      const deployment = await createDeployment(engine)
      try {
        await proveNoAnswerIsLost(deployment, CYCLES)
      } finally {
        await deployment.remove()
      }
    })
  }
})
