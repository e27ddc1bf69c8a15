// Asks questions at a terminal, and reads standard input.
import { createInterface, type Interface } from 'node:readline'
import { Writable } from 'node:stream'
import { Failure } from '../failures.ts'

type Screen = { input: NodeJS.ReadStream; output: NodeJS.WriteStream }

/** Asks without showing the answer on the screen. */
export async function askHidden(question: string, { input, output }: Screen): Promise<string> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  try {
    return await readLine(input, nowhere, () => output.write(question))
  } finally {
    // The echo of the return key was hidden too.
    output.write('\n')
  }
}

export async function askLine(question: string, { input, output }: Screen): Promise<string> {
  try {
    return await readLine(input, output, line => {
      line.setPrompt(question)
      line.prompt()
    })
  } catch (error) {
    output.write('\n')
    throw error
  }
}

/** Ctrl-C, Ctrl-D and a terminal that closes all close the line, which cancels the command. */
async function readLine(
  input: NodeJS.ReadStream,
  echo: Writable,
  ask: (line: Interface) => void,
): Promise<string> {
  const line = createInterface({ input, output: echo, terminal: true, historySize: 0 })
  try {
    return await new Promise<string>((resolve, reject) => {
      line.once('line', resolve)
      line.once('close', () => reject(new Failure('Cancelled; nothing was changed.')))
      // Asks only now: the terminal no longer echoes, so an answer that is typed at once stays hidden.
      ask(line)
    })
  } finally {
    line.close()
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
