// The file with the rejected rows and their reasons. It appears when the import has ended.
import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { messageOf } from '../../files.ts'
import { Failure } from '../failures.ts'

export class RejectedFile {
  readonly path: string
  readonly #temporary: string
  #handle: FileHandle | null = null

  constructor(path: string) {
    this.path = path
    this.#temporary = `${path}.${randomUUID()}.tmp`
  }

  /** The heading becomes the first line. */
  async add(row: Buffer | string, heading: string): Promise<void> {
    if (!this.#handle) {
      this.#handle = await this.#reporting(open(this.#temporary, 'wx', 0o600))
      await this.#reporting(this.#handle.appendFile(heading))
    }
    await this.#reporting(this.#handle.appendFile(row))
  }

  /** Replaces an earlier file; does nothing if no row was rejected. */
  async finish(): Promise<void> {
    if (!this.#handle) return
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

  #reporting<T>(operation: Promise<T>): Promise<T> {
    return operation.catch(error => {
      throw new Failure(
        `The rejected rows cannot be written to ${this.path}: ${messageOf(error)}. Users that were imported before stay; run the command again when the file can be written.`,
      )
    })
  }
}
