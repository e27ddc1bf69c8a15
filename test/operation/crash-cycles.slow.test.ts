import { describe, test } from 'node:test'
import { proveNoAnswerIsLost } from '../support/crash-cycles.ts'
import { ENGINES } from '../support/engines.ts'
import { createDeployment } from '../support/process.ts'
import { casesOf } from '../support/proof.ts'

const CYCLES = casesOf(12)

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
