import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { loadConfig } from '../../config/config.ts'
import { joinModules, loadPage } from './page.ts'

test('modules are joined without their imports and exports, also if an import is wrapped', () => {
  const first = "// A module.\nexport const one = 1\n/** @typedef {import('./b.js').B} B */\n"
  const second =
    "import {\n  one,\n} from './first.js'\nimport { two } from './second-one.js'\none + two\n"
  const joined = joinModules([first, second])
  assert.match(joined, /^const one = 1$/m)
  assert.doesNotMatch(joined, /^\s*(import|export)\b/m)
  assert.match(joined, /^one \+ two$/m)
})

const LEFT: [string, string][] = [
  ['a package', "import x from 'x'\n"],
  ['an import for its effects', "import './first.js'\n"],
  ['an export of another module', "export * from './first.js'\n"],
  ['an indented import', "  import { a } from './first.js'\n"],
]
for (const [name, module] of LEFT) {
  test(`${name} fails the start instead of breaking the page`, () => {
    assert.throws(() => joinModules([module]), /cannot be joined/)
  })
}

test('the joined script has no name twice', async t => {
  const { assets } = await loadPage(loadConfig({}))
  const [, script] = [...assets].find(([address]) => address.endsWith('.js')) ?? []
  const folder = await mkdtemp(join(tmpdir(), 'login-page-'))
  t.after(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'login.mjs'), script?.bytes ?? '')
  await promisify(execFile)(process.execPath, ['--check', join(folder, 'login.mjs')])
})
