// What the caller prefers, of what there is.

/** The names in such a header, the most wanted first; what weighs nothing is not wanted. */
function wanted(header = ''): string[] {
  return header
    .toLowerCase()
    .split(',')
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
  return (
    wanted(header)
      .flatMap(widening)
      .map(tag => languages.find(language => language.toLowerCase() === tag))
      .find(language => language !== undefined) ?? fallback
  )
}

/** zh-hant-tw, zh-hant, zh */
function widening(tag: string): string[] {
  const parts = tag.split('-')
  return parts.map((_, index) => parts.slice(0, parts.length - index).join('-'))
}

export type Encoding = 'br' | 'gzip'

/** The smaller one wins, whichever the caller would rather have. */
export function chooseEncoding(header: string | string[] | undefined): Encoding | null {
  const names = wanted(header?.toString())
  return (['br', 'gzip'] as const).find(encoding => names.includes(encoding)) ?? null
}
