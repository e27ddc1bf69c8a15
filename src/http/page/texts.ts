// The texts of the pages in every language. The type check fails for a language that lacks a key.
import de from '../../page/texts/de.json' with { type: 'json' }
import en from '../../page/texts/en.json' with { type: 'json' }
import { Html, html, type Value } from './html.ts'
import { chooseLanguage } from './negotiation.ts'

export type TextKey = keyof typeof en

const ENGLISH = toLanguage('en', en)
const LANGUAGES: Record<string, Language> = { en: ENGLISH, de: toLanguage('de', de) }

type Language = ReturnType<typeof toLanguage>

/** Formats are made once: making one takes as long as rendering many sessions. */
function toLanguage(language: string, texts: Record<TextKey, string>) {
  const style = { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' } as const
  const wait = (unit: string) =>
    new Intl.NumberFormat(language, { style: 'unit', unit, unitDisplay: 'long' })
  const time = new Intl.DateTimeFormat(language, style)
  const date = new Intl.DateTimeFormat(language, { ...style, timeStyle: undefined })
  return { texts, time, date, minutes: wait('minute'), hours: wait('hour') }
}

export type Texts = {
  language: string
  /** The names of the other languages. */
  others: [language: string, name: string][]
  text: (key: TextKey, values?: Record<string, string | number>) => string
  /** The same with templates as values. */
  markup: (key: TextKey, values: Record<string, Value>) => Html
  /** "Nov 19, 2026, 3:14 AM UTC" */
  toTime: (moment: Date) => string
  /** "Nov 19, 2026" */
  toDate: (moment: Date) => string
  /** "15 minutes" */
  toWait: (seconds: number) => string
}

/** In the language that `lang` names, otherwise in the one that the browser prefers. */
export function textsFor(lang: unknown, acceptLanguage: string | undefined): Texts {
  const languages = Object.keys(LANGUAGES)
  const language =
    languages.find(one => one === lang) ?? chooseLanguage(acceptLanguage, languages, 'en')
  const { texts, time, date, minutes, hours } = LANGUAGES[language] ?? ENGLISH
  /** The pieces of a text, with its values between them. */
  const fill = <V>(key: TextKey, values: Record<string, V>) =>
    texts[key].split(/\{(\w+)\}/).map((part, i) => (i % 2 === 0 ? part : values[part]))
  return {
    language,
    others: languages
      .filter(other => other !== language)
      .map(other => [other, LANGUAGES[other]?.texts.languageName ?? other]),
    text: (key, values = {}) => fill(key, values).join(''),
    markup: (key, values) =>
      new Html(
        fill(key, values)
          .map(part => html`${part}`.text)
          .join(''),
      ),
    toTime: moment => `${time.format(moment)} UTC`,
    toDate: moment => date.format(moment),
    toWait(seconds) {
      const wait = Math.max(1, Math.ceil(seconds / 60))
      return wait < 120 ? minutes.format(wait) : hours.format(Math.ceil(wait / 60))
    },
  }
}
