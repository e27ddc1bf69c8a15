// The texts of the pages in every language. The type check fails for a language that lacks a key.
import de from '../../page/texts/de.json' with { type: 'json' }
import en from '../../page/texts/en.json' with { type: 'json' }
import { Html, html, type Value } from './html.ts'
import { chooseLanguage } from './negotiation.ts'

export type TextKey = keyof typeof en

const LANGUAGES: Record<string, Record<TextKey, string>> = { en, de }

export type Texts = {
  language: string
  /** The names of the other languages. */
  others: [language: string, name: string][]
  text: (key: TextKey, values?: Record<string, string | number>) => string
  /** The same with templates as values. */
  markup: (key: TextKey, values: Record<string, Value>) => Html
}

/** In the language that `lang` names, otherwise in the one that the browser prefers. */
export function textsFor(lang: unknown, acceptLanguage: string | undefined): Texts {
  const languages = Object.keys(LANGUAGES)
  const language =
    languages.find(one => one === lang) ?? chooseLanguage(acceptLanguage, languages, 'en')
  const texts = LANGUAGES[language] ?? en
  /** The pieces of a text, with its values between them. */
  const fill = <V>(key: TextKey, values: Record<string, V>) =>
    texts[key].split(/\{(\w+)\}/).map((part, i) => (i % 2 === 0 ? part : values[part]))
  return {
    language,
    others: languages
      .filter(other => other !== language)
      .map(other => [other, LANGUAGES[other]?.languageName ?? other]),
    text: (key, values = {}) => fill(key, values).join(''),
    markup: (key, values) =>
      new Html(
        fill(key, values)
          .map(part => html`${part}`.text)
          .join(''),
      ),
  }
}
