// Texts of any characters, for properties that hold for all of them; and texts that a lookup may mistake.
import fc from 'fast-check'

/** Every object has these properties: text that names one of them must find nothing. */
export const INHERITED = Object.getOwnPropertyNames(Object.prototype)

const SURROGATES = { first: 0xd800, count: 0x800 }

/** The same as the unit `binary` of fast-check, without a table of all characters, which takes a second to build. */
const unit = fc
  .integer({ min: 0, max: 0x10ffff - SURROGATES.count })
  .map(n => String.fromCodePoint(n < SURROGATES.first ? n : n + SURROGATES.count))

export const anyText = (maxLength?: number) =>
  fc.string({ unit, ...(maxLength !== undefined && { maxLength }) })
