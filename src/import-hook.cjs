// Finds the files of src/ and the 257 files of Kysely without a search, because they name what they import exactly. Node
// would look for links and package.json files, which takes 0.12 s of the CPU time of a command, and as much again in the
// thread of SQLite. Each thread loads this before anything else, so it is plain JavaScript.
'use strict'
const { registerHooks } = require('node:module')
const { pathToFileURL } = require('node:url')

/** The address of each file in src/ begins with this. */
const SOURCE = pathToFileURL(`${__dirname}/`).href

registerHooks({
  resolve(specifier, context, search) {
    const { parentURL = '' } = context
    const isKnown = parentURL.startsWith(SOURCE) || parentURL.includes('/node_modules/kysely/')
    if (!isKnown || !/^\..*\.[jt]s$/.test(specifier)) return search(specifier, context)
    const format = specifier.endsWith('.ts') ? 'module-typescript' : 'module'
    return { url: new URL(specifier, parentURL).href, format, shortCircuit: true }
  },
})
