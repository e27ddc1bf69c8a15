// The file with the rejected rows, as they were read. It appears when the import has ended.
import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { messageOf } from '../../files.ts'
import { Failure } from '../failures.ts'

const BUFFER_BYTES = 262_144

export class RejectedFile {
  readonly path: string
  readonly #temporary: string
  #handle: FileHandle | null = null
  #waiting: Buffer[] = []
  #waitingBytes = 0

  constructor(path: string) {
    this.path = path
    this.#temporary = `${path}.${randomUUID()}.tmp`
  }

  /** The heading, if there is one, becomes the first line. */
  async add(row: Buffer, heading: Buffer | null): Promise<void> {
    if (!this.#handle) {
      this.#handle = await this.#reporting(open(this.#temporary, 'wx', 0o600))
      if (heading) this.#push(heading)
    }
    this.#push(row)
    if (this.#waitingBytes > BUFFER_BYTES) await this.#write()
  }

  /** Replaces an earlier file; does nothing if no row was rejected. */
  async finish(): Promise<void> {
    if (!this.#handle) return
    await this.#write()
    await this.#reporting(this.#handle.sync())
    await this.#handle.close()
    await this.#reporting(rename(this.#temporary, this.path))
    this.#handle = null
  }

  /** Removes what was not finished. */
  async discard(): Promise<void> {
    if (!this.#handle) return
    await this.#handle.close().catch(() => {})
    await rm(this.#temporary, { force: true })
  }

  #push(bytes: Buffer): void {
    // A copy: the row is a part of a large chunk, which would stay in memory.
    this.#waiting.push(Buffer.from(bytes))
    this.#waitingBytes += bytes.length
  }

  async #write(): Promise<void> {
    const bytes = Buffer.concat(this.#waiting)
    this.#waiting = []
    this.#waitingBytes = 0
    if (this.#handle) await this.#reporting(this.#handle.writeFile(bytes))
  }

  #reporting<T>(operation: Promise<T>): Promise<T> {
    return operation.catch(error => {
      throw new Failure(
        `The rejected rows cannot be written to ${this.path}: ${messageOf(error)}. Users that were imported before stay; run the command again when the file can be written.`,
      )
    })
  }
}
