// Threads of services in this process that die.
import { mock } from 'node:test'
import { Worker } from 'node:worker_threads'

/** During the action, a thread dies when it gets a message that `isMeant` chooses. */
export async function whileThreadsDie<T>(
  isMeant: (message: object) => boolean,
  action: () => Promise<T>,
): Promise<T> {
  const { postMessage } = Worker.prototype
  const posted = mock.method(
    Worker.prototype,
    'postMessage',
    function (this: Worker, message: object) {
      if (isMeant(message)) void this.terminate()
      else postMessage.call(this, message)
    },
  )
  try {
    return await action()
  } finally {
    posted.mock.restore()
  }
}
