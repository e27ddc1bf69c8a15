// Asks questions at a terminal, and reads standard input.
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { Failure } from '../system/failures.ts'

type Screen = { input: NodeJS.ReadStream; output: NodeJS.WriteStream }

/**
 * Ctrl-C, Ctrl-D and a terminal that closes all close the line, which cancels the command. `isHidden`: the answer is not
 * shown on the screen.
 */
export async function ask(
  question: string,
  { input, output }: Screen,
  isHidden: boolean,
): Promise<string> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const echo = { output: isHidden ? nowhere : output, prompt: question }
  const line = createInterface({ input, ...echo, terminal: true, historySize: 0 })
  let isReturnShown = false
  try {
    return await new Promise<string>((resolve, reject) => {
      line.once('line', answer => {
        isReturnShown = !isHidden
        resolve(answer)
      })
      line.once('close', () => reject(new Failure('Cancelled; nothing was changed.')))
      // Asks only now: the terminal no longer echoes, so an answer that is typed at once stays hidden.
      if (isHidden) output.write(question)
      else line.prompt()
    })
  } finally {
    line.close()
    if (!isReturnShown) output.write('\n')
  }
}

/** Stops after the chunk that exceeds `maxBytes`, so that endless input does not fill the memory. */
export async function readAll(input: NodeJS.ReadStream, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of input) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > maxBytes) break
  }
  return Buffer.concat(chunks)
}
