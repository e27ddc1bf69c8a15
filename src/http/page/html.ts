// HTML as tagged templates: every value is escaped, unless it is a template itself.

export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** Null, undefined and false leave nothing. */
export type Value = string | number | Html | Html[] | null | undefined | false

export function html(parts: TemplateStringsArray, ...values: Value[]): Html {
  return new Html(String.raw({ raw: parts }, ...values.map(toText)))
}

function toText(value: Value): string {
  if (Array.isArray(value)) return value.map(toText).join('')
  if (value instanceof Html) return value.text
  if (value === null || value === undefined || value === false) return ''
  return String(value).replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)
}
