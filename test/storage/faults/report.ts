// The figures of a suite that proves something, as a section for docs/reliability.md, printed when PROOF_REPORT=1 asks for them.
import { arch } from 'node:os'

export function writeSection(name: string, markdown: string): void {
  if (process.env.PROOF_REPORT !== '1') return
  process.stdout.write(`\n<!-- ${name} -->\n${markdown.trim()}\n`)
}

/** Says how, when and where the figures of a section were made. */
export function describeRun(command: string): string {
  const date = new Date().toISOString().slice(0, 10)
  return `\`${command}\`, ${date}, ${arch() === 'arm64' ? 'aarch64' : 'x86_64'}.`
}
