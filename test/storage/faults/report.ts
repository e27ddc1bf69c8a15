// docs/reliability.md: each suite that proves something writes its own section, when PROOF_REPORT=1 asks for it.
import { readFileSync, writeFileSync } from 'node:fs'
import { arch } from 'node:os'
import { join } from 'node:path'

const REPORT = join(import.meta.dirname, '../../../docs/reliability.md')

/** Replaces the text between `<!-- name -->` and `<!-- /name -->`; a new section is added at the end. */
export function writeSection(name: string, markdown: string): void {
  if (process.env.PROOF_REPORT !== '1') return
  const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
  const section = `${begin}\n${markdown.trim()}\n${end}`
  const report = readFileSync(REPORT, 'utf8')
  const [from, to] = [report.indexOf(begin), report.indexOf(end)]
  writeFileSync(
    REPORT,
    from < 0 || to < 0
      ? `${report.trimEnd()}\n\n${section}\n`
      : report.slice(0, from) + section + report.slice(to + end.length),
  )
}

/** Says how, when and where the figures of a section were made. */
export function describeRun(command: string): string {
  const date = new Date().toISOString().slice(0, 10)
  return `\`${command}\`, ${date}, ${arch() === 'arm64' ? 'aarch64' : 'x86_64'}.`
}
