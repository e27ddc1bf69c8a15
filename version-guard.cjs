// Plain JavaScript that any Node can parse: it runs before the first TypeScript file is loaded.
'use strict'
const NEEDED_MAJOR = 24
if (Number(process.versions.node.split('.')[0]) < NEEDED_MAJOR) {
  process.stderr.write(
    `This service needs Node ${NEEDED_MAJOR} or newer; this is ${process.version} (${process.execPath}).\n` +
      'Run it through npm ("npm ci && npm start"), which installs a matching Node beside the\n' +
      'other packages, or install Node ' +
      NEEDED_MAJOR +
      ' yourself if you left out the optional packages.\n',
  )
  process.exit(1)
}
// Types are stripped and code is compiled once, not at every start. Where the folder cannot be
// written, Node goes on without.
require('node:module').enableCompileCache(
  require('node:path').join(__dirname, 'node_modules/.cache'),
)
