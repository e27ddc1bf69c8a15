// A file that takes another's place as a whole: readers see the old one or the new one.
import { randomUUID } from 'node:crypto'
import { open } from 'node:fs/promises'

/** Writes it beside its place, on the disk for good; the caller renames or links it. */
export async function writeDraft(path: string, text: string, mode: number): Promise<string> {
  const draft = `${path}.${randomUUID()}.draft`
  const handle = await open(draft, 'wx', mode)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
  return draft
}
