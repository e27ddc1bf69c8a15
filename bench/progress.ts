// Progress on stderr: one line that is overwritten on a terminal, one line per step elsewhere.

export function createProgress(): (text: string) => void {
  const startMs = performance.now()
  const { stderr } = process
  return text => {
    const seconds = Math.round((performance.now() - startMs) / 1_000)
    const clock = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
    if (!stderr.isTTY) stderr.write(`${clock} ${text}\n`)
    else stderr.write(`\r\x1b[K${`${clock} ${text}`.slice(0, stderr.columns - 1)}`)
  }
}
