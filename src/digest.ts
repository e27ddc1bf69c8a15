// What is stored of a secret, or of what names a person: enough to know it again, not to use it.
import { hash } from 'node:crypto'

/** SHA-256, hex. */
export function digestOf(text: string): string {
  return hash('sha256', text)
}
