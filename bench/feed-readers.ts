// A thread of callers that read all pages of the feed of ended sessions again and again, until the thread is ended.
import { Agent, get } from 'node:https'
import { workerData } from 'node:worker_threads'

/** Counts the pages, how many times a caller has read all of them, and the answers that were no page. */
export type ReadersData = { url: string; readers: number; counts: Int32Array<SharedArrayBuffer> }

const NEXT = /"next":"([^"]+)","more":(true|false)\}$/
const { url, readers, counts }: ReadersData = workerData
const agent = new Agent({ keepAlive: true, rejectUnauthorized: false })

/** Keeps only the end of the answer, as a caller that has the ids elsewhere. */
function read(after: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const query = after && `?after=${after}`
    get(`${url}${query}`, { agent }, answer => {
      let end = ''
      answer.on('data', chunk => {
        end = (end + chunk.subarray(-200).toString()).slice(-200)
      })
      answer.on('end', () => resolve(end))
    }).on('error', reject)
  })
}

async function readAgain(): Promise<never> {
  for (let after = ''; ; ) {
    const [, next = '', more] = NEXT.exec(await read(after)) ?? []
    Atomics.add(counts, next ? 0 : 2, 1)
    if (more === 'false') Atomics.add(counts, 1, 1)
    after = more === 'true' ? next : ''
  }
}
await Promise.all(Array.from({ length: readers }, readAgain))
