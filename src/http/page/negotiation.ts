// What the caller prefers, of what there is.

/** No browser's header comes near it. A longer one is not read. */
const MAX_CHARACTERS = 1_000
const MAX_ENTRIES = 50

/** The names in such a header, the most wanted first; what weighs nothing is not wanted. */
function wanted(header = ''): string[] {
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

/** Where there is no file for a region, by the language alone: de-AT is served with de. */
export function chooseLanguage(header: string | undefined, languages: string[], fallback: string) {
  const longestFirst = languages.toSorted((a, b) => b.length - a.length)
  for (const tag of wanted(header)) {
    const language = longestFirst.find(one => `${tag}-`.startsWith(`${one.toLowerCase()}-`))
    if (language !== undefined) return language
  }
  return fallback
}

export type Encoding = 'br' | 'gzip'

/** The smaller one wins, whichever the caller would rather have. */
export function chooseEncoding(header: string | string[] | undefined): Encoding | null {
  const names = wanted(header?.toString())
  return (['br', 'gzip'] as const).find(encoding => names.includes(encoding)) ?? null
}
