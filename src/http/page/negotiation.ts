// Chooses the language and encoding that the caller prefers.

/** Far more than any browser sends. A longer header is ignored. */
const MAX_CHARACTERS = 1_000
const MAX_ENTRIES = 50

/** The names in the header in order of preference, without those of weight 0. */
function preferredIn(header = ''): string[] {
  if (header.length > MAX_CHARACTERS) return []
  return header
    .toLowerCase()
    .split(',', MAX_ENTRIES)
    .map(entry => {
      const [name = '', ...parameters] = entry.split(';').map(part => part.trim())
      const weight = parameters.find(part => part.startsWith('q='))?.slice(2) ?? '1'
      return { name, weight: Number(weight) }
    })
    .filter(({ weight }) => weight > 0)
    .toSorted((a, b) => b.weight - a.weight)
    .map(({ name }) => name)
}

/** A region without texts of its own gets those of its language: de for de-AT. */
export function chooseLanguage(header: string | undefined, languages: string[], fallback: string) {
  const longestFirst = languages.toSorted((a, b) => b.length - a.length)
  for (const tag of preferredIn(header)) {
    const language = longestFirst.find(one => `${tag}-`.startsWith(`${one.toLowerCase()}-`))
    if (language !== undefined) return language
  }
  return fallback
}

export type Encoding = 'br' | 'gzip'

/** Prefers Brotli, which is smaller, whatever weights the caller gives. */
export function chooseEncoding(header: string | string[] | undefined): Encoding | null {
  const names = preferredIn(header?.toString())
  return (['br', 'gzip'] as const).find(encoding => names.includes(encoding)) ?? null
}
