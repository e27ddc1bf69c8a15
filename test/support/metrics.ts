// Reads the metrics of a service, as Prometheus does.

/** Each series with its labels, as it is printed, and its value. */
export type Series = Map<string, number>

export async function scrape(opsPort: number | string, host = '127.0.0.1'): Promise<Series> {
  // Without a connection that the service may close at the moment in which it is used again.
  const headers = { Connection: 'close' }
  const answer = await fetch(`http://${host}:${opsPort}/metrics`, { headers })
  const lines = (await answer.text()).split('\n').filter(line => line !== '' && line[0] !== '#')
  return new Map(
    lines.map(line => {
      const at = line.lastIndexOf(' ')
      return [line.slice(0, at), Number(line.slice(at + 1))]
    }),
  )
}

/** The names of the metrics, without the endings of histograms. */
export function namesOf(series: Series): Set<string> {
  return new Set(
    [...series.keys()].flatMap(text => {
      const name = text.replace(/\{.*/s, '')
      return [name, name.replace(/_(bucket|sum|count)$/, '')]
    }),
  )
}
