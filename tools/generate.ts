// npm run generate: writes the files that are made of others. Tests compare them.

import { writeKernel } from './bcrypt-kernel.ts'
import { writeCommonPasswords } from './common-passwords.ts'
import { writeTables } from './document-tables.ts'

writeTables()
writeCommonPasswords()
await writeKernel()
