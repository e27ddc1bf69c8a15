// A request of the admin API, with every fault of every operation on the file of the tokens: it is answered or refused,
// and the next one works.
import { utimes } from 'node:fs/promises'
import { test } from 'node:test'
import { startAdminService } from '../admin-service.ts'
import { createFaults } from './faults.ts'
import { findLeftOpen, injectIntoFiles } from './file-faults.ts'
import { type Judge, proveAll } from './loop.ts'
import { createRequests, judgeRequests, type Request, type Response } from './requests.ts'

test('the file of the tokens, as the service reads it', async t => {
  const faults = createFaults()
  const service = await startAdminService('sqlite')
  t.after(service.stop)
  t.after(await injectIntoFiles(faults))
  const shared = judgeRequests(createRequests(service))
  const request: Request = {
    title: 'GET /users after a change of the tokens',
    success: 200,
    async prepare() {
      await utimes(service.tokensFile, new Date(), new Date())
      return { email: null, run: () => service.admin('GET', '/users') }
    },
  }
  const judge: Judge<Response> = {
    ...shared,
    findWrongFailure: ({ status, text }) =>
      status === 401 && text.includes('INVALID_TOKEN') ? null : `the answer ${status} ${text}`,
    findProblems: async (prepared, met) => [
      ...(await findLeftOpen()),
      ...(await shared.findProblems(prepared, met)),
    ],
  }
  const proof = { faults, judge, unit: 'file', engine: 'sqlite' } as const
  await proveAll(t, 'admin API, operations on the file of tokens', [request], proof)
})
